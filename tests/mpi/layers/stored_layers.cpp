// program: layers
// Pools in all their modes, shuffles, resampling: PyTorch's stored tensors on every mesh (make_layer_references.py).
#include <cmath>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_stored_layers {

namespace {

template <class Layer, int In, int Out = In, std::size_t Rank = 3>
void check(const std::string& name, const char* file = "layers") {
  support::check_named<Layer, In, Out, Rank>(file, name, 1e-13);
}

/// Convolutions of volumes and signals, whose numbers are exact.
template <class Layer, int In, int Out, std::size_t Rank = 4>
void check_convolution(const std::string& file, const std::string& name) {
  const support::StoredCase<Rank> stored(file, name);
  CAPTURE(name);
  std::vector<double> parameters = stored["weight"];
  for (const double bias : stored["bias"]) parameters.push_back(bias);
  std::vector<double> gradient = stored["grad_weight"];
  for (const double bias : stored["grad_bias"]) gradient.push_back(bias);
  support::on_meshes<Layer, In>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.template run<Layer, In, Out>(mesh, parameters);
    CHECK(result.output == stored["output"]);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-14);
    CHECK(support::relative_error(result.parameter_gradient, gradient) < 1e-14);
  });
}

template <class To, class Mode, class... Options>
void check_plane(const std::string& name) {
  check<hg::Interpolate<To, Mode, Options...>, 1>(name, "resampled");
}
template <class To, class Mode, class... Options>
void check_volume(const std::string& name) {
  check<hg::Interpolate<To, Mode, Options...>, 1, 1, 4>(name, "resampled");
}

using Padded = hg::Padding<1>;
using Ceil = hg::CeilMode<>;
using Exclude = hg::CountIncludePad<false>;

template <class Layer>
void check_map(const std::string& name) {
  check<Layer, 3>(name, "map_activations");
}

/// Behind a value that is put through a norm and an activation, with other readers.
/// A shuffle of two tensors side by side.
using ShuffledSkip = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<2>, hg::Stride<2>>,
                                    hg::SkipConcat<hg::Sequential<hg::Conv2d<4, 4>, hg::Tanh>>, hg::PixelShuffle<2>>;
using Shuffled = hg::Sequential<hg::Conv2d<2, 8>, hg::GroupNorm<2, 8>, hg::SiLU, hg::PixelShuffle<2>, hg::Conv2d<2, 3>,
                                hg::PixelUnshuffle<2>, hg::Conv2d<12, 2, hg::Kernel<3>, hg::Padding<1>>>;

/// Two resamplings in a row, one to a value's extents.
struct Resampled {
  hg::Conv2d<2, 3> first;
  hg::SiLU silu;
  hg::AdaptiveAvgPool2d<9, 13> pool;
  hg::Interpolate<hg::Size<15, 14>, hg::Bicubic> cubic;
  hg::Tanh tanh;
  hg::Conv2d<3, 2, hg::Kernel<3>, hg::Padding<1>> last;
  template <class X>
  constexpr X forward(X x) const {
    return last(hg::interpolate_to<hg::Bilinear, hg::AlignCorners<>>(tanh(cubic(pool(silu(first(x))))), x));
  }
};

/// Down and up again, by what stands beyond the ends.
struct BeyondEnds {
  hg::Conv2d<2, 3> first;
  hg::SiLU silu;
  hg::Interpolate<hg::Size<9, 10>, hg::Bicubic, hg::Antialias<>, hg::Boundary<hg::Reflect, hg::Zero>> down;
  hg::Tanh tanh;
  hg::Conv2d<3, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    using Ends = hg::Boundary<hg::ConstantEdge<1>, hg::Reflect>;
    return last(hg::interpolate_to<hg::Bilinear, Ends>(tanh(down(silu(first(x)))), x));
  }
};

/// Down and up again, across a date line, of what is padded beside it.
struct AroundGlobe {
  hg::Conv2d<2, 3> first;
  hg::SiLU silu;
  hg::ReflectionPad2d<0, 1> pad;
  hg::Interpolate<hg::Size<9, 10>, hg::Bicubic, hg::Antialias<>, hg::Boundary<hg::ReplicateEdge, hg::Periodic>> down;
  hg::Conv2d<3, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    using Torus = hg::Boundary<hg::Periodic, hg::Periodic>;
    return last(hg::interpolate_to<hg::Bilinear, Torus>(down(pad(silu(first(x)))), x));
  }
};

}  // namespace

TEST_CASE("average pools: volumes, padding that does not count, windows beyond the field") {
  check<hg::AvgPool3d<2>, 1, 1, 4>("avg3d");
  check<hg::AvgPool3d<1, hg::Kernel<1, 3, 2>, hg::Stride<1, 2, 2>, hg::Padding<0, 1, 1>>, 1, 1, 4>("avg3d_mixed");
  check<hg::AvgPool3d<3, hg::Stride<2>, Padded, Exclude>, 1, 1, 4>("avg3d_exclude");
  check<hg::AvgPool2d<3, hg::Stride<2>, Padded, Exclude>, 2>("avg_exclude");
  check<hg::AvgPool2d<2, Ceil>, 2>("avg_ceil");
  check<hg::AvgPool2d<1, hg::Kernel<4, 3>, hg::Stride<3, 2>, Padded, Ceil>, 2>("avg_ceil_padded");
  check<hg::AvgPool2d<1, hg::Kernel<4, 3>, hg::Stride<3, 2>, Padded, Ceil, Exclude>, 2>("avg_ceil_exclude");
}
TEST_CASE("maximum and power pools") {
  check<hg::MaxPool2d<2, Ceil>, 2>("max_ceil");
  check<hg::Sequential<hg::ReflectionPad2d<2, 1, 0, 0>,
                       hg::MaxPool2d<1, hg::Kernel<3, 2>, hg::Stride<2, 3>, Padded, Ceil, hg::Dilation<1, 2>>>,
        2>("max_ceil_reflected");
  check<hg::MaxPool2d<1, hg::Kernel<4, 3>, hg::Stride<3, 2>, Padded, Ceil>, 2>("max_ceil_padded");
  check<hg::MaxPool3d<2, Ceil>, 1, 1, 4>("max3d_ceil");
  check<hg::LpPool2d<2, 3, hg::Stride<2>>, 2>("lp2");
  // of the first power it is the sum, with its sign; of the third NaN where that is negative
  const auto mesh = support::alone();
  const auto input = support::numbers<double>(2 * 12 * 11, 7);
  const auto of = [&]<class Layer>(Layer) { return support::infer<Layer, 2>(mesh, {1, 12, 11}, {}, input); };
  const auto sums = of(hg::LpPool2d<1, 2>{}), means = of(hg::AvgPool2d<2>{}), roots = of(hg::LpPool2d<3, 2>{});
  const auto cubes = of(hg::Sequential<hg::Map<hg::detail::PowerOf<3>>, hg::AvgPool2d<2>>{});
  CHECK(*std::ranges::min_element(means) < 0);
  for (std::size_t i = 0; i < means.size(); ++i) {
    CHECK(sums[i] == doctest::Approx(4 * means[i]));
    CHECK((cubes[i] < 0 ? std::isnan(roots[i]) : roots[i] == doctest::Approx(std::cbrt(4 * cubes[i]))));
  }
}
TEST_CASE("a constant beyond the edge of a pool, 0 too, is a value as any other") {
  using hg::Boundary, hg::ConstantEdge, hg::Kernel, hg::Padding, hg::Stride;
  const auto input = support::numbers<double>(2 * 2 * 12 * 11, 7);
  const auto same = [&]<class One, class Other>(One, Other) {
    for (const auto& mesh : support::meshes(2))
      CHECK(support::infer<One, 2>(mesh, {2, 12, 11}, {}, input) ==
            support::infer<Other, 2>(support::alone(), {2, 12, 11}, {}, input));
  };
  using Half = std::ratio<1, 2>;
  using Zeros = Boundary<ConstantEdge<0>, ConstantEdge<0>>;
  using Halves = Boundary<ConstantEdge<1, 2>, ConstantEdge<1, 2>>;
  same(hg::MaxPool2d<3, Stride<2>, Padding<1>, Zeros>{},
       hg::Sequential<hg::ZeroPad2d<1>, hg::MaxPool2d<3, Stride<2>>>{});
  same(hg::MaxPool2d<3, Stride<1>, Padding<1>, Boundary<ConstantEdge<0>, hg::Zero>>{},
       hg::Sequential<hg::ZeroPad2d<1, 0>, hg::MaxPool2d<3, Stride<1>, Padding<0, 1>>>{});
  same(hg::AvgPool2d<3, Stride<2>, Padding<1>, Exclude, Zeros>{},
       hg::Sequential<hg::ZeroPad2d<1>, hg::AvgPool2d<3, Stride<2>>>{});
  same(hg::LpPool2d<2, 3, Stride<2>, Padding<1>, Halves>{},
       hg::Sequential<hg::ConstantPad2d<Half, 1>, hg::LpPool2d<2, 3, Stride<2>>>{});
}
TEST_CASE("pools at a date line, at mirrors and at replicated edges") {
  using hg::Boundary, hg::Kernel, hg::Padding, hg::Stride;
  using Globe = Boundary<hg::Periodic, hg::Periodic>;
  const char* file = "edges_of_pools";
  check<hg::MaxPool2d<3, Stride<2>, Padding<1>, Globe>, 2>("max_circular", file);
  check<hg::MaxPool2d<1, Kernel<3, 2>, Stride<1, 2>, Padding<1, 0>, Boundary<hg::Periodic, hg::Zero>>, 2>(
      "max_circular_rows", file);
  check<hg::MaxPool2d<3, Stride<2>, Padding<1>, Boundary<hg::Reflect, hg::Reflect>>, 2>("max_reflect", file);
  check<hg::AvgPool2d<3, Stride<1>, Padding<1>, Globe>, 2>("avg_circular", file);
  check<hg::AvgPool2d<3, Stride<2>, Padding<1>, Boundary<hg::ReplicateEdge, hg::Periodic>>, 2>("avg_mixed", file);
  using Ring = Boundary<hg::Periodic, hg::Zero, hg::Periodic>;
  check<hg::MaxPool3d<1, Kernel<3, 2, 3>, Stride<1, 2, 1>, Padding<1, 0, 1>, Ring>, 1, 1, 4>("max3d_circular", file);
  check<hg::AvgPool3d<1, Kernel<3, 2, 3>, Stride<2, 2, 1>, Padding<1, 0, 1>, Ring>, 1, 1, 4>("avg3d_circular", file);
}
TEST_CASE("circular pads, and what goes on at the other end by strides that divide nothing") {
  using hg::Boundary, hg::Kernel, hg::Padding, hg::Periodic, hg::Stride;
  using Globe = Boundary<Periodic, Periodic>;
  const char* file = "circular";
  check<hg::MaxPool2d<3, Stride<2>, Padding<1>, Globe>, 2>("max", file);
  check<hg::MaxPool2d<1, Kernel<2, 4>, Stride<3, 2>, Padding<1>, Ceil, Globe>, 2>("max_ceil", file);
  check<hg::MaxPool2d<2, Ceil, Globe>, 2>("max_ceil_unpadded", file);
  check<hg::AvgPool2d<4, Stride<3>, Padding<2, 1>, Globe>, 2>("avg", file);
  check<hg::LpPool2d<2, 4, Stride<3>, Padding<1, 2>, Globe>, 2>("lp2", file);
  check<hg::CircularPad2d<0, 2, 1, 3>, 2>("pad", file);
  check<hg::CircularPad2d<4, 3, 6, 6>, 1>("pad_whole", file);
  check<hg::CircularPad3d<3, 1, 2>, 1, 1, 4>("pad3d", file);
  check<hg::CircularPad1d<4, 2>, 2, 2, 2>("pad1d", file);
  check<hg::AvgPool3d<3, Padding<1, 0, 1>, Boundary<Periodic, hg::Zero, Periodic>>, 1, 1, 4>("avg3d", file);
}
TEST_CASE("signals") {
  using hg::Groups, hg::Kernel, hg::Padding, hg::Stride;
  const char* file = "signals";
  check<hg::MaxPool1d<3, Stride<2>, Padding<1>>, 2, 2, 2>("max1d", file);
  check<hg::AvgPool1d<4, Stride<3>, Padding<1>, Ceil, Exclude>, 2, 2, 2>("avg1d", file);
  check<hg::Sequential<hg::ReflectionPad1d<2>, hg::MaxPool1d<2>>, 2, 2, 2>("reflect1d", file);
  check<hg::ReflectionPad1d<1, 4>, 2, 2, 2>("reflect_sides1d", file);
  check<hg::AvgPool1d<3, Stride<2>, Padding<1>, hg::Boundary<hg::Periodic>>, 2, 2, 2>("circular1d", file);
  check<hg::LpPool1d<2, 3, Stride<2>>, 2, 2, 2>("lp1d", file);
  check<hg::Interpolate1d<hg::Size<29>, hg::Linear1d>, 2, 2, 2>("linear1d", file);
  check<hg::Interpolate1d<hg::Size<12>, hg::Linear1d, hg::AlignCorners<>>, 2, 2, 2>("linear1d_corners", file);
  check<hg::Interpolate1d<hg::ScaleFactor<3>, hg::Linear1d>, 2, 2, 2>("linear1d_factor", file);
  check<hg::Interpolate1d<hg::Size<11>>, 2, 2, 2>("nearest1d", file);
  check<hg::AdaptiveAvgPool1d<7>, 2, 2, 2>("adaptive1d", file);
  check<hg::AdaptiveMaxPool1d<7>, 2, 2, 2>("adaptive_max1d", file);
  check_convolution<hg::Conv1d<2, 3, Kernel<4>, hg::Same>, 2, 3, 2>(file, "conv1d_same");
  check_convolution<hg::Conv1d<3, 4, Kernel<5>, Stride<2>, Padding<2>>, 3, 4, 2>(file, "conv1d");
  check_convolution<hg::Conv1d<4, 4, Kernel<3>, Padding<2>, hg::Dilation<2>, Groups<4>>, 4, 4, 2>(file,
                                                                                                  "conv1d_depthwise");
  check_convolution<hg::ConvTranspose1d<3, 2, Kernel<4>, Stride<3>, Padding<1>, hg::OutputPadding<1>>, 3, 2, 2>(
      file, "conv_transpose1d");
  using Net =
      hg::Sequential<hg::Conv1d<2, 4, Kernel<5>, hg::Same, hg::Boundary<hg::Periodic>>, hg::BatchNorm1d<4>, hg::GELU,
                     hg::Residual<hg::Sequential<hg::MaxPool1d<2>, hg::Conv1d<4, 4, Kernel<3>, hg::Same>,
                                                 hg::UpsampleToSkip<hg::Nearest>>>,
                     hg::Linear<4, 2>>;
  support::check_composition<Net, 2, 2, false, support::SignalMesh>();
}
TEST_CASE("resampling by factors that are no whole numbers, and area") {
  using std::ratio, hg::ScaleRatio, hg::Bilinear;
  const char* file = "scaled";
  check<hg::Interpolate<ScaleRatio<ratio<1, 2>>, Bilinear>, 1>("half", file);
  check<hg::Interpolate<ScaleRatio<ratio<1, 2>>>, 1>("half_nearest", file);
  check<hg::Interpolate<ScaleRatio<ratio<7, 10>>, hg::NearestExact>, 1>("nearest_exact", file);
  check<hg::Interpolate<ScaleRatio<ratio<3, 2>>, hg::Bicubic>, 1>("cubic_up", file);
  check<hg::Interpolate<ScaleRatio<ratio<3, 2>>, Bilinear, hg::AlignCorners<>>, 1>("corners", file);
  check<hg::Interpolate<ScaleRatio<ratio<5, 4>, ratio<3, 4>>, Bilinear>, 1>("sides", file);
  check<hg::Interpolate<ScaleRatio<ratio<1, 2>, ratio<1, 2>, ratio<1, 2>>, hg::Trilinear>, 1, 1, 4>("volume", file);
  check<hg::Interpolate<ScaleRatio<ratio<1, 2>>, hg::Area>, 1>("area", file);
  check<hg::Interpolate<hg::Size<4, 4, 5>, hg::Area>, 1, 1, 4>("area_size", file);
  check<hg::Interpolate1d<ScaleRatio<ratio<5, 2>>, hg::Linear1d>, 2, 2, 2>("signal", file);
}
TEST_CASE("PyTorch's: outputs that have no piece for every rank of three") {
  ONLY_ON_RANKS(1, 2, 4);
  check<hg::Interpolate<hg::ScaleRatio<std::ratio<2, 5>>, hg::Bilinear, hg::Antialias<>>, 1>("antialias", "scaled");
}
TEST_CASE("corners on corners, to one point: the field's first, as PyTorch's scale is 0") {
  const auto input = support::numbers<double>(2 * 12 * 11, 7);
  const auto of = [&]<class Layer>(Layer) {
    return support::infer<Layer, 2>(support::alone(), {1, 12, 11}, {}, input);
  };
  const std::vector<double> first{input[0], input[12 * 11]};
  CHECK(of(hg::Interpolate<hg::Size<1, 1>, hg::Bilinear, hg::AlignCorners<>>{}) == first);
  CHECK(of(hg::Interpolate<hg::Size<1, 1>, hg::Bicubic, hg::AlignCorners<>>{}) == first);
  const auto row = of(hg::Interpolate<hg::Size<1, 5>, hg::Bilinear, hg::AlignCorners<>>{});  // at 0, 2.5, 5, 7.5, 10
  REQUIRE(row.size() == 10);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t left = i / 5 * 12 * 11 + i % 5 * 10 / 4;
    CHECK(row[i] == doctest::Approx(i % 2 == i / 5 % 2 ? input[left] : (input[left] + input[left + 1]) / 2));
  }
}
TEST_CASE("resampling across a date line") {
  using hg::Size, hg::ScaleFactor, hg::Boundary, hg::ReplicateEdge, hg::Periodic;
  using Line = Boundary<ReplicateEdge, Periodic>;
  const char* file = "globe";
  check<hg::Interpolate<ScaleFactor<2, 3>, hg::Bilinear, Line>, 1>("globe_bilinear", file);
  check<hg::Interpolate<ScaleFactor<3, 2>, hg::Bicubic, Boundary<Periodic, Periodic>>, 1>("globe_bicubic", file);
  check<hg::Interpolate<Size<3, 6>, hg::Bilinear, Line>, 1>("globe_down", file);
  check<hg::Interpolate<Size<5, 6>, hg::Bicubic, hg::Antialias<>, Line>, 1>("globe_antialias", file);
  check<hg::Interpolate<ScaleFactor<2, 2, 3>, hg::Trilinear, Boundary<Periodic, ReplicateEdge, Periodic>>, 1, 1, 4>(
      "globe_volume", file);
  check<hg::Interpolate1d<ScaleFactor<3>, hg::Linear1d, Boundary<Periodic>>, 2, 2, 2>("ring", file);
  support::check_composition<AroundGlobe, 2, 2, true>();
  // nearest points never lie beyond an end
  using Nearest = hg::Sequential<hg::Conv2d<2, 3>, hg::Interpolate<ScaleFactor<2, 3>, hg::NearestExact, Line>,
                                 hg::AvgPool2d<1, hg::Kernel<2, 3>, hg::Stride<2, 3>>, hg::Conv2d<3, 2>>;
  support::check_composition<Nearest, 2, 2, true>();
}
TEST_CASE("resampling where mirror images or numbers stand beyond the ends") {
  using hg::ScaleFactor, hg::Boundary, hg::ReplicateEdge, hg::Reflect, hg::Zero, hg::ConstantEdge;
  const char* file = "globe";
  check<hg::Interpolate<ScaleFactor<2, 3>, hg::Bilinear, Boundary<Zero, Reflect>>, 1>("ends_bilinear", file);
  check<hg::Interpolate<ScaleFactor<3, 2>, hg::Bicubic, Boundary<Reflect, ConstantEdge<3, 4>>>, 1>("ends_bicubic",
                                                                                                   file);
  check<hg::Interpolate<ScaleFactor<2>, hg::Bicubic, Boundary<ConstantEdge<-1, 2>, ConstantEdge<3, 4>>>, 1>("ends_both",
                                                                                                            file);
  check<hg::Interpolate<hg::Size<5, 6>, hg::Bicubic, hg::Antialias<>, Boundary<Reflect, ConstantEdge<-3, 2>>>, 1>(
      "ends_antialias", file);
  check<hg::Interpolate<ScaleFactor<2, 2, 3>, hg::Trilinear, Boundary<ConstantEdge<1, 4>, Reflect, Zero>>, 1, 1, 4>(
      "ends_volume", file);
  check<hg::Interpolate1d<ScaleFactor<3>, hg::Linear1d, Boundary<ConstantEdge<3, 2>>>, 2, 2, 2>("ends_signal", file);
  support::check_composition<BeyondEnds, 2, 2, true>();
}
TEST_CASE("the largest of intervals and of whole fields, with ties") {
  check<hg::AdaptiveMaxPool2d<6, 7>, 1>("adaptive_max", "largest");
  check<hg::AdaptiveMaxPool2d<13, 16>, 1>("adaptive_max_up", "largest");
  check<hg::AdaptiveMaxPool3d<4, 4, 5>, 1, 1, 4>("adaptive_max_volume", "largest");
  check<hg::GlobalMaxPool, 3>("global_max", "largest");
  check<hg::GlobalMaxPool, 1, 1, 4>("global_max_volume", "largest");
  using Net = hg::Sequential<
      hg::Conv2d<2, 3, hg::Kernel<3>, hg::Same>, hg::GroupNorm<1, 3>, hg::SiLU,
      hg::Residual<hg::Sequential<hg::AdaptiveMaxPool2d<7, 5>, hg::Conv2d<3, 3>, hg::UpsampleToSkip<hg::Nearest>>>,
      hg::GlobalMaxPool, hg::Linear<3, 2>>;
  support::check_composition<Net, 2, 2>();
}
TEST_CASE("padding of each side, Same of even kernels") {
  using hg::Kernel, hg::Padding, hg::PaddingAfter, hg::Stride;
  const char* file = "side_padding";
  check_convolution<hg::Conv2d<2, 3, Kernel<4, 2>, hg::Same>, 2, 3, 3>(file, "same_even");
  check_convolution<hg::Conv2d<2, 3, Kernel<2, 4>, hg::Dilation<3, 1>, hg::Same>, 2, 3, 3>(file, "same_dilated");
  check_convolution<hg::Conv2d<2, 3, Kernel<3>, Padding<0, 2>, PaddingAfter<2, 1>>, 2, 3, 3>(file, "sides");
  check_convolution<hg::Conv2d<3, 2, Kernel<3, 2>, Stride<2>, Padding<1, 0>, PaddingAfter<0, 1>>, 3, 2, 3>(
      file, "sides_strided");
  using Net =
      hg::Sequential<hg::Conv2d<2, 3, Kernel<4, 2>, hg::Same, hg::Boundary<hg::Zero, hg::Periodic>>, hg::SiLU,
                     hg::Residual<hg::Sequential<hg::Conv2d<3, 3, Kernel<3>, Padding<0>, PaddingAfter<2>, Stride<2>>,
                                                 hg::UpsampleToSkip<hg::Nearest>>>,
                     hg::Conv2d<3, 2, Kernel<3>, Padding<2, 0>, PaddingAfter<0, 2>>>;
  support::check_composition<Net, 2, 2, true>();
}
TEST_CASE("images that are not as many on both sides") {
  using hg::Kernel, hg::Padding, hg::PaddingAfter, hg::Boundary, hg::Reflect, hg::ReplicateEdge;
  const char* file = "side_padding";
  check_convolution<hg::Conv2d<2, 3, Kernel<3, 4>, Padding<1, 3>, PaddingAfter<4, 0>, Boundary<Reflect, ReplicateEdge>>,
                    2, 3, 3>(file, "reflect_sides");
  check_convolution<hg::Conv2d<2, 2, Kernel<4, 3>, hg::Stride<2>, Padding<0, 2>, PaddingAfter<2, 1>,
                               Boundary<ReplicateEdge, Reflect>>,
                    2, 2, 3>(file, "reflect_strided");
  using Mirror = Boundary<Reflect, Reflect>;
  using Walls = Boundary<ReplicateEdge, ReplicateEdge>;
  using Net =
      hg::Sequential<hg::Conv2d<2, 4, Kernel<4, 2>, hg::Same, Mirror>, hg::GroupNorm<2, 4>, hg::SiLU,
                     hg::Residual<hg::Conv2d<4, 4, Kernel<2, 6>, hg::Same, Walls>>, hg::ReflectionPad2d<3, 0, 0, 2>,
                     hg::Tanh, hg::ReplicationPad2d<0, 1, 2, 0>, hg::Crop2d<1, 3, 2, 2>, hg::Conv2d<4, 2>>;
  support::check_composition<Net, 2, 2, true>();
  using Volume =
      hg::Sequential<hg::Conv3d<2, 2, Kernel<2, 4, 3>, hg::Same, Boundary<Reflect, ReplicateEdge, hg::Periodic>>,
                     hg::Tanh, hg::Conv3d<2, 2, Kernel<4, 2, 2>, hg::Same, Boundary<ReplicateEdge, Reflect, Reflect>>>;
  support::check_composition<Volume, 2, 2, true, support::VolumeMesh>({1, 7, 6, 8});
}
TEST_CASE("periodic readers of what is padded: they go on at its other end") {
  const char* file = "side_padding";
  using hg::Kernel, hg::Padding, hg::Boundary, hg::Periodic;
  using Wrapped =
      hg::Sequential<hg::ReflectionPad2d<2, 1>, hg::Conv2d<2, 3, Kernel<3>, Padding<1>, Boundary<Periodic, Periodic>>>;
  check_convolution<Wrapped, 2, 3, 3>(file, "pad_circular");
  using Net = hg::Sequential<hg::ReplicationPad2d<1, 2>, hg::Tanh, hg::Roll2d<2, -1>, hg::ReflectionPad2d<0, 1>,
                             hg::MaxPool2d<3, hg::Stride<1>, Padding<1>, Boundary<Periodic, Periodic>>,
                             hg::Crop2d<1, 1, 3, 3>, hg::Conv2d<2, 2>>;
  support::check_composition<Net, 2, 2, true>();
}
TEST_CASE("a constant beyond the edge") {
  const char* file = "side_padding";
  using hg::Kernel, hg::Padding, hg::Stride, hg::Boundary, hg::ConstantEdge, hg::Periodic;
  using Half = ConstantEdge<1, 2>;
  // row first, as PyTorch's column stands in the corners
  check_convolution<hg::Conv2d<2, 3, Kernel<3, 4>, hg::Same, Boundary<ConstantEdge<5>, ConstantEdge<-1, 2>>>, 2, 3, 3>(
      file, "constant");
  check_convolution<hg::Conv2d<2, 3, Kernel<3>, Stride<2>, Padding<1>, Boundary<Half, Periodic>>, 2, 3, 3>(
      file, "constant_circular");
  using Edges = Boundary<ConstantEdge<2>, hg::Reflect>;
  using Net = hg::Sequential<
      hg::Residual<hg::Sequential<hg::Conv2d<2, 2, Kernel<3>, Padding<1>, Edges>, hg::GroupNorm<1, 2>, hg::SiLU>>,
      hg::MaxPool2d<3, Stride<1>, Padding<1>, Boundary<ConstantEdge<2>, ConstantEdge<2>>>,
      hg::AvgPool2d<3, Stride<1>, Padding<1>, Boundary<Periodic, Half>>,
      hg::Conv2d<2, 2, Kernel<3>, Padding<1>, Edges>>;
  support::check_composition<Net, 2, 2>();
}
TEST_CASE("crops and rolls") {
  check<hg::Crop2d<1, 2, 0, 3>, 2>("crop", "edges_of_pools");
  check<hg::Crop3d<1, 0, 0, 2, 1, 1>, 1, 1, 4>("crop3d", "edges_of_pools");
  check<hg::Roll2d<2, -3>, 2>("roll", "edges_of_pools");
  check<hg::Roll3d<1, 0, -2>, 1, 1, 4>("roll3d", "edges_of_pools");
  using Net = hg::Sequential<hg::Conv2d<2, 3, hg::Kernel<3, 5>, hg::Dilation<2, 1>, hg::Same>, hg::Tanh,
                             hg::Roll2d<-1, 2>, hg::ReflectionPad2d<2>, hg::Crop2d<1, 3, 4, 0>, hg::Conv2d<3, 2>>;
  support::check_composition<Net, 2, 2, true>();
}
TEST_CASE("crops and rolls of signals") {
  const auto input = support::numbers<double>(2 * 2 * 24, 4);
  std::vector<double> expected;
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t i = 0; i < 22; ++i) expected.push_back(input[row * 24 + (i + 1 + 24 - 3) % 24]);
  for (const auto& mesh : support::meshes_of<support::SignalMesh>(2))
    CHECK(support::infer<hg::Sequential<hg::Roll1d<3>, hg::Crop1d<1, 1>>, 2>(mesh, {2, 24}, {}, input) == expected);
  using Net = hg::Sequential<hg::Conv1d<2, 3, hg::Kernel<3>, hg::Padding<1>>, hg::Tanh, hg::Roll1d<-2>,
                             hg::ReflectionPad1d<2>, hg::Crop1d<1, 3>, hg::Conv1d<3, 2>>;
  support::check_composition<Net, 2, 2, true, support::SignalMesh>();
}
TEST_CASE("pads of zeros and of a value") {
  using Half = std::ratio<1, 2>;
  check<hg::ZeroPad2d<2, 0, 1, 3>, 2>("zero_pad", "edges_of_pools");
  check<hg::ConstantPad2d<Half, 1, 2>, 2>("constant_pad", "edges_of_pools");
  check<hg::ConstantPad3d<Half, 1, 0, 2, 1, 0, 3>, 1, 1, 4>("constant_pad3d", "edges_of_pools");
  using Net = hg::Sequential<hg::Conv2d<2, 3>, hg::GroupNorm<1, 3>, hg::Tanh, hg::ConstantPad2d<Half, 3, 1, 0, 2>,
                             hg::MaxPool2d<3, hg::Stride<1>>, hg::ZeroPad2d<1>, hg::Conv2d<3, 2, hg::Kernel<5, 3>>>;
  support::check_composition<Net, 2, 2>();
}
TEST_CASE("shuffles") {
  check<hg::PixelShuffle<2>, 8, 2>("shuffle");
  check<hg::PixelShuffle<3>, 9, 1>("shuffle3");
  check<hg::PixelUnshuffle<2>, 2, 8>("unshuffle");
  check<hg::PixelUnshuffle<3>, 1, 9>("unshuffle3");
  support::check_composition<Shuffled, 2, 2>({2, 24, 24});
  support::check_composition<ShuffledSkip, 2, 2>({2, 24, 24});
}

TEST_CASE("resampling to a size, by a factor, in every mode") {
  using Up = hg::Size<13, 20>;
  using Down = hg::Size<6, 7>;
  using Corners = hg::AlignCorners<>;
  using Antialias = hg::Antialias<>;
  check_plane<hg::Size<14, 23>, hg::Nearest>("nearest_up");
  check_plane<hg::Size<6, 8>, hg::Nearest>("nearest_down");
  check_plane<hg::Size<14, 23>, hg::NearestExact>("exact_up");
  check_plane<Down, hg::NearestExact>("exact_down");
  check_volume<hg::Size<7, 8, 5>, hg::NearestExact>("exact_volume");
  check_plane<Up, hg::Bilinear>("bilinear_up");
  check_plane<Down, hg::Bilinear>("bilinear_down");
  check_plane<Up, hg::Bilinear, Corners>("bilinear_corners");
  check_plane<Down, hg::Bilinear, Antialias>("bilinear_antialias");
  check_plane<hg::ScaleFactor<2>, hg::Bilinear, Corners>("bilinear_factor");
  check_volume<hg::Size<7, 9, 10>, hg::Trilinear>("trilinear");
  check_volume<hg::Size<6, 7, 9>, hg::Trilinear, Corners>("trilinear_corners");
  check_plane<Up, hg::Bicubic>("bicubic_up");
  check_plane<Down, hg::Bicubic>("bicubic_down");
  check_plane<Up, hg::Bicubic, Corners>("bicubic_corners");
  check_plane<Down, hg::Bicubic, Antialias>("bicubic_antialias");
  check_plane<hg::ScaleFactor<3>, hg::Bicubic>("bicubic_factor");
  support::check_composition<Resampled, 2, 2, true>();
}
TEST_CASE("convolutions of volumes in groups") {
  using hg::Groups, hg::Kernel, hg::Stride, hg::Padding, hg::Dilation;
  check_convolution<hg::Conv3d<4, 4, Kernel<3>, hg::Padding<1>, Groups<4>>, 4, 4>("grouped_conv3d", "depthwise");
  check_convolution<hg::Conv3d<3, 6, Kernel<2, 3, 3>, Stride<2, 1, 2>, Padding<0, 1, 1>, Groups<3>>, 3, 6>(
      "grouped_conv3d", "multiplied");
  check_convolution<
      hg::Conv3d<6, 4, Kernel<3, 2, 3>, Stride<2, 2, 1>, hg::Padding<1, 0, 2>, Dilation<1, 1, 2>, Groups<2>>, 6, 4>(
      "grouped_conv3d", "grouped");
  check_convolution<
      hg::Conv3d<4, 6, Kernel<2, 3, 1>, Stride<1, 2, 1>, hg::Padding<1, 1, 0>, Dilation<2, 1, 1>, Groups<2>>, 4, 6>(
      "grouped_conv3d", "dilated");
}
TEST_CASE("transposed convolutions of volumes") {
  using hg::Groups, hg::Kernel, hg::Stride, hg::OutputPadding;
  const std::string file = "conv_transpose3d";
  check_convolution<hg::ConvTranspose3d<3, 2, Kernel<2>, Stride<2>>, 3, 2>(file, "up2");
  check_convolution<
      hg::ConvTranspose3d<2, 2, Kernel<3, 4, 3>, Stride<2, 3, 1>, hg::Padding<1, 1, 2>, OutputPadding<1, 0, 0>>, 2, 2>(
      file, "overlapping");
  check_convolution<hg::ConvTranspose3d<4, 2, Kernel<3, 2, 3>, Stride<1, 2, 2>, hg::Padding<1, 0, 1>,
                                        OutputPadding<0, 1, 1>, hg::Dilation<2, 1, 1>, Groups<2>>,
                    4, 2>(file, "transposed_grouped");
}
TEST_CASE("adaptive average pools") {
  check<hg::AdaptiveAvgPool2d<6, 7>, 1>("adaptive", "resampled");
  check<hg::AdaptiveAvgPool2d<13, 16>, 1>("adaptive_up", "resampled");
  check<hg::AdaptiveAvgPool3d<4, 4, 5>, 1, 1, 4>("adaptive_volume", "resampled");
}

TEST_CASE("activations that are maps, at their kinks too") {
  check_map<hg::Softplus<>>("softplus");
  check_map<hg::Softplus<std::ratio<3>, std::ratio<6>>>("softplus_sharp");
  check_map<hg::LogSigmoid>("logsigmoid");
  check_map<hg::Softsign>("softsign");
  check_map<hg::Mish>("mish");
  check_map<hg::Hardtanh<>>("hardtanh");
  check_map<hg::Hardtanh<std::ratio<-1, 2>, std::ratio<3>>>("hardtanh_wide");
  check_map<hg::ReLU6>("relu6");
  check_map<hg::Hardsigmoid>("hardsigmoid");
  check_map<hg::Hardswish>("hardswish");
  check_map<hg::CELU<>>("celu");
  check_map<hg::CELU<std::ratio<1, 4>>>("celu_steep");
  check_map<hg::SELU>("selu");
  check_map<hg::GELUTanh>("gelu_tanh");
  check_map<hg::Hardshrink<>>("hardshrink");
  check_map<hg::Softshrink<>>("softshrink");
  check_map<hg::Tanhshrink>("tanhshrink");
  check_map<hg::Threshold<std::ratio<1, 2>, std::ratio<-3>>>("threshold");
  const support::StoredCase<3> prelu("map_activations", "prelu");
  support::on_meshes<hg::PReLU<3>, 3>(prelu.extents("input"), [&](const auto& mesh) {
    const auto result = prelu.template run<hg::PReLU<3>, 3, 3>(mesh, {0.25, 0.25, 0.25});
    CHECK(support::relative_error(result.output, prelu["output"]) < 1e-13);
    CHECK(support::relative_error(result.input_gradient, prelu["grad_input"]) < 1e-13);
  });
  // one slope for all channels, as torch.nn.PReLU(): its gradient is the sum of g x where x is not positive
  CHECK(hg::parameter_names<hg::Sequential<hg::PReLU<>>>() == std::vector<std::string>{"0.weight"});
  double of_slope = 0;
  const std::vector<double> x = prelu["input"], g = prelu["grad_output"];
  for (std::size_t i = 0; i < x.size(); ++i) of_slope += x[i] > 0 ? 0 : g[i] * x[i];
  support::on_meshes<hg::PReLU<>, 3>(prelu.extents("input"), [&](const auto& mesh) {
    const auto result = prelu.template run<hg::PReLU<>, 3, 3>(mesh, {0.25});
    CHECK(support::relative_error(result.output, prelu["output"]) < 1e-13);
    CHECK(support::relative_error(result.input_gradient, prelu["grad_input"]) < 1e-13);
    CHECK(support::relative_error(result.parameter_gradient, std::vector<double>{of_slope}) < 1e-12);
  });
}

}  // namespace test_stored_layers
