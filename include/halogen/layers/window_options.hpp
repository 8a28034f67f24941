// The options of windowed layers, in any order: Conv2d<3, 16, Kernel<3>, Stride<2>, Padding<1>, Boundary<Zero,
// Periodic>>.
#pragma once

#include <algorithm>
#include <type_traits>

#include "halogen/layers/offset_constants.hpp"
#include "halogen/stencil/boundary.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen {

/// A query sees its own point and points before it, none after. In MultiheadAttention only of signals (N, C, W), since
/// planes and volumes have no order. In attention to a neighbourhood one value for all dimensions, or one for each:
/// IsCausal<true, false>.
template <bool... On>
struct IsCausal {};
template <bool... On>
using Causal [[deprecated("it is called IsCausal, as in MultiheadAttention")]] = IsCausal<On...>;

/// One number for all dimensions of the window, or one for each: Kernel<3>, Kernel<3, 5> (height, width), Kernel<1, 3,
/// 5> (depth, height, width).
template <int... Sizes>
struct Kernel {
  static_assert(((Sizes > 0) && ...), "a kernel has at least one point");
};
template <int... Steps>
struct Stride {
  static_assert(((Steps > 0) && ...), "a stride is at least 1");
};
template <int... Points>
struct Padding {
  static_assert(((Points >= 0) && ...), "padding is not negative");
};
template <int... Steps>
struct Dilation {
  static_assert(((Steps > 0) && ...), "a dilation is at least 1");
};
template <int Count>
struct Groups {
  static_assert(Count > 0, "channels form at least one group");
};
template <int... Points>
struct OutputPadding {
  static_assert(((Points >= 0) && ...), "output padding is not negative");
};
/// The number of channels that a layer takes. A layer with parameters needs it if it is the first layer of a model.
template <int Count>
struct Channels {
  static_assert(Count > 0, "a layer has channels");
};
/// The padding at the end, if it differs from the padding at the beginning: Padding<1>, PaddingAfter<2>.
template <int... Points>
struct PaddingAfter {
  static_assert(((Points >= 0) && ...), "padding is not negative");
};
/// The padding that keeps the extents if the stride is 1, as torch's padding="same". A kernel with an even number of
/// points has one more point of padding at the end.
struct Same {};
/// The output padding that gives the extents of the enclosing SkipConcat's input.
struct OutputToSkip {};
template <bool On>
struct Bias {};
/// Average pools: whether the zeros of the padding count, as torch's count_include_pad.
template <bool Counts>
struct CountIncludePad {};
/// Pools: whether the last window may leave the field, as torch's ceil_mode.
template <bool On = true>
struct CeilMode {};

namespace detail {

/// Windows of the last Dimensions of depth, height, width. In the other dimensions a window has one point.
template <int Dimensions>
struct WindowOptions {
  Window window[spatial_dimensions];
  int groups = 1;
  bool bias = true;
  bool to_skip = false;
  bool has_stride = false, has_bias = false;
  bool counts_padding = true;
  bool same = false, keeps_extents = true;       ///< Same, and whether it can
  int after[spatial_dimensions] = {-1, -1, -1};  ///< PaddingAfter, where given
  /// The constants beyond the edges of a dimension (ConstantEdge). Dimensions with the same constant are padded
  /// together.
  ConstantPadConstants constant_edges[spatial_dimensions];
  bool is_constant[spatial_dimensions] = {};  ///< the dimension has a ConstantEdge

  template <int... Sizes>
  constexpr void set(Kernel<Sizes...>) {
    each<Sizes...>([](Window& w, int size) { w.kernel = size; });
  }
  template <int... Steps>
  constexpr void set(Stride<Steps...>) {
    each<Steps...>([](Window& w, int step) { w.stride = step; });
    has_stride = true;
  }
  template <int... Points>
  constexpr void set(Padding<Points...>) {
    each<Points...>([](Window& w, int points) { w.padding = points; });
  }
  template <int... Points>
  constexpr void set(PaddingAfter<Points...>) {
    each<Points...>([this](Window& w, int points) { after[&w - window] = points; });
  }
  template <int... Steps>
  constexpr void set(Dilation<Steps...>) {
    each<Steps...>([](Window& w, int step) { w.dilation = step; });
  }
  template <class... Edges>
  constexpr void set(Boundary<Edges...>) {
    static_assert(sizeof...(Edges) == Dimensions, "a Boundary has one edge for each dimension of the window");
    each<Edges::edge...>([](Window& w, Edge edge) {
      w.periodic = edge == Edge::periodic;
      w.pads = has_images(edge) ? edge : Edge::zero;
    });
    int d = spatial_dimensions - Dimensions;
    ((constant_edges[d].value = Edges::value, is_constant[d++] = Edges::is_constant), ...);
  }
  template <int Count>
  constexpr void set(Groups<Count>) {
    groups = Count;
  }
  template <int... Points>
  constexpr void set(OutputPadding<Points...>) {
    each<Points...>([](Window& w, int points) { w.output_padding = points; });
  }
  constexpr void set(OutputToSkip) { to_skip = true; }
  constexpr void set(Same) { same = true; }
  template <int Count>
  constexpr void set(Channels<Count>) {}
  template <bool On>
  constexpr void set(Bias<On>) {
    bias = On, has_bias = true;
  }

  template <bool Counts>
  constexpr void set(CountIncludePad<Counts>) {
    counts_padding = Counts;
  }
  template <bool On>
  constexpr void set(CeilMode<On>) {
    for (int d = spatial_dimensions - Dimensions; d < spatial_dimensions; ++d) window[d].ceil = On;
  }

  constexpr bool pads_both_ends_alike() const {
    return std::ranges::all_of(window, [](const Window& w) { return w.more_padding == 0; });
  }

  /// Whether there is no OutputPadding and no OutputToSkip, which belong to transposed windows.
  constexpr bool has_own_extent() const {
    bool own = !to_skip && counts_padding;
    for (const Window& w : window) own = own && w.output_padding == 0 && !w.ceil;
    return own;
  }

  constexpr bool has_constant_edges() const {
    return std::ranges::any_of(constant_edges, [](const ConstantPadConstants& edge) { return edge.value != 0; });
  }

  /// Whether a boundary reflects or replicates the field in the padding.
  constexpr bool pads() const { return std::ranges::any_of(window, &Window::is_pad); }

  /// Calls f(window, value) for each dimension of the window.
  template <auto... Values, class F>
  constexpr void each(F f) {
    constexpr int count = static_cast<int>(sizeof...(Values));
    static_assert(count == 1 || count == Dimensions, "an option has one number, or one for each dimension");
    const std::common_type_t<decltype(Values)...> values[] = {Values...};
    for (int d = 0; d < Dimensions; ++d) f(window[spatial_dimensions - Dimensions + d], values[count == 1 ? 0 : d]);
  }
};

template <int Dimensions, class... Options>
constexpr WindowOptions<Dimensions> window_options() {
  WindowOptions<Dimensions> options;
  (options.set(Options{}), ...);
  for (int d = 0; d < spatial_dimensions; ++d) {
    Window& w = options.window[d];
    if (options.after[d] >= 0) w.more_padding = options.after[d] - w.padding;
    if (!options.same) continue;
    options.keeps_extents = options.keeps_extents && w.stride == 1;
    w.padding = static_cast<int>((w.span() - 1) / 2);
    w.more_padding = static_cast<int>((w.span() - 1) % 2);
  }
  for (ConstantPadConstants& edges : options.constant_edges)
    for (int d = 0; d < spatial_dimensions; ++d)
      if (options.is_constant[d] && options.constant_edges[d].value == edges.value)
        edges.offset[d] = -options.window[d].padding;
  return options;
}

}  // namespace detail
}  // namespace halogen
