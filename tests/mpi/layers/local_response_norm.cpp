// program: layers
// LocalResponseNorm: its formula and derivatives written out, windows of odd, even and more channels than there are,
// compositions on every mesh; it sends nothing.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_local_response_norm {

namespace {

struct Options {
  int size;
  double alpha = 1e-4, beta = 0.75, k = 1;
};

/// PyTorch's, which pads the squares by size / 2 channels of zeros before and (size - 1) / 2 after, and takes means of
/// `size`. x: (N, C, points). The gradient is the sum of each output's derivatives.
struct Written {
  std::vector<double> output, input_gradient;

  Written(const Options& of, int samples, int channels, std::size_t points, const std::vector<double>& x,
          const std::vector<double>& g)
      : output(x.size()), input_gradient(x.size()) {
    for (int n = 0; n < samples; ++n)
      for (std::size_t p = 0; p < points; ++p) {
        const auto at = [&](int c) { return static_cast<std::size_t>(n * channels + c) * points + p; };
        for (int c = 0; c < channels; ++c) {
          double mean = 0;
          for (int i = 0; i < of.size; ++i) {
            const int j = c + i - of.size / 2;
            if (j >= 0 && j < channels) mean += x[at(j)] * x[at(j)] / of.size;
          }
          const double divisor = std::pow(of.k + of.alpha * mean, of.beta);
          output[at(c)] = x[at(c)] / divisor;
          input_gradient[at(c)] += g[at(c)] / divisor;
          for (int i = 0; i < of.size; ++i) {
            const int j = c + i - of.size / 2;
            if (j >= 0 && j < channels)
              input_gradient[at(j)] -=
                  g[at(c)] * output[at(c)] * of.beta * of.alpha * 2 * x[at(j)] / (of.size * (of.k + of.alpha * mean));
          }
        }
      }
  }
};

template <class Layer, int Channels, class MeshType = support::Mesh>
void check_formula(const Options& of) {
  const auto extents = support::usual_extents<MeshType>();
  const std::size_t points = support::points_of(extents) / static_cast<std::size_t>(extents[0]);
  const auto x = support::numbers<double>(Channels * support::points_of(extents), 1);
  const auto g = support::numbers<double>(x.size(), 2);
  const Written expected(of, static_cast<int>(extents[0]), Channels, points, x, g);
  std::array<hg::index_t, MeshType::rank - 1> space;
  std::copy(extents.begin() + 1, extents.end(), space.begin());
  using Model = hg::Sequential<support::Takes<Channels>, Layer>;
  support::on_meshes<Model, Channels>(extents, [&](const auto& mesh) {
    const auto result = support::unscaled(
        support::train_once<Model, Channels, Channels, support::InnerProduct>(mesh, extents, {}, x, space, g));
    CHECK(support::relative_error(result.output, expected.output) < 1e-14);
    CHECK(support::relative_error(result.input_gradient, expected.input_gradient) < 1e-13);
    CHECK(result.traffic.messages == hg::Tally{});
  });
}

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
using Response = hg::LocalResponseNorm<3, std::ratio<2>>;
/// Of a norm, read by a window; of a value from two levels; of the input itself; of vectors.
using Behind = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, Response, Conv<4, 3>, hg::ReLU>;
using Levels = hg::Sequential<
    hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<2, 3>, hg::GroupNorm<1, 3>, hg::UpsampleToSkip<hg::Bilinear>>>,
    Response>;
using Gate = hg::Residual<hg::Sequential<Response, hg::Conv2d<2, 2>>>;
using Vectors = hg::Sequential<Conv<2, 6>, hg::GlobalAvgPool, Response, hg::Linear<6, 3>>;

}  // namespace

TEST_CASE("the formula: few and many channels, one, a wider window, an even one, other numbers") {
  check_formula<hg::LocalResponseNorm<5>, 7>({5});
  check_formula<hg::LocalResponseNorm<2, std::ratio<1, 2>>, 6>({2, 0.5});
  check_formula<hg::LocalResponseNorm<4, std::ratio<3>, std::ratio<1, 2>, std::ratio<2>>, 9>({4, 3, 0.5, 2});
  check_formula<hg::LocalResponseNorm<3, std::ratio<1>>, 1>({3, 1});
  check_formula<hg::LocalResponseNorm<9, std::ratio<5>, std::ratio<5, 4>>, 3>({9, 5, 1.25});
  check_formula<hg::LocalResponseNorm<1, std::ratio<1>, std::ratio<1>>, 4>({1, 1, 1});
}
TEST_CASE("the formula of signals and of volumes") {
  check_formula<hg::LocalResponseNorm<3, std::ratio<2>>, 5, support::SignalMesh>({3, 2});
  check_formula<hg::LocalResponseNorm<4, std::ratio<2>>, 5, support::VolumeMesh>({4, 2});
}
TEST_CASE("between a norm and a window") { support::check_composition<Behind, 2, 3>(); }
TEST_CASE("over two levels") { support::check_composition<Levels, 2, 5>(); }
TEST_CASE("of vectors") { support::check_composition<Vectors, 2, 3>(); }
TEST_CASE("points without a gradient add nothing to those of weights, though they be NaN") {
  using Points = hg::Sequential<hg::Conv2d<2, 5>, Response, hg::Conv2d<5, 2>>;
  support::check_uncounted<Points, 2, 2>({1, 12, 20}, {7, 9}, {7, 9}, {12, 20});
}
TEST_CASE("of the image, in a sum: to the bit") { support::check_composition<Gate, 2, 2, true>({1, 24, 300}); }

}  // namespace test_local_response_norm
