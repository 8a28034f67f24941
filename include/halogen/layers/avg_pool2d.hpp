// AvgPool2d, AvgPool3d: y[n, c, o] = mean over the window of x[n, c, o * stride - padding + i], as torch.nn.AvgPool2d
// and 3d. Zeros of the padding count in the mean, unless CountIncludePad<false>.
//
//   x: (N, C, H, W) -> y: (N, C, floor((H + 2 PH - KH) / SH) + 1, the same for W); likewise (N, C, D, H, W). With
//   CeilMode<> the last window may leave the field (ceil instead of floor). It counts the points in the field or its
//   padding. Without CeilMode<>, rows that do not fill a window are not read, and their gradient is 0. Overlapping
//   windows (stride < kernel) and gaps (stride > kernel) work.
//
//   placements of x       placements of y     forward                           backward
//   Shard<2> and beyond   the same, derived   halo of padding before and        of y's gradient, the other way
//                                             kernel - 1 - padding after, where
//                                             a window crosses a cut
//   Shard<0>, Replicate   the same            nothing                           nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Accumulation: plane by plane, in row order, then times 1 / points. vjp: the owner of an input adds the gradients of
// the windows that contain it.
#pragma once

#include "halogen/kernels/pointwise/avg_pool.hpp"
#include "halogen/layers/max_pool3d.hpp"

namespace halogen {
namespace detail {

struct AvgPoolConstants : Constants {
  bool counts_padding = true;
};

template <class S>
kernels::PooledPoints pooled_points(const LaunchAt<S>& at) {
  const bool counts_padding = at.node().template as<AvgPoolConstants>().counts_padding;
  kernels::PooledPoints points{{}, {}, true};
  const LevelLayout& input = at.layout().level(at.plan().input_of(at.launch()).level);
  for (int d = 0; d < spatial_dimensions; ++d) {
    const Window& window = at.node().window[d];
    const index_t padding = counts_padding ? window.padding : 0;
    const index_t beyond = window.periodic ? window.span() : padding;  // a periodic field has no end
    points.begin[d] = -beyond;
    points.end[d] = input.extent(d) + beyond;
    points.all = points.all && !window.ceil && (counts_padding || window.padding == 0 || window.periodic);
  }
  return points;
}

struct AvgPoolForward {
  static constexpr const char* label = "halogen::avg_pool";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::AvgPoolRows<S>{at.windowed_value(0), at.windows(), pooled_points(at)};
  }
};

struct AvgPoolBackward {
  static constexpr const char *label = "halogen::avg_pool_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::AvgPoolBackwardRows<S>{at.windowed_gradient(0), at.first_channel(), at.windows(),
                                           pooled_points(at)};
  }
};

constexpr void avg_pool_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<AvgPoolForward>(node).read(planner.read(node, Pattern::window())));
}

constexpr void avg_pool_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<AvgPoolBackward>(node);
  launch.read(planner.gradient(reads, Pattern::adjoint()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation avg_pool1d_operation{"avg_pool1d", avg_pool_forward, avg_pool_vjp};
inline constexpr Operation avg_pool2d_operation{"avg_pool2d", avg_pool_forward, avg_pool_vjp};
inline constexpr Operation avg_pool3d_operation{"avg_pool3d", avg_pool_forward, avg_pool_vjp};

namespace types {
template <class Self, int Dimensions, class... Options>
struct AvgPoolLayer : Module<Self> {
  static constexpr auto options = pool_options<Dimensions, Options...>();
  static_assert(
      pools(options, false),
      "an average pool takes Kernel, Stride, CountIncludePad, CeilMode, Boundary, and Padding of at most half the "
      "kernel");
  static constexpr AvgPoolConstants constants{{}, options.counts_padding};
  static constexpr const Operation& operation() {
    return Dimensions == 1 ? avg_pool1d_operation : Dimensions == 2 ? avg_pool2d_operation : avg_pool3d_operation;
  }

  constexpr Traced forward(Traced x) const { return add_pool(x, operation(), options, &constants); }
};
}  // namespace types

}  // namespace detail

/// AvgPool2d<2> or AvgPool2d<3, Stride<2>, Padding<1>>, AvgPool2d<2, Kernel<2, 1>>; stride defaults to the kernel.
template <int Size, class... Options>
struct AvgPool2d : detail::types::AvgPoolLayer<AvgPool2d<Size, Options...>, 2, Kernel<Size>, Options...> {};
/// AvgPool3d<2>, AvgPool3d<2, Kernel<1, 2, 2>>.
template <int Size, class... Options>
struct AvgPool3d : detail::types::AvgPoolLayer<AvgPool3d<Size, Options...>, 3, Kernel<Size>, Options...> {};

}  // namespace halogen
