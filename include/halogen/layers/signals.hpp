// Layers for signals, (N, C, W): Conv1d, ConvTranspose1d, MaxPool1d, AvgPool1d, LpPool1d, ReflectionPad1d,
// ReplicationPad1d, CircularPad1d, BatchNorm1d and InstanceNorm1d, as torch.nn's. Formulas, halos, collectives,
// refusals and initial values are those of the layers for planes with windows of one row: conv2d.hpp,
// conv_transpose2d.hpp, max_pool2d.hpp, avg_pool2d.hpp, pad.hpp, batch_norm.hpp, group_norm.hpp. Layers without windows
// (activations, norms, Linear, GlobalAvgPool, Map, expand, UpsampleToSkip<Nearest>) take signals as they are.
//
//   x: (N, In, W) -> y: (N, Out, W'), W' by PyTorch's formulas; the weight is (Out, In / groups, K)
//
//   placements of x       placements of y     forward and backward
//   Shard<2>              the same, derived   a halo, as the layers of planes
//   Shard<0>, Replicate   the same            as the layers of planes
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
#pragma once

#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/batch_norm.hpp"
#include "halogen/layers/conv_transpose2d.hpp"
#include "halogen/layers/lp_pool2d.hpp"

namespace halogen {
namespace detail {

inline constexpr Operation conv1d_operation{"conv1d", convolution_forward, convolution_vjp, false, true};
inline constexpr Operation conv_transpose1d_operation{"conv_transpose1d", convolution_forward, convolution_vjp, false,
                                                      true};
inline constexpr Operation max_pool1d_operation{"max_pool1d", max_pool_forward, max_pool_vjp};

}  // namespace detail

/// Options in any order, a number each: Kernel<K> (1), Stride (1), Padding (0) and PaddingAfter (equal), or Same,
/// Dilation (1), Groups (1), Boundary<Width> (Zero), Bias<bool> (true).
template <int In, int Out, class... Options>
struct Conv1d
    : detail::types::ConvolutionLayer<Conv1d<In, Out, Options...>, detail::conv1d_operation, 1, In, Out, Options...> {};

/// The same, and OutputPadding (0) or OutputToSkip.
template <int In, int Out, class... Options>
struct ConvTranspose1d : detail::types::ConvTransposeLayer<ConvTranspose1d<In, Out, Options...>,
                                                           detail::conv_transpose1d_operation, 1, In, Out, Options...> {
};

/// MaxPool1d<2>, MaxPool1d<3, Stride<2>, Padding<1>>; stride defaults to the kernel.
template <int Size, class... Options>
struct MaxPool1d : detail::types::MaxPoolLayer<MaxPool1d<Size, Options...>, detail::max_pool1d_operation, 1,
                                               Kernel<Size>, Options...> {};
template <int Size, class... Options>
struct AvgPool1d : detail::types::AvgPoolLayer<AvgPool1d<Size, Options...>, 1, Kernel<Size>, Options...> {};

template <int P, int Size, class... Options>
struct LpPool1d : detail::LpPool<P, AvgPool1d<Size, typename detail::option_of_powers<P, Options>::type...>> {
  static_assert(P > 0, "a norm of a whole power");
};

template <int... Points>
struct ReflectionPad1d : detail::PadLayer<ReflectionPad1d<Points...>, 1, Edge::reflect, Points...> {};
template <int... Points>
struct ReplicationPad1d : detail::PadLayer<ReplicationPad1d<Points...>, 1, Edge::replicate, Points...> {};
template <int... Points>
struct CircularPad1d : detail::PadLayer<CircularPad1d<Points...>, 1, Edge::periodic, Points...> {};

template <int Channels, class... Options>
using BatchNorm1d = BatchNorm<Channels, Options...>;
template <int Channels, class... Options>
using InstanceNorm1d = InstanceNorm<Channels, Options...>;

}  // namespace halogen
