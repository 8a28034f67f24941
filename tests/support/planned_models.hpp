// The models whose plans tests/unit/plan_fingerprints.cpp pins: between them every kind of launch, boundary and way of
// sharing a tensor. Types alone; they take their layers from the tests of the same names and from models/.
#pragma once

#include <ratio>

#include "halogen/network.hpp"

namespace support::planned {

namespace hg = halogen;
using hg::Dilation, hg::Groups, hg::Kernel, hg::Padding, hg::Stride;
using hg::Periodic, hg::Reflect, hg::ReplicateEdge, hg::Zero;

using Globe = hg::Boundary<Zero, Periodic>;
using Mirror = hg::Boundary<Reflect, Reflect>;
using Walls = hg::Boundary<ReplicateEdge, ReplicateEdge>;
template <int In, int Out, class Edges = Globe, class... Options>
using Conv = hg::Conv2d<In, Out, Kernel<3>, Padding<1>, Edges, Options...>;
using Up = hg::UpsampleToSkip<hg::Nearest>;
using LinearUp = hg::UpsampleToSkip<hg::Bilinear>;

// -- U-Nets

using UNetGlobe = hg::UNet<3, 2, 8, Globe, 4>;
using UNetZero = hg::UNet<3, 3, 16>;
using UNetThin = hg::UNet<2, 2, 2, Globe, 1>;  // no convolution of it is Winograd's
using UNetVolume = hg::UNet3d<2, 1, 8, hg::Boundary<Zero, Zero, Periodic>>;
/// What is pooled and upsampled is padded too.
using UNetMirrored =
    hg::Sequential<Conv<2, 8, Mirror>, hg::GroupNorm<2, 8>, hg::ReLU,
                   hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<8, 8, Mirror>, Up, Conv<8, 8, Walls>>>,
                   Conv<16, 8, hg::Boundary<Reflect, Periodic>>, Conv<8, 2, Mirror>>;
/// Up by transposed convolutions, to the skip's extents.
using UNetTransposed = hg::Sequential<
    hg::Conv2d<1, 3>,
    hg::SkipConcat<hg::Sequential<
        hg::AvgPool2d<2>, Conv<3, 3>, hg::GroupNorm<1, 3>, hg::ReLU,
        hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<3, 3>, hg::SiLU,
                                      hg::ConvTranspose2d<3, 2, Kernel<4>, Stride<2>, Padding<1>, hg::OutputToSkip>>>,
        hg::ConvTranspose2d<5, 2, Kernel<4>, Stride<2>, Padding<1>, hg::OutputToSkip>>>,
    Conv<5, 2>>;

// -- skips and sums

/// Three levels of skips and a sum around them; the innermost value is looked up through two levels.
using NestedSkips = hg::Sequential<
    Conv<1, 2>,
    hg::Residual<hg::Sequential<
        hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>,
                                      hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::SkipConcat<Conv<2, 2>>, Up>>,
                                      hg::ReLU, Up>>,
        hg::Conv2d<8, 2>>>,
    hg::ReLU>;

template <int C>
using Block = hg::Sequential<
    hg::Residual<hg::Sequential<Conv<C, C>, hg::GroupNorm<2, C>, hg::ReLU, Conv<C, C>, hg::GroupNorm<2, C>>>, hg::ReLU>;
using ResNet = hg::Sequential<Conv<2, 8>, hg::GroupNorm<2, 8>, hg::ReLU, Block<8>, Block<8>, hg::Conv2d<8, 3>>;

/// A shortcut of its own: two norms meet in the sum, both branches change channels and extents.
struct Shortcut : hg::Module<Shortcut> {
  constexpr hg::Traced forward(hg::Traced x) const {
    using Body = hg::Sequential<hg::Conv2d<2, 4, Kernel<3>, Stride<2>, Padding<1>>, hg::GroupNorm<2, 4>>;
    using Projection = hg::Sequential<hg::Conv2d<2, 4, Kernel<1>, Stride<2>>, hg::GroupNorm<2, 4>>;
    return hg::ReLU{}(hg::add(Body{}(x), Projection{}(x)));
  }
};
template <int C>
using Before =
    hg::Residual<hg::Sequential<hg::GroupNorm<1, C>, hg::ReLU, Conv<C, C>, hg::GroupNorm<1, C>, hg::ReLU, Conv<C, C>>>;
using Projected = hg::SkipConcat<hg::Sequential<Shortcut, Before<4>, Block<4>, Up>>;

/// The same value twice, a ReLU of what is also raw, a concatenation, something looked up, a pool of a sum.
struct OddSums : hg::Module<OddSums> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = Conv<2, 4>{}(x);
    const auto twice = hg::add(a, a);
    const auto both = hg::add(hg::concat(x, hg::Conv2d<4, 2>{}(twice)), hg::ReLU{}(twice));
    const auto down = hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::Conv2d<4, 4>, Up>>{}(both);
    return hg::add(hg::ReLU{}(down), hg::concat(both, hg::ReLU{}(a)));
  }
};

/// Two convolutions in one sum, of which the later adds the earlier; one of two readers, which adds nothing; a sum of a
/// sum; a term that is written after the convolution; a norm of a sum.
struct Terms : hg::Module<Terms> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = hg::ELU{}(Conv<2, 3>{}(x) + hg::Conv2d<2, 3>{}(x));
    const auto twice = Conv<3, 3>{}(a), late = Conv<3, 3>{}(a);
    const auto sum = Conv<3, 3>{}(hg::GELU{}(twice)) + twice;
    return hg::SiLU{}(late + hg::MaxPool2d<3, Stride<1>, Padding<1>>{}(sum)) +
           Conv<3, 3>{}(hg::ReLU{}(hg::GroupNorm<1, 3>{}(sum + Conv<3, 3>{}(sum))));
  }
};

// -- chains of windows

/// One tensor read with each boundary; mixtures of them, with strides, dilations and even kernels.
struct Boundaries : hg::Module<Boundaries> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = hg::SiLU{}(Conv<2, 3, Mirror>{}(x));
    const auto b = hg::concat(hg::concat(Conv<3, 2, Mirror>{}(a), Conv<3, 2, Walls>{}(a)),
                              hg::concat(Conv<3, 2, Globe>{}(a), Conv<3, 2, hg::Boundary<Zero, Zero>>{}(a)));
    const auto c = hg::Conv2d<8, 4, Kernel<3>, Stride<2>, Padding<1>, hg::Boundary<ReplicateEdge, Zero>>{}(b);
    const auto d = hg::Conv2d<4, 4, Kernel<3, 5>, Padding<2>, Dilation<2, 1>, hg::Boundary<Periodic, Reflect>>{}(c);
    return hg::Conv2d<4, 1, Kernel<4, 3>, Stride<3, 2>, Padding<3, 2>, hg::Boundary<Reflect, ReplicateEdge>>{}(
        hg::Tanh{}(d));
  }
};
using Strides =
    hg::Sequential<hg::Conv2d<2, 3, Kernel<5>, Stride<2>, Padding<2>>, hg::ReLU,
                   hg::Conv2d<3, 3, Kernel<2>, Padding<1>>,
                   hg::Conv2d<3, 4, Kernel<3>, Padding<2>, Dilation<2>, hg::Bias<false>>, hg::Sigmoid,
                   hg::Conv2d<4, 2, Kernel<3, 5>, Stride<2, 1>, Padding<2, 3>, Dilation<1, 2>>, hg::Conv2d<2, 2>>;

template <int Channels, class... Options>
using Depthwise = hg::Conv2d<Channels, Channels, Kernel<3>, Padding<1>, Groups<Channels>, Options...>;
/// Six channels in three groups, read as 1 + 2 + 3: no source is whole groups.
struct Straddling : hg::Module<Straddling> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto middle = hg::ReLU{}(hg::GroupNorm<1, 2>{}(hg::Conv2d<1, 2, Kernel<3>, Padding<1>>{}(x)));
    return hg::SkipConcat<hg::Sequential<hg::Conv2d<3, 3, Kernel<3>, Stride<2>, Padding<1>, Groups<3>>, Up>>{}(
        hg::concat(x, middle));
  }
};
using Grouped = hg::Sequential<Straddling, hg::Conv2d<6, 9, Kernel<3>, Padding<1>, Groups<3>, Globe>, hg::ReLU,
                               hg::Conv2d<9, 4>, Depthwise<4, Globe>, hg::GroupNorm<2, 4>, hg::GELU,
                               hg::Conv2d<4, 20, Groups<2>>, hg::Conv2d<20, 4, Kernel<7>, Padding<3>, Groups<2>>>;

template <int In, int Out, class... Options>
using Twofold = hg::ConvTranspose2d<In, Out, Kernel<4>, Stride<2>, Padding<1>, Options...>;
using Transposed =
    hg::Sequential<Twofold<2, 4, Globe>, hg::GroupNorm<2, 4>, hg::ReLU, Twofold<4, 6, Groups<2>, Globe>,
                   hg::Conv2d<6, 3, Kernel<4>, Stride<2>, Padding<1>, Globe>, hg::MaxPool2d<2>,
                   hg::Conv2d<3, 2, Kernel<3>, Stride<3>, Padding<1>>, hg::ReLU,
                   hg::ConvTranspose2d<2, 5, Kernel<5, 3>, Stride<3>, Padding<1, 0>, hg::OutputPadding<1>>,
                   hg::ConvTranspose2d<5, 2, Kernel<3>, Dilation<2>, hg::Bias<false>>>;

/// Winograd's windows of 3 and 5 between so few and so many channels that each of its kernels is chosen, with and
/// without the weights' gradient beside the input's.
using Winograd =
    hg::Sequential<Conv<3, 8>, hg::ReLU, Conv<8, 8>, Conv<8, 40>, hg::GroupNorm<4, 40>, hg::ReLU, Conv<40, 32>,
                   Conv<32, 32>, hg::Conv2d<32, 16>, hg::Conv2d<16, 16, Kernel<5>, Padding<2>>, hg::ReLU,
                   hg::Conv2d<16, 48, Kernel<5>, Padding<2>, Globe>, hg::Conv2d<48, 2>>;
using Pointwise = hg::Sequential<hg::Conv2d<3, 8>, hg::ReLU, hg::Conv2d<8, 16, hg::Bias<false>>, hg::GroupNorm<4, 16>,
                                 hg::LeakyReLU<std::ratio<1, 5>>, hg::Conv2d<16, 2, Kernel<1>, Stride<2>>>;

template <int In, int Out, class... Edges>
using Volume = hg::Conv3d<In, Out, Kernel<3>, Padding<1>, hg::Boundary<Edges...>>;
using Volumes =
    hg::Sequential<Volume<1, 2, ReplicateEdge, Reflect, Periodic>, hg::ReLU, Volume<2, 2, Reflect, Zero, ReplicateEdge>,
                   hg::ReplicationPad3d<1>,
                   hg::SkipConcat<hg::Sequential<
                       hg::MaxPool3d<3, Kernel<3, 2, 3>, Stride<1, 2, 1>, Padding<1, 0, 1>, Dilation<2, 1, 1>>,
                       hg::GroupNorm<1, 2>, hg::Conv3d<2, 8, Kernel<3, 1, 1>, Stride<2, 1, 1>>, Up>>,
                   hg::Conv3d<10, 8, Kernel<3, 3, 5>, Stride<2, 1, 1>, Padding<1, 2, 2>, Dilation<1, 2, 1>>, hg::ELU<>,
                   Volume<8, 8, Zero, Zero, Zero>>;

// -- layers without weights

/// Max and average pools: whole windows, overlaps, gaps, padding, dilation; norms behind them.
using Pools =
    hg::Sequential<hg::Conv2d<2, 4>, hg::MaxPool2d<3, Stride<1>, Padding<1>, Dilation<2>>, hg::GroupNorm<2, 4>,
                   hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::GroupNorm<1, 4>, hg::ReLU, Up>>,
                   hg::AvgPool2d<3, Stride<1>, Padding<1>>, hg::GELU,
                   hg::SkipConcat<hg::Sequential<hg::AvgPool2d<1, Kernel<3, 2>, Stride<1, 2>, Padding<1, 0>>,
                                                 hg::GroupNorm<2, 8>, LinearUp>>,
                   hg::MaxPool2d<2, Stride<3>>>;
/// Of the image and of one tensor raw, normed, and normed through ReLU; two norms of one tensor, normed together.
struct Norms : hg::Module<Norms> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto raw = Conv<4, 4>{}(hg::GroupNorm<2, 4>{}(x)), normed = hg::GroupNorm<2, 4>{}(raw);
    const auto views = Conv<12, 4>{}(hg::concat(hg::concat(raw, hg::ReLU{}(normed)), normed));
    const auto joined = hg::concat(hg::GroupNorm<4, 4>{}(views), hg::ReLU{}(hg::GroupNorm<1, 4>{}(views)));
    return hg::GroupNorm<2, 8>{}(joined);
  }
};
/// Of the image, around sums, behind an interpolation, one behind another.
struct Activations : hg::Module<Activations> {
  constexpr hg::Traced forward(hg::Traced x) const {
    x = hg::SiLU{}(x);
    x = hg::SiLU{}(hg::Residual<hg::Sequential<Conv<2, 2>, hg::SiLU, Conv<2, 2>>>{}(x));
    x = hg::Residual<hg::Sequential<hg::MaxPool2d<2>, Conv<2, 2>, LinearUp, hg::LeakyReLU<>>>{}(x);
    const auto raw = Conv<2, 3>{}(x), once = hg::Tanh{}(raw), clipped = hg::ReLU{}(hg::ReLU{}(raw));
    return Conv<12, 2>{}(hg::concat(hg::concat(raw, once), hg::concat(hg::Sigmoid{}(once), clipped)));
  }
};
/// By factors, on each other, beside a transposed convolution of the same factor, down to the skip's extents.
struct Upsamplings : hg::Module<Upsamplings> {
  constexpr hg::Traced forward(hg::Traced x) const {
    x = Conv<4, 2>{}(
        hg::SkipConcat<hg::Sequential<hg::ConvTranspose2d<2, 2, Kernel<5>, Stride<3>>, hg::ReLU, LinearUp>>{}(
            hg::Conv2d<2, 2>{}(x)));
    const auto learned = hg::ConvTranspose2d<2, 1, Kernel<4>, Stride<2>, Padding<1>>{}(x);
    x = hg::concat(hg::Upsample<2, hg::Bilinear>{}(hg::ReLU{}(x)), learned);
    return hg::ReLU{}(hg::Upsample<2, hg::Bilinear>{}(hg::Upsample<3, hg::Nearest>{}(Conv<3, 2>{}(x))));
  }
};
/// Of the image in a sum, over two levels, between a norm and a window, at the end.
using Softmaxes =
    hg::Sequential<hg::Residual<hg::Sequential<hg::Softmax, hg::Conv2d<2, 2>>>,
                   hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<2, 3>, hg::GroupNorm<1, 3>, LinearUp>>,
                   hg::Softmax, Conv<5, 4>, hg::GroupNorm<2, 4>, hg::Softmax, Conv<4, 3>, hg::ReLU, hg::Softmax>;
using Pads =
    hg::Sequential<hg::Conv2d<2, 3>, hg::Tanh, hg::ReflectionPad2d<2, 3>, hg::MaxPool2d<3, Stride<1>>,
                   hg::ReplicationPad2d<1>, hg::GroupNorm<3, 3>, hg::ReflectionPad2d<1>, hg::ReplicationPad2d<2>>;
/// Without a parameter; so deep that some meshes are refused.
using Weightless = hg::Sequential<hg::MaxPool2d<2>, hg::ReLU, hg::MaxPool2d<2>, hg::MaxPool2d<2>, hg::Upsample<2>>;

}  // namespace support::planned
