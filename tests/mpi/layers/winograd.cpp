// Winograd's F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5): against a convolution written out here, on every mesh of the started
// ranks; the same bits in float on any mesh, however the cuts lie on the tile grid; its rounding error bounded; its
// halos. Rows of any size go past the caches here; other tests' fields are too small for that.
// optimise: 1
// reads: convolutions
#include <doctest/doctest.h>

#include "support/alone.hpp"
#include "support/composition.hpp"
#include "support/convolutions.hpp"

namespace test_winograd {

namespace {

[[maybe_unused]] const bool rows_of_any_size_stream = (hg::detail::streamed_bytes = 0, true);

using Width = hg::Boundary<hg::Zero, hg::Periodic>;
using support::numbers;

struct Shape {
  hg::index_t batch = 1, height = 24, width = 23;
  int padding = 1, window = 3;
  bool periodic = false;  ///< in width
};

/// torch.nn.functional.conv2d in long double, (N, In, H, W) -> (N, Out, H', W').
std::vector<double> convolved(const Shape& s, int in, int out, const std::vector<double>& x,
                              const std::vector<double>& parameters) {
  const hg::index_t height = s.height + 2 * s.padding - s.window + 1, width = s.width + 2 * s.padding - s.window + 1;
  const int taps = s.window * s.window;
  std::vector<double> y;
  for (hg::index_t n = 0; n < s.batch; ++n)
    for (int o = 0; o < out; ++o)
      for (hg::index_t r = 0; r < height; ++r)
        for (hg::index_t c = 0; c < width; ++c) {
          long double sum = parameters[static_cast<std::size_t>(out * in * taps + o)];
          for (int i = 0; i < in; ++i)
            for (int k = 0; k < taps; ++k) {
              hg::index_t row = r + k / s.window - s.padding, column = c + k % s.window - s.padding;
              if (s.periodic) column = hg::floor_mod(column, s.width);
              if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
              sum += static_cast<long double>(parameters[static_cast<std::size_t>((o * in + i) * taps + k)]) *
                     x[static_cast<std::size_t>(((n * in + i) * s.height + row) * s.width + column)];
            }
          y.push_back(static_cast<double>(sum));
        }
  return y;
}

/// Largest difference, relative to the largest value.
template <class T>
double error(const std::vector<T>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

template <class Layer, int In, int Out>
void check(const Shape& s) {
  constexpr auto& window = Layer::options.window;
  static_assert(hg::winograd_window(window[1], window[2], In, Out) == (hg::has_winograd ? window[1].kernel : 0));
  const auto x = numbers<double>(static_cast<std::size_t>(s.batch * In * s.height * s.width), 1);
  const auto parameters = numbers<double>(static_cast<std::size_t>(Out * In * s.window * s.window + Out), 2);
  const std::vector<float> x_single(x.begin(), x.end()), parameters_single(parameters.begin(), parameters.end());
  const std::vector<double> x_rounded(x_single.begin(), x_single.end()),
      parameters_rounded(parameters_single.begin(), parameters_single.end());
  const std::array<hg::index_t, 3> extents{s.batch, s.height, s.width};
  const auto expected = convolved(s, In, Out, x, parameters);
  const auto alone = support::infer<Layer, In>(support::alone(), extents, parameters_single, x_single);
  CHECK(error(alone, convolved(s, In, Out, x_rounded, parameters_rounded)) < 3e-6);
  for (const auto& mesh : support::meshes(static_cast<int>(s.batch))) {
    CAPTURE(support::text(mesh));
    try {
      const auto y = support::infer<Layer, In>(mesh, extents, parameters, x);
      const auto y_single = support::infer<Layer, In>(mesh, extents, parameters_single, x_single);
      CHECK(error(y, expected) < 1e-14);
      CHECK(y_single == alone);  // to the bit
    } catch (const hg::CollectiveError& refused) {
      if (!support::leaves_a_piece_empty(refused)) throw;
    }
  }
}

template <int In, int Out, int Padding = 1, class... Options>
using Layer = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<Padding>, Options...>;
template <int In, int Out, int Padding = 2, class... Options>
using Wide = hg::Conv2d<In, Out, hg::Kernel<5>, hg::Padding<Padding>, Options...>;

}  // namespace

TEST_CASE("cuts on and off the tile grid") {
  check<Layer<8, 8>, 8, 8>({.height = 48, .width = 48});
  check<Layer<8, 8>, 8, 8>({.height = 25, .width = 22});
  check<Layer<8, 16>, 8, 16>({.batch = 2, .height = 13, .width = 37});
}
TEST_CASE("channels that fill no vector, fields smaller than a tile") {
  check<Layer<11, 9>, 11, 9>({.height = 19, .width = 21});
  check<Layer<9, 27>, 9, 27>({.height = 7, .width = 6});
  check<Layer<27, 40>, 27, 40>({.height = 6, .width = 3});
}
TEST_CASE("periodic, other paddings") {
  check<Layer<8, 8, 1, Width>, 8, 8>({.height = 12, .width = 22, .periodic = true});
  check<Layer<8, 8, 1, Width>, 8, 8>({.batch = 2, .height = 14, .width = 7, .periodic = true});
  check<Layer<8, 8, 0>, 8, 8>({.height = 20, .width = 19, .padding = 0});
  check<Layer<8, 8, 2>, 8, 8>({.height = 12, .width = 9, .padding = 2});
}
TEST_CASE("periodic fields narrower than a tile and its halo") {
  for (const hg::index_t width : {1, 2, 3}) {
    check<Layer<8, 8, 1, Width>, 8, 8>({.height = 18, .width = width, .periodic = true});
    if (width == 3)  // a pad goes round once
      check<Layer<16, 17, 3, Width>, 16, 17>({.height = 18, .width = width, .padding = 3, .periodic = true});
    check<Wide<16, 16, 2, Width>, 16, 16>({.height = 18, .width = width, .padding = 2, .window = 5, .periodic = true});
    if (support::world().size() > 1 && width < 3) continue;  // most meshes would leave ranks without a column
    support::check_composition<Layer<9, 8, 1, Width>, 9, 8, true>({1, 16, width});
    support::check_composition<Layer<17, 16, 1, Width>, 17, 16, true>({1, 16, width});
  }
}
TEST_CASE("windows of 5 x 5") {
  check<Wide<16, 16>, 16, 16>({.height = 23, .width = 26, .padding = 2, .window = 5});
  check<Wide<17, 18, 2, Width>, 17, 18>(
      {.batch = 2, .height = 7, .width = 15, .padding = 2, .window = 5, .periodic = true});
  check<Wide<16, 24, 0>, 16, 24>({.height = 20, .width = 19, .padding = 0, .window = 5});
  support::check_composition<Wide<16, 17, 2, Width>, 16, 17, true>({1, 24, 18});
}
TEST_CASE("gradients by finite differences, on every mesh; the same bits forward") {
  support::check_composition<Layer<8, 9>, 8, 9, true>({2, 26, 23});
  support::check_composition<Layer<9, 8, 1, Width>, 9, 8, true>({1, 16, 18});
  using Two = hg::Sequential<Layer<3, 16>, hg::ReLU, Layer<16, 8>, hg::ReLU, Layer<8, 8>>;
  support::check_composition<Two, 3, 8, true>({1, 27, 22});
  using Wide = Layer<16, 16>;
  support::check_composition<hg::Sequential<Wide, hg::GroupNorm<4, 16>, hg::ReLU, Wide, hg::ReLU>, 16, 16>({1, 25, 32});
}

namespace {

using Up = hg::UpsampleToSkip<hg::Nearest>;

/// A concatenation whose parts both get gradients, one through ReLU.
struct Joined {
  Layer<3, 8> first;
  Layer<3, 9> second;
  hg::ReLU relu;
  Layer<17, 8> join;
  template <class X>
  constexpr X forward(X x) const {
    return join(hg::concat(relu(first(x)), second(x)));
  }
};
/// Beside a value that came up again, norms on both sides.
using Rising = hg::Sequential<
    Layer<3, 8>, hg::GroupNorm<2, 8>, hg::ReLU,
    hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Layer<8, 8, 1, hg::Bias<false>>, hg::GroupNorm<4, 8>, Up>>,
    Layer<16, 8, 1, Width>>;

template <int In, int Out, class... Options>
using Volume = hg::Conv3d<In, Out, hg::Kernel<3>, hg::Padding<1>, Options...>;
using Deep = hg::Sequential<Volume<2, 8>, hg::ReLU, Volume<8, 9, hg::Boundary<hg::Zero, hg::Zero, hg::Periodic>>,
                            hg::ReLU, Volume<9, 8, hg::Bias<false>>>;

/// Launches that sum weights' gradients in a pass of their own, and beside input gradients.
template <class Model, int In>
std::pair<int, int> passes() {
  int own = 0, beside = 0;
  for (const hg::Launch& launch : hg::plan_of<Model, In, hg::PlanKind::training>.launches)
    own += launch.is<hg::detail::ConvolutionWeightGradient>(), beside += launch.is<hg::detail::ConvolutionGradients>();
  return {own, beside};
}

}  // namespace

TEST_CASE("gradients of weights beside those of inputs") {
  if (hg::has_winograd) {
    CHECK(passes<Joined, 3>() == std::pair{2, 2});
    CHECK(passes<Rising, 3>() == std::pair{1, 3});
    CHECK(passes<Deep, 2>() == std::pair{1, 2});
  }
  support::check_composition<Joined, 3, 8, true>({2, 26, 23});
  support::check_composition<Joined, 3, 8, true>({1, 70, 300});
  support::check_composition<Rising, 3, 8>({1, 28, 36});
  support::check_composition<Deep, 2, 8, true, support::VolumeMesh>({1, 8, 11, 12});
}
TEST_CASE("columns without a gradient add nothing to those of weights, though they be NaN, in the middle of a tile") {
  support::check_uncounted<Layer<8, 9>, 8, 9>({1, 9, 60}, {29, 30}, {28, 31}, {9, 60});  // down the columns
  support::check_uncounted<Layer<9, 8, 1, Width>, 9, 8>({1, 8, 30}, {1, 2}, {0, 3}, {8, 30});
  support::check_uncounted<Layer<24, 25>, 24, 25>({1, 13, 30}, {13, 15}, {12, 16}, {13, 30});  // down and across
  support::check_uncounted<Wide<16, 17>, 16, 17>({1, 8, 30}, {14, 15}, {12, 17}, {8, 30});
  support::check_uncounted<Joined, 3, 8>({2, 12, 60}, {45, 50}, {20, 60}, {12, 60});
  support::check_uncounted<Deep, 2, 8, support::VolumeMesh>({1, 4, 6, 40}, {30, 31}, {15, 40}, {4, 6, 40});
}
TEST_CASE("a field of NaN, whose transforms stay in the scratch memory, and then another") {
  using Model = Layer<8, 9>;
  const std::array<hg::index_t, 3> extents{1, 24, 300};
  const std::vector<double> nothing(8 * 24 * 300, std::nan("")), parameters(hg::Parameters<Model, double>::count, 1.0);
  CHECK(std::isnan(support::infer<Model, 8>(support::alone(), extents, parameters, nothing).back()));
  support::check_composition<Model, 8, 9, true>({1, 16, 30});
}
TEST_CASE("fields of many tiles") {
  check<Layer<8, 8>, 8, 8>({.height = 150, .width = 41});
  check<Layer<8, 9, 1, Width>, 8, 9>({.batch = 2, .height = 70, .width = 300, .periodic = true});
}

}  // namespace test_winograd
