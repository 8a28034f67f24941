// ConvTranspose2d: y[n, k, i * stride - padding + t * dilation] += w[c, k, t] * x[n, c, i], from bias[k] on; the
// adjoint of Conv2d with the same window.
//
//   x: (N, In, H, W)  w: (In, Out / groups, KH, KW)  bias: (Out)  ->  y: (N, Out, H', W'),
//   H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output padding + 1, as torch.nn.ConvTranspose2d. With
//   OutputToSkip H' and the cut are those of the enclosing SkipConcat's input (PyTorch's output_size).
//
//   placements of x           placements of y       forward                      backward
//   Shard<0>                  Shard<0>              nothing                      weights' gradient in the bucket
//   Shard<2>, Shard<3>        the same, c * stride  halo exchange of x's source  halo exchange of y's gradient
//   Replicate                 Replicate             nothing                      nothing
//   Shard<1>, Partial         does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo per dimension: the inputs that hold an output, at most (dilation (kernel - 1) - padding) / stride before and
// padding / stride after (stencil/window.hpp); none where kernel = stride and padding = 0.
// Accumulation: each output is gathered whole by its owner in the order (c, t), from the bias on: bitwise the same on
// any mesh. Weight gradients as Conv2d's. Periodic only where H' = stride * H.
// Starts as PyTorch: weight and bias uniform in +-1/sqrt(Out / groups KH KW).
#pragma once

#include "halogen/layers/conv2d.hpp"

namespace halogen {
namespace detail {

inline constexpr Operation conv_transpose2d_operation{"conv_transpose2d", convolution_forward, convolution_vjp, false,
                                                      true};

constexpr bool output_padding_fits(const WindowOptions<2>& options) {
  for (const Window& w : options.window)
    if (w.output_padding >= std::max(w.stride, w.dilation)) return false;
  return true;
}

}  // namespace detail

/// Options in any order: Kernel<H, W = H> (1), Stride (1), Padding (0), OutputPadding (0) or OutputToSkip,
/// Dilation (1), Groups (1), Boundary<Height, Width> (Zero, Zero), Bias<bool> (true).
template <int In, int Out, class... Options>
struct ConvTranspose2d : Module<ConvTranspose2d<In, Out, Options...>> {
  static_assert(In > 0 && Out > 0, "a convolution has channels");
  static constexpr auto options = [] {
    auto o = detail::window_options<2, Options...>();
    for (Window& window : o.window) window.transposed = true;
    return o;
  }();
  static_assert(!options.pads(), "a transposed convolution pads with zeros or periodically, as torch's with zeros");
  static_assert(detail::output_padding_fits(options), "output padding is smaller than the stride or the dilation");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node = detail::convolution_node(x, detail::conv_transpose2d_operation, In, Out, options, constants);
    if (!options.to_skip)
      node.level = graph.level_through((*x).level, node.window);
    else if (graph.skips.empty())
      graph.refuse(Misfit::Kind::upsample_without_skip, node.layer);
    else
      node.level = graph.nodes[graph.skips.back()].level;
    return detail::add_weighted<2>(graph, node, In, Out / options.groups);
  }

 private:
  static constexpr detail::ConvolutionConstants constants{{}, options.groups, options.bias};
};

}  // namespace halogen
