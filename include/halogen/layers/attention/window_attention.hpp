// WindowAttention1d, 2d, 3d<Channels, Heads, Kernel<...>, options>: attention inside windows that divide a field,
// shifted or not, with a learned bias for each distance (Liu et al. 2021), as torchvision's ShiftedWindowAttention of
// (N, H, W, C):
//
//   q, k, v = qkv(x);  y = proj(o),  o[n, h, p] = sum over the points j of the window of p of
//   softmax_j(q[p] k[j] / sqrt(C / Heads) + relative_position_bias_table[p - j, h]) v[j]
//
//   x: (N, C, H, W), (N, C, W) or (N, C, D, H, W) -> y: the same; parameters: qkv.weight (3 C, C), qkv.bias (3 C),
//   relative_position_bias_table ((2 K_h - 1) (2 K_w - 1), Heads), proj.weight (C, C), proj.bias (C)
//
//   placements of x        placements of y   forward              backward
//   Shard<2> and beyond    the same          halo exchange of qkv halo exchanges of qkv, of y's gradient, and of 3
//                                                                 numbers for each head and query; the bucket
//   Shard<0>               the same          nothing              the bucket
//   Replicate              the same          nothing              nothing
//   Shard<1>, Partial      does not compile: why::channels_are_cut, why::input_is_partial
//
// WindowAttend1d, 2d, 3d<Heads, options> is attention without the linear layers: (N, 3 C, ...) -> (N, C, ...), query,
// key and value in this order, each heads by features. Its parameter is the table.
//
// Windows have `kernel` points. One of them begins at the point `Shifted` (0). Windows that reach beyond the field have
// fewer points: with a shift, the first and the last. torchvision does the same with a mask that separates points which
// its roll made neighbours. If windows do not divide the field, torchvision pads it, and attends to the pads without a
// mask; so does PadToWindows<>, else no point sees a pad. A dimension of at most `kernel` points is not shifted, as in
// torchvision. In a Periodic dimension a shifted window continues at the other end.
//
// Halo: the points between a piece's ends and the ends of the windows there; none if a cut is the end of a window
// (stencil/neighborhood.hpp). vjp: as NeighborhoodAttention; the table's gradient is a sum over the queries of a rank,
// then over the ranks in the bucket. Accumulation: kernels/neighborhood/neighborhood_attention.hpp,
// kernels/neighborhood/neighborhood_bias_sums.hpp. Errors: CollectiveError if a periodic dimension is shifted and
// windows do not divide it; why::groups_do_not_divide if heads do not divide channels.
#pragma once

#include "halogen/layers/attention/neighborhood_attention.hpp"
#include "halogen/layers/attention/whole_windows.hpp"

namespace halogen {

/// The point at which a window begins, counted from the first point of the field: one number for all dimensions, or one
/// for each.
template <int... Points>
struct Shifted {};
/// Where windows do not divide the field, it is padded with zeros at its end, before qkv, and points attend to the pads
/// too, as in Swin and torchvision. This takes two launches more, also where windows divide the field.
template <bool On = true>
struct PadToWindows {};

namespace detail {

inline constexpr Operation window_attention_operation{"window_attention", neighborhood_forward<true>,
                                                      neighborhood_vjp<true>};

template <int Dimensions>
struct DividedOptions : AttendedOptions<Dimensions> {
  using WindowOptions<Dimensions>::set;
  template <int... Points>
  constexpr void set(Shifted<Points...>) {
    this->template each<Points...>([](Window& w, int point) { w.shift = point; });
  }
  template <bool On>
  constexpr void set(PadToWindows<On>) {
    pads_to_windows = On;
  }
  bool pads_to_windows = false;

  constexpr bool divide() const {
    return std::ranges::all_of(this->window,
                               [](const Window& w) { return w.dilation == 1 && w.shift >= 0 && w.shift < w.kernel; });
  }
  /// Distances of two points of a window.
  constexpr int distances() const {
    int all = 1;
    for (const Window& w : this->window) all *= 2 * w.kernel - 1;
    return all;
  }
};

template <int Dimensions, class... Options>
constexpr DividedOptions<Dimensions> divided_options() {
  DividedOptions<Dimensions> options;
  for (int d = spatial_dimensions - Dimensions; d < spatial_dimensions; ++d)
    options.window[d].ends = WindowEnds::divided;
  (options.set(Options{}), ...);
  return options;
}

template <int Dimensions>
constexpr Traced add_windows(Traced x, const DividedOptions<Dimensions>& options,
                             const NeighborhoodConstants& constants) {
  const Traced y = add_neighborhood<Dimensions>(x, options, constants, window_attention_operation);
  // uniform, of deviation 1 / sqrt(3 fan_in) = 0.02, as Swin's
  y.graph->nodes[y.node].parameter = y.graph->add_parameter(
      "relative_position_bias_table", {.shape = {options.distances(), constants.heads}, .rank = 2, .fan_in = 833});
  return y;
}

namespace types {

template <int Dimensions, int Heads, class... Options>
struct WindowsOf {
  static_assert(Heads > 0, "attention has heads");
  static constexpr auto options = divided_options<Dimensions, Options...>();
  static_assert(options.are_plain(),
                "attention in windows takes Kernel, Shifted, and Boundary of Zero, where the last windows end with the "
                "field, or Periodic");
  static_assert(options.divide(), "windows are shifted by 0 to kernel - 1 points and have no dilation");
  static constexpr NeighborhoodConstants constants{{}, Heads};
};

template <class Self, int Dimensions, int Heads, class... Options>
struct WindowAttendLayer : Module<Self> {
  using Of = WindowsOf<Dimensions, Heads, Options...>;
  static_assert(!Of::options.has_bias && !Of::options.pads_to_windows,
                "Bias and PadToWindows are options of WindowAttention, which has qkv");

  constexpr Traced forward(Traced x) const { return add_windows<Dimensions>(x, Of::options, Of::constants); }
};

/// Qkv and Project: layers that work on each point.
template <class Self, int Dimensions, int Heads, class Qkv, class Project, class... Options>
struct WindowAttentionLayer : Module<Self> {
  using Of = WindowsOf<Dimensions, Heads, Options...>;
  Named<"qkv", Qkv> qkv;
  Named<"proj", Project> proj;

  constexpr Traced forward(Traced x) const {
    const auto attend = [this](Traced of) { return add_windows<Dimensions>(qkv(of), Of::options, Of::constants); };
    if constexpr (Of::options.pads_to_windows)
      return proj(placed_on(attend(padded_to_windows(x, Of::options.window)), (*x).level, crop_to_field_operation));
    else
      return proj(attend(x));
  }
};

}  // namespace types
}  // namespace detail

/// Options in any order: Kernel<W>, Shifted (0), Boundary<Width> (Zero).
template <int Heads, class... Options>
struct WindowAttend1d : detail::types::WindowAttendLayer<WindowAttend1d<Heads, Options...>, 1, Heads, Options...> {};
/// The same by height and width, and by depth, height and width.
template <int Heads, class... Options>
struct WindowAttend2d : detail::types::WindowAttendLayer<WindowAttend2d<Heads, Options...>, 2, Heads, Options...> {};
template <int Heads, class... Options>
struct WindowAttend3d : detail::types::WindowAttendLayer<WindowAttend3d<Heads, Options...>, 3, Heads, Options...> {};

/// The same with the linear layers. Two more options: Bias<bool> (true), of qkv, and PadToWindows<bool> (false).
template <int Channels, int Heads, class... Options>
struct WindowAttention1d : detail::types::WindowAttentionLayer<
                               WindowAttention1d<Channels, Heads, Options...>, 1, Heads,
                               Linear<Channels, 3 * Channels, Bias<detail::divided_options<1, Options...>().bias>>,
                               Linear<Channels, Channels>, Options...> {};
template <int Channels, int Heads, class... Options>
struct WindowAttention2d : detail::types::WindowAttentionLayer<
                               WindowAttention2d<Channels, Heads, Options...>, 2, Heads,
                               Linear<Channels, 3 * Channels, Bias<detail::divided_options<2, Options...>().bias>>,
                               Linear<Channels, Channels>, Options...> {};
template <int Channels, int Heads, class... Options>
struct WindowAttention3d : detail::types::WindowAttentionLayer<
                               WindowAttention3d<Channels, Heads, Options...>, 3, Heads,
                               Linear<Channels, 3 * Channels, Bias<detail::divided_options<3, Options...>().bias>>,
                               Linear<Channels, Channels>, Options...> {};

}  // namespace halogen
