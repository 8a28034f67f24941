// MaxPool3d: y[n, c, o] = max over the window of x[n, c, o * stride - padding + i * dilation], as torch.nn.MaxPool3d;
// padding is never the largest value.
//
//   x: (N, C, D, H, W) -> y: (N, C, floor((D + 2 PD - DD (KD - 1) - 1) / SD) + 1, and so H and W). Planes and rows that
//   do not fill a window are not read, and their gradient is 0. Overlapping windows (stride < kernel) and gaps
//   (stride > kernel) work.
//
//   placements of x                 placements of y     forward                            backward
//   Shard<2>, Shard<3>, Shard<4>    the same, derived   halo of padding before and          the same of y's gradient,
//                                                       dilation (kernel - 1) - padding     the other way
//                                                       after, where a window crosses a cut
//   Shard<0>, Replicate             the same            nothing                           nothing
//   Shard<1>, Partial               does not compile: why::channels_are_cut, why::input_is_partial
//
// vjp: the gradient of each output goes to the first largest input of its window, plane by plane and row by row, as
// PyTorch's; the owner of an input gathers from all windows that contain it (no halo_reduce).
#pragma once

#include "halogen/layers/max_pool2d.hpp"

namespace halogen {
namespace detail {

inline constexpr Operation max_pool3d_operation{"max_pool3d", max_pool_forward, max_pool_vjp};

}  // namespace detail

/// MaxPool3d<2> or MaxPool3d<3, Stride<2>, Padding<1>>, MaxPool3d<2, Kernel<1, 2, 2>>; stride defaults to the kernel.
template <int Size, class... Options>
struct MaxPool3d : detail::types::MaxPoolLayer<MaxPool3d<Size, Options...>, detail::max_pool3d_operation, 3,
                                               Kernel<Size>, Options...> {};

}  // namespace halogen
