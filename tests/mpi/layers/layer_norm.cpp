// program: extending
// ranks: 1 2 4
// LayerNorm and RMSNorm over channels: their definition in plain loops, every mesh, finite differences, far from 0.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_layer_norm {

namespace {

template <class Norm>
using Net = hg::Sequential<hg::Conv2d<2, 5>, hg::ReLU, Norm, hg::Conv2d<5, 2, hg::Kernel<3>, hg::Padding<1>>, hg::Tanh>;
/// Of two sources, one of them resampled, and as the output; more than one row piece wide.
template <template <int> class Norm>
using Joined =
    hg::Sequential<hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::ReLU, hg::UpsampleToSkip<hg::Nearest>>>, Norm<4>,
                   hg::Conv2d<4, 2>, Norm<2>>;
template <int C>
using Layer = hg::LayerNorm<C>;
template <int C>
using Root = hg::RMSNorm<C>;

/// PyTorch's formula for one point.
std::vector<double> normal(const std::vector<double>& x, bool centred, double epsilon) {
  double mean = 0, variance = 0;
  for (const double v : x) mean += centred ? v / static_cast<double>(x.size()) : 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  std::vector<double> y;
  for (const double v : x) y.push_back((v - mean) / std::sqrt(variance + epsilon));
  return y;
}

template <class Norm, class T>
void check_definition(bool centred, double epsilon, double offset, double tolerance) {
  constexpr int channels = 5, points = 3 * 140;
  auto x = support::numbers<double>(channels * points, 3);
  for (double& v : x) v += offset;
  std::vector<T> stored(x.begin(), x.end());
  const auto scales = support::numbers<double>(hg::Parameters<Norm, T>::count, 4);
  const auto y = support::infer<Norm, channels>(support::alone(), {1, 3, 140},
                                                std::vector<T>(scales.begin(), scales.end()), stored);
  double worst = 0;
  for (int p = 0; p < points; ++p) {
    std::vector<double> point;
    for (int c = 0; c < channels; ++c) point.push_back(static_cast<double>(stored[c * points + p]));
    const auto expected = normal(point, centred, epsilon);
    for (int c = 0; c < channels; ++c)
      worst = std::max(worst, std::abs(y[c * points + p] - (static_cast<T>(scales[c]) * expected[c] +
                                                            (centred ? static_cast<T>(scales[channels + c]) : 0))));
  }
  CHECK(worst < tolerance);
}

}  // namespace

TEST_CASE("every mesh, finite differences") {
  support::check_composition<Net<hg::LayerNorm<5>>, 2, 2, true>();
  support::check_composition<Net<hg::RMSNorm<5>>, 2, 2, true>();
  support::check_composition<Joined<Layer>, 2, 2, true>();
  support::check_composition<Joined<Root>, 2, 2, true>();
}
TEST_CASE("PyTorch's formula, with its epsilons") {
  check_definition<hg::LayerNorm<5>, double>(true, 1e-5, 0, 1e-13);
  check_definition<hg::LayerNorm<5, std::ratio<1, 10>>, double>(true, 0.1, 0, 1e-13);
  check_definition<hg::RMSNorm<5>, double>(false, std::numeric_limits<double>::epsilon(), 0, 1e-13);
  check_definition<hg::RMSNorm<5, std::ratio<1, 1000>>, float>(false, 1e-3, 0, 2e-6);
}
TEST_CASE("many channels, in float: the error of a sum of squares does not grow with them") {
  constexpr int channels = 8192;
  const auto check = [](auto norm, bool centred, double epsilon) {
    using Norm = decltype(norm);
    std::vector<float> x(channels), scales(hg::Parameters<Norm, float>::count);
    std::fill_n(scales.begin(), channels, 1.0f);
    for (std::size_t c = 0; c < x.size(); ++c) x[c] = c % 2 == 0 ? 0.1f : 0.3f;
    const auto y = support::infer<Norm, channels>(support::alone(), {1, 1, 1}, scales, x);
    const auto expected = normal(std::vector<double>(x.begin(), x.end()), centred, epsilon);
    CHECK(support::relative_error(y, expected) < 1e-6);
  };
  check(hg::LayerNorm<channels>{}, true, 1e-5);
  check(hg::RMSNorm<channels>{}, false, std::numeric_limits<float>::epsilon());
}
TEST_CASE("far from 0, in float: a mean of 1e4 and deviations of 1") {
  check_definition<hg::LayerNorm<5>, float>(true, 1e-5, 1e4, 2e-5);
}

}  // namespace test_layer_norm
