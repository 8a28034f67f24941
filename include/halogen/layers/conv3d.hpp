// Conv3d: y[n, k, o] = bias[k] + sum over c, i of w[k, c, i] * x[n, c, o * stride - padding + i * dilation]
//
//   x: (N, In, D, H, W)  w: (Out, In / G, KD, KH, KW)  bias: (Out)  ->  y: (N, Out, D', H', W'),
//   D' = floor((D + 2 padding - dilation (KD - 1) - 1) / stride) + 1, as torch.nn.Conv3d; H', W' likewise.
//
//   placements of x                 placements of y     forward                      backward
//   Shard<0>                        Shard<0>            nothing                      weights' gradient in the bucket
//   Shard<2>, Shard<3>, Shard<4>    the same, derived   halo exchange of x's source  halo exchange of y's gradient; the
//                                                                                    bucket
//   Replicate                       Replicate           nothing                      nothing
//   Shard<1>, Partial               does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo per dimension: at most padding before and dilation (kernel - 1) - padding after (stencil/window.hpp).
// Accumulation: the owner computes each output as one sum, in one order: bitwise the same on any mesh. Each output
// plane is computed as a two-dimensional convolution of In * KD channels: the planes of its window are channels
// (kernels/rows/views.hpp). The memory of w does not change. Starts as PyTorch: weight and bias uniform in +-1/sqrt(In
// / G KD KH KW).
#pragma once

#include "halogen/layers/conv2d.hpp"

namespace halogen {
namespace detail {

inline constexpr Operation conv3d_operation{"conv3d", convolution_forward, convolution_vjp, false, true};

}  // namespace detail

/// Options in any order, one number or three: Kernel<D, H, W> (1), Stride (1), Padding (0) and PaddingAfter, or Same,
/// Dilation (1), Groups (1), Boundary<Depth, Height, Width> (Zero, Zero, Zero), Bias<bool> (true).
template <int In, int Out, class... Options>
struct Conv3d
    : detail::types::ConvolutionLayer<Conv3d<In, Out, Options...>, detail::conv3d_operation, 3, In, Out, Options...> {};

}  // namespace halogen
