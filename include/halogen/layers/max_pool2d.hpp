// MaxPool2d: y[n, c, o] = max over the window of x[n, c, o * stride - padding + i * dilation], as torch.nn.MaxPool2d;
// padding is never the largest value.
//
//   x: (N, C, H, W) -> y: (N, C, floor((H + 2 PH - DH (KH - 1) - 1) / SH) + 1, the same for W). Rows that do not fill a
//   window are not read, and their gradient is 0. Overlapping windows (stride < kernel) and gaps (stride > kernel)
//   work.
//
//   placements of x       placements of y     forward                           backward
//   Shard<2>, Shard<3>    the same, derived   halo of padding before and         of y's gradient, the other way, and of
//                                             dilation (kernel - 1) - padding    x again
//                                             after, where a window crosses a cut
//   Shard<0>, Replicate   the same            nothing                           nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// vjp: the gradient of each output goes to the first largest input of its window, row by row, as PyTorch's; the
// owner of an input gathers from all windows that contain it (no halo_reduce).
#pragma once

#include "halogen/kernels/pointwise/max_pool.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/layers/read_padded.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct MaxPoolForward {
  static constexpr const char* label = "halogen::max_pool";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::MaxPoolRows<S>{at.windowed_value(0), at.windows()};
  }
};

struct MaxPoolBackward {
  static constexpr const char *label = "halogen::max_pool_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    kernels::ValueReader<S> input = at.value(1);
    for (int d = 0; d < spatial_dimensions; ++d) input.frame.periodic[d] = at.node().window[d].periodic;
    return kernels::MaxPoolBackwardRows<S>{input, at.windowed_gradient(0), at.first_channel(), at.windows()};
  }
};

constexpr void max_pool_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<MaxPoolForward>(node).read(planner.read(node, Pattern::window())));
}

constexpr void max_pool_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<MaxPoolBackward>(node);
  launch.read(planner.gradient(reads, Pattern::adjoint())).read(planner.read_again(node, Pattern::neighbours()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation max_pool2d_operation{"max_pool2d", max_pool_forward, max_pool_vjp};

/// A pool's windows. The default of the stride is the kernel.
template <int Dimensions, class... Options>
constexpr WindowOptions<Dimensions> pool_options() {
  WindowOptions<Dimensions> options = window_options<Dimensions, Options...>();
  for (Window& window : options.window)
    if (!options.has_stride) window.stride = window.kernel;
  return options;
}

/// Whether a pool can have these options: no bias or groups, and padding of at most half the kernel (PyTorch's limit).
/// So every window has a point of the field. Dilated windows may have none; their maximum is then -inf.
template <int Dimensions>
constexpr bool pools(const WindowOptions<Dimensions>& options, bool dilates) {
  bool pools = options.pads_both_ends_alike() && !options.has_bias && options.groups == 1 && !options.to_skip &&
               (options.counts_padding || !dilates);
  for (const Window& window : options.window)
    pools =
        pools && window.output_padding == 0 && 2 * window.padding <= window.kernel && (dilates || window.dilation == 1);
  return pools;
}

template <int Dimensions>
constexpr Traced add_pool(Traced x, const Operation& operation, const WindowOptions<Dimensions>& options,
                          const Constants* constants = nullptr) {
  GraphDraft& graph = *x.graph;
  Node node;
  node.operation = &operation;
  node.constants = constants;
  node.layer = graph.next_layer();
  graph.slide(Dimensions, node.layer);
  node.inputs[0] = x.node;
  node.channels = (*x).channels;
  for (int d = 0; d < spatial_dimensions; ++d) node.window[d] = options.window[d];
  read_padded(x, node, options, false);  // a maximum ignores its padding, a mean may not count it
  return {&graph, graph.add(node)};
}

namespace types {
/// A maximum pool with windows of this number of dimensions.
template <class Self, const Operation& Op, int Dimensions, class... Options>
struct MaxPoolLayer : Module<Self> {
  static constexpr auto options = pool_options<Dimensions, Options...>();
  static_assert(pools(options, true),
                "a maximum pool takes Kernel, Stride, Dilation, CeilMode, Boundary, and Padding of at most half the "
                "kernel");

  constexpr Traced forward(Traced x) const { return add_pool(x, Op, options); }
};
}  // namespace types

}  // namespace detail

/// MaxPool2d<2> or MaxPool2d<2, Stride<1>>, MaxPool2d<3, Stride<2>, Padding<1>>, MaxPool2d<2, Kernel<2, 1>>; stride
/// defaults to the kernel.
template <int Size, class... Options>
struct MaxPool2d : detail::types::MaxPoolLayer<MaxPool2d<Size, Options...>, detail::max_pool2d_operation, 2,
                                               Kernel<Size>, Options...> {};

}  // namespace halogen
