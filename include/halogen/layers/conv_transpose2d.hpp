// ConvTranspose2d, ConvTranspose3d: y[n, k, i * stride - padding + t * dilation] += w[c, k, t] * x[n, c, i], where y
// starts as bias[k]. It is the adjoint of Conv2d with the same window.
//
//   x: (N, In, H, W)  w: (In, Out / groups, KH, KW)  bias: (Out)  ->  y: (N, Out, H', W'),
//   H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output padding + 1, as torch.nn.ConvTranspose2d. With
//   OutputToSkip H' and the cut are those of the enclosing SkipConcat's input (PyTorch's output_size). Volumes: the
//   same with depth D and KD before H and KH.
//
//   placements of x           placements of y       forward                      backward
//   Shard<0>                  Shard<0>              nothing                      weights' gradient in the bucket
//   Shard<2> and beyond       the same, c * stride  halo exchange of x's source  halo exchange of y's gradient
//   Replicate                 Replicate             nothing                      nothing
//   Shard<1>, Partial         does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo per dimension: the inputs whose windows contain an output, at most (dilation (kernel - 1) - padding) / stride
// before and padding / stride after (stencil/window.hpp); none if kernel = stride and padding = 0.
// Accumulation: the owner gathers each output as one sum that starts with the bias, in the order (c, t): bitwise the
// same on any mesh. Weight gradients as Conv2d's. Periodic only where H' = stride * H.
// Starts as PyTorch: weight and bias uniform in +-1/sqrt(Out / groups KH KW).
#pragma once

#include "halogen/layers/conv2d.hpp"

namespace halogen {
namespace detail {

inline constexpr Operation conv_transpose2d_operation{"conv_transpose2d", convolution_forward, convolution_vjp, false,
                                                      true};

inline constexpr Operation conv_transpose3d_operation{"conv_transpose3d", convolution_forward, convolution_vjp, false,
                                                      true};

template <int Dimensions>
constexpr bool output_padding_fits(const WindowOptions<Dimensions>& options) {
  for (const Window& w : options.window)
    if (w.output_padding >= std::max(w.stride, w.dilation)) return false;
  return true;
}

}  // namespace detail

namespace detail::types {
template <class Self, const Operation& Op, int Dimensions, int In, int Out, class... Options>
struct ConvTransposeLayer : Module<Self> {
  static_assert(In > 0 && Out > 0, "a convolution has channels");
  static constexpr auto options = [] {
    auto o = window_options<Dimensions, Options...>();
    for (Window& window : o.window) window.transposed = true;
    return o;
  }();
  static_assert(options.pads_both_ends_alike(), "PaddingAfter and Same belong to convolutions that are not transposed");
  static_assert(!options.pads() && !options.has_constant_edges(),
                "a transposed convolution pads with zeros or periodically, as torch's with zeros");
  static_assert(output_padding_fits(options), "output padding is smaller than the stride or the dilation");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node = convolution_node(goes_on(x, options.window), Op, In, Out, options, constants);
    node.level = options.to_skip ? level_of_skip(graph, node.layer) : graph.level_through((*x).level, node.window);
    return add_weighted<Dimensions>(graph, node, In, Out / options.groups);
  }

 private:
  static constexpr ConvolutionConstants constants{{}, options.groups, options.bias};
};
}  // namespace detail::types

/// Options in any order: Kernel<H, W = H> (1), Stride (1), Padding (0), OutputPadding (0) or OutputToSkip,
/// Dilation (1), Groups (1), Boundary<Height, Width> (Zero, Zero), Bias<bool> (true).
template <int In, int Out, class... Options>
struct ConvTranspose2d : detail::types::ConvTransposeLayer<ConvTranspose2d<In, Out, Options...>,
                                                           detail::conv_transpose2d_operation, 2, In, Out, Options...> {
};
/// The same with depth first: Kernel<D, H, W>.
template <int In, int Out, class... Options>
struct ConvTranspose3d : detail::types::ConvTransposeLayer<ConvTranspose3d<In, Out, Options...>,
                                                           detail::conv_transpose3d_operation, 3, In, Out, Options...> {
};

}  // namespace halogen
