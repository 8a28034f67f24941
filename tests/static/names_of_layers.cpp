// As names_of_detail.cpp, of layers, their options and models. house.public_names says which are not here yet.
#include "../support/names_of_detail.hpp"

namespace {

struct Double {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    return x + x;
  }
};

struct Rising {
  float operator()(int head, std::array<int, 1> offset) const { return static_cast<float>(head * offset[0]); }
};

using Half = std::ratio<1, 2>;
using Zeros = hg::Boundary<hg::Zero, hg::Zero>;
using Three = hg::Kernel<3>;
using One = hg::Padding<1>;

// -- options --------------------------------------------------------------------------------------------------------
static_assert(none_finds_detail<Zeros, Three, One, hg::Stride<2>, hg::Dilation<2>, hg::Groups<2>, hg::OutputPadding<1>,
                                hg::Channels<2>, hg::PaddingAfter<1>, hg::Same, hg::OutputToSkip, hg::Bias<false>,
                                hg::CountIncludePad<false>, hg::CeilMode<>, hg::Affine<false>>());
static_assert(none_finds_detail<hg::Size<2, 2>, hg::ScaleFactor<2>, hg::ScaleRatio<Half>, hg::Nearest, hg::NearestExact,
                                hg::Bilinear, hg::Bicubic, hg::Linear1d, hg::Trilinear, hg::Area, hg::AlignCorners<>,
                                hg::Antialias<>>());
static_assert(
    none_finds_detail<hg::IsCausal<>, hg::IsCausal<true, false>, hg::Rotary<2>, hg::QueryKeyNorm<>,
                      hg::QueryKeyNorm<hg::RMSNorm>, hg::ParallelBy<hg::ContextParallel::ring>, hg::KeyValueHeads<2>,
                      hg::RelativeBias<8, 8>, hg::DistanceBias<Rising, 8>, hg::AttentionDropout<Half>, hg::KeyMask,
                      hg::KeyBias, hg::Shifted<2>, hg::PadToWindows<>>());
static_assert(
    none_finds_detail<hg::TakesVectors<1>, hg::TakesAnyResolution<1>, hg::ToVector, hg::Draws, hg::FunctionPlace,
                      hg::AnyName, hg::WithClassToken, hg::Indices, hg::WithoutGradient>());
static_assert(none_finds_detail<hg::Zero, hg::Periodic, hg::Reflect, hg::ReplicateEdge, hg::Odd, hg::ConstantEdge<1, 2>,
                                hg::EdgeIs<hg::Edge::zero>, hg::Footprint<hg::At<0, 0>>, hg::At<0, 0>>());

// -- layers with windows --------------------------------------------------------------------------------------------
static_assert(none_finds_detail<hg::Conv1d<2, 2, Three, One>, hg::Conv2d<2, 2, Three, One, hg::Groups<2>>,
                                hg::Conv3d<2, 2, Three, One>, hg::ConvTranspose1d<2, 2, hg::Kernel<2>, hg::Stride<2>>,
                                hg::ConvTranspose2d<2, 2, hg::Kernel<2>, hg::Stride<2>>,
                                hg::ConvTranspose3d<2, 2, hg::Kernel<2>, hg::Stride<2>>>());
static_assert(none_finds_detail<hg::MaxPool1d<2>, hg::MaxPool2d<2>, hg::MaxPool3d<2>, hg::AvgPool1d<2>,
                                hg::AvgPool2d<2>, hg::AvgPool3d<2>, hg::LpPool1d<2, 2>, hg::LpPool2d<2, 2>,
                                hg::LpPool3d<2, 2>, hg::GlobalAvgPool, hg::GlobalMaxPool>());
static_assert(none_finds_detail<hg::AdaptiveAvgPool1d<2>, hg::AdaptiveAvgPool2d<2>, hg::AdaptiveAvgPool3d<2>,
                                hg::AdaptiveMaxPool1d<2>, hg::AdaptiveMaxPool2d<2>, hg::AdaptiveMaxPool3d<2>>());
static_assert(
    none_finds_detail<hg::Upsample<2, hg::Nearest>, hg::UpsampleToSkip<hg::Nearest>, hg::UpsampleToSkip<hg::Bilinear>,
                      hg::Interpolate<hg::Size<2, 2>>, hg::Interpolate<hg::ScaleFactor<2>, hg::Bicubic>,
                      hg::Interpolate<hg::ScaleRatio<Half>>, hg::Interpolate1d<hg::Size<2>>>());
static_assert(none_finds_detail<
              hg::ReflectionPad1d<1>, hg::ReflectionPad2d<1>, hg::ReflectionPad3d<1>, hg::ReplicationPad1d<1>,
              hg::ReplicationPad2d<1>, hg::ReplicationPad3d<1>, hg::CircularPad1d<1>, hg::CircularPad2d<1>,
              hg::CircularPad3d<1>, hg::ConstantPad1d<Half, 1>, hg::ConstantPad2d<Half, 1>, hg::ConstantPad3d<Half, 1>,
              hg::ZeroPad1d<1>, hg::ZeroPad2d<1>, hg::ZeroPad3d<1>, hg::Crop1d<1, 1>, hg::Crop2d<1, 1, 1, 1>,
              hg::Crop3d<1, 1, 1, 1, 1, 1>, hg::Roll1d<1>, hg::Roll2d<1, 1>, hg::Roll3d<1, 1, 1>, hg::Flip<2>>());
static_assert(none_finds_detail<hg::PixelShuffle<2>, hg::PixelUnshuffle<2>, hg::PatchMerging<2>, hg::Stencil<East>,
                                hg::Stencil<East, Zeros>>());

// -- layers of points -----------------------------------------------------------------------------------------------
static_assert(none_finds_detail<hg::ReLU, hg::LeakyReLU<>, hg::ELU<>, hg::SiLU, hg::GELU, hg::Tanh, hg::Sigmoid,
                                hg::Softplus<>, hg::LogSigmoid, hg::Softsign, hg::Mish, hg::Hardtanh<>, hg::ReLU6,
                                hg::Hardsigmoid, hg::Hardswish, hg::CELU<>, hg::SELU, hg::GELUTanh, hg::Hardshrink<>,
                                hg::Softshrink<>, hg::Tanhshrink, hg::Threshold<Half, Half>, hg::PReLU<2>>());
static_assert(none_finds_detail<hg::Softmax, hg::Linear<2, 2>, hg::GLU, hg::Chunk<0, 2>, hg::Embedding<4, 2>,
                                hg::ClassToken<2>, hg::Dropout<>, hg::Dropout1d<>, hg::Dropout2d<>, hg::Dropout3d<>,
                                hg::DropPath<Half>, hg::Map<Double>, hg::LayerScale, hg::ModulatedSiLU>());
static_assert(none_finds_detail<hg::GroupNorm<1, 2>, hg::InstanceNorm<2>, hg::InstanceNorm1d<2>, hg::InstanceNorm2d<2>,
                                hg::InstanceNorm3d<2>, hg::BatchNorm<2>, hg::BatchNorm1d<2>, hg::BatchNorm2d<2>,
                                hg::BatchNorm3d<2>, hg::LayerNorm<2>, hg::RMSNorm<2>, hg::LayerNormOfHeads<2, 4>,
                                hg::RMSNormOfHeads<2, 4>, hg::LayerNormOver<2, 4, 4>, hg::LocalResponseNorm<5>>());
static_assert(none_finds_detail<hg::PositionEmbedding1d<4, 8>, hg::PositionEmbedding2d<4, 8, 8>,
                                hg::PositionEmbedding2d<4, 8, 8>::WithTokens<1>, hg::PositionEmbedding3d<4, 8, 8, 8>,
                                hg::RotaryEmbedding1d<2>, hg::RotaryEmbedding2d<2>, hg::RotaryEmbedding3d<2>,
                                hg::SinusoidalEmbedding1d<>, hg::SinusoidalEmbedding2d<>, hg::SinusoidalEmbedding3d<>,
                                hg::TimeEmbedding<4>>());

// -- attention ------------------------------------------------------------------------------------------------------
using Global = hg::MultiheadAttention<4, 2>;
using Near = hg::NeighborhoodAttention2d<4, 2, Three>;
static_assert(none_finds_detail<Global, hg::MultiheadAttention<4, 2, hg::IsCausal<>, hg::QueryKeyNorm<>>,
                                hg::MultiheadAttention<4, 2, hg::RelativeBias<8, 8>>, hg::Attend<2>,
                                hg::CrossAttention<4, 2>, hg::CrossAttention<4, 2, 6>>());
static_assert(none_finds_detail<hg::NeighborhoodAttend1d<2, Three>, hg::NeighborhoodAttend2d<2, Three>,
                                hg::NeighborhoodAttend3d<2, Three>, hg::NeighborhoodAttention1d<4, 2, Three>, Near,
                                hg::NeighborhoodAttention3d<4, 2, Three>>());
static_assert(
    none_finds_detail<hg::WindowAttend1d<2, Three>, hg::WindowAttend2d<2, Three>, hg::WindowAttend3d<2, Three>,
                      hg::WindowAttention1d<4, 2, Three>, hg::WindowAttention2d<4, 2, Three, hg::Shifted<1>>,
                      hg::WindowAttention3d<4, 2, Three>>());

// -- layers of layers, and models -----------------------------------------------------------------------------------
using Net = hg::Sequential<hg::Conv2d<2, 2, Three, One>, hg::GroupNorm<1, 2>, hg::ReLU>;
struct Own : hg::Module<Own> {
  constexpr hg::Traced forward(hg::Traced x) const { return x; }
};
static_assert(none_finds_detail<Net, hg::Residual<Net>, hg::SkipConcat<Net>, hg::SameExtents<Net>, hg::Named<"a", Net>,
                                hg::Checkpoint<Net>, hg::Frozen<Net>, hg::InEvaluation<Net>, hg::Repeat<Net, 2>,
                                hg::Module<Own>, Own, hg::Traced, hg::TracedIndices, hg::FieldInput<1>,
                                hg::VectorInput<1>, hg::VectorInput<1, hg::Indices>>());
static_assert(none_finds_detail<hg::UNet<2, 1, 8>, hg::UNet3d<2, 1, 8>, hg::UNetBlock<2, 8, Zeros>,
                                hg::UNetLevel<hg::UNetBlock<2, 8, Zeros>>, hg::UNetLayers<2, 1, 8, Zeros, 8, 2>,
                                hg::DiffusionUNet<2, 2>, hg::DiffusionBlock<8, 8, 4, Zeros>>());
static_assert(none_finds_detail<hg::ResNet<18>, hg::BasicBlock<2, 2>, hg::Bottleneck<4, 4>, hg::ConvNeXt<>,
                                hg::ConvNeXtBlock<2>>());
static_assert(none_finds_detail<
              hg::MLP<4>, hg::SwiGLU<4>, hg::TransformerBlock<4, Global>, hg::TransformerBlock<4, Near>,
              hg::PatchTransformer<2, 2, 4, 1, 2, Global>, hg::FieldTransformer<2, 2>, hg::VisionTransformer<3, 10>,
              hg::VisionTransformer<3, 10, 32, 32, 4, 8, 2, 2, std::ratio<0>, hg::WithClassToken>,
              hg::SwinTransformer<3, 10, 8, 2, 4, 4, std::ratio<0>, 2, 2>, hg::SwinTiny<3, 10>, hg::SwinSmall<3, 10>,
              hg::PaddedSwinTransformer<3, 10, 8, 2, 4, 4, std::ratio<0>, 2, 2>, hg::Alternating<Near, Near>>());

// -- what a model's forward calls -----------------------------------------------------------------------------------
struct Forward : hg::Module<Forward> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto check = [](const auto&... values) {
      static_assert(none_finds_detail<std::decay_t<decltype(values)>...>());
    };
    const hg::Traced y = hg::Conv2d<2, 2, Three, One>()(x);
    check(y, hg::add(x, y), hg::concat(x, y), hg::chunk<2>(x), hg::upsample_to<hg::Nearest>(y, x),
          hg::interpolate_to<hg::Bilinear>(y, x));
    return y;
  }
};
static_assert(hg::graph_of<Forward, 2>.parameter_count > 0, "forward is compiled");

}  // namespace
