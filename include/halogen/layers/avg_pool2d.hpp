// AvgPool2d: y[n, c, o] = mean over the window of x[n, c, o * stride - padding + i], as torch.nn.AvgPool2d: the zeros
// of the padding count (count_include_pad=True).
//
//   x: (N, C, H, W) -> y: (N, C, floor((H + 2 PH - KH) / SH) + 1, the same of W); rows that do not fill a window are
//   not read, their gradient is 0. Overlapping windows (stride < kernel) and gaps (stride > kernel) too.
//
//   placements of x       placements of y     forward                           backward
//   Shard<2>, Shard<3>    the same, derived   halo of padding before and         of y's gradient, the other way
//                                             kernel - 1 - padding after, where
//                                             a window crosses a cut
//   Shard<0>, Replicate   the same            nothing                           nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Accumulation: in row order, then times 1 / (KH KW). vjp: an input's owner adds the windows that hold it.
#pragma once

#include "halogen/kernels/avg_pool.hpp"
#include "halogen/layers/max_pool2d.hpp"

namespace halogen {
namespace detail {

struct AvgPoolForward {
  static constexpr const char* label = "halogen::avg_pool";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::AvgPoolRows<S>{at.windowed_value(0), at.windows()};
  }
};

struct AvgPoolBackward {
  static constexpr const char *label = "halogen::avg_pool_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::AvgPoolBackwardRows<S>{at.gradient(0), at.first_channel(), at.windows()};
  }
};

constexpr void avg_pool2d_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<AvgPoolForward>(node).read(planner.read(node, Pattern::window())));
}

constexpr void avg_pool2d_vjp(Planner& planner, const Node& node) {
  const int reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<AvgPoolBackward>(node);
  launch.read(planner.gradient(reads, Pattern::adjoint()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation avg_pool2d_operation{"avg_pool2d", avg_pool2d_forward, avg_pool2d_vjp};

}  // namespace detail

/// AvgPool2d<2> or AvgPool2d<3, Stride<2>, Padding<1>>, AvgPool2d<2, Kernel<2, 1>>; stride defaults to the kernel.
template <int Size, class... Options>
struct AvgPool2d : Module<AvgPool2d<Size, Options...>> {
  static constexpr auto options = detail::pool_options<2, Kernel<Size>, Options...>();
  static_assert(detail::pools(options, false),
                "AvgPool2d takes Kernel, Stride, and Padding of at most half the kernel");

  constexpr Traced forward(Traced x) const { return detail::add_pool(x, detail::avg_pool2d_operation, options); }
};

}  // namespace halogen
