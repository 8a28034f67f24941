// MaxPool2d: y[n, c, o] = max over the window of x[n, c, o * stride + i], as torch.nn.MaxPool2d without padding.
//
//   x: (N, C, H, W) -> y: (N, C, floor((H - KH) / SH) + 1, floor((W - KW) / SW) + 1); rows that do not fill a window
//   are not read, their gradient is 0. Overlapping windows (stride < kernel) and gaps (stride > kernel) too.
//
//   placements of x       placements of y     forward                           backward
//   Shard<2>, Shard<3>    the same, derived   halo of kernel - 1 after, where    the same of y's gradient, before
//                                             a window crosses a cut
//   Shard<0>, Replicate   the same            nothing                           nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// vjp: the gradient of each output goes to the first largest input of its window, row by row, as PyTorch's; the
// owner of an input gathers from all windows that hold it (no halo_reduce).
#pragma once

#include "halogen/layers/module.hpp"
#include "halogen/layers/window_options.hpp"

namespace halogen {
namespace detail {

constexpr void max_pool2d_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, LaunchKind::max_pool_forward, planner.read(node));
}

constexpr void max_pool2d_vjp(Planner& planner, const Node& node) {
  const int reads = planner.gradient_of(node);
  if (reads >= 0)
    planner.emit_input_gradients(node, LaunchKind::max_pool_backward, planner.value_of(node.inputs[0]), reads);
}

inline constexpr Operation max_pool2d_operation{"max_pool2d", max_pool2d_forward, max_pool2d_vjp};

}  // namespace detail

/// MaxPool2d<2> or MaxPool2d<2, Stride<1>>, MaxPool2d<3, Stride<2>>, MaxPool2d<2, Kernel<2, 1>>; stride defaults to the
/// kernel.
template <int Size, class... Options>
struct MaxPool2d : Module<MaxPool2d<Size, Options...>> {
  static constexpr detail::WindowOptions options = [] {
    detail::WindowOptions o = detail::window_options<Kernel<Size>, Options...>();
    for (Window& window : o.window)
      if (!o.has_stride) window.stride = window.kernel;
    return o;
  }();
  static_assert(!options.has_bias, "MaxPool2d has no bias");
  static_assert(options.groups == 1, "MaxPool2d has no groups: each channel is its own");
  static_assert(!options.window[0].periodic && !options.window[1].periodic,
                "MaxPool2d takes no Boundary: without padding no window leaves the field");
  static_assert(options.window[0].padding == 0 && options.window[1].padding == 0, "MaxPool2d takes no padding");
  static_assert(!options.to_skip && options.window[0].output_padding == 0 && options.window[1].output_padding == 0,
                "MaxPool2d takes no OutputPadding");
  static_assert(options.window[0].dilation == 1 && options.window[1].dilation == 1, "MaxPool2d takes no dilation");

  constexpr Traced forward(Traced x) const {
    Graph& graph = *x.graph;
    Node node;
    node.operation = &detail::max_pool2d_operation;
    node.layer = graph.next_layer();
    node.inputs[0] = x.node;
    node.channels = (*x).channels;
    node.window[0] = options.window[0];
    node.window[1] = options.window[1];
    node.level = graph.level_through((*x).level, node.window[0], node.window[1]);
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
