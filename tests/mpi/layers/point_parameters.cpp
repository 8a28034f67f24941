// program: layers
// PositionEmbedding and LayerNormOver, which have numbers for each point; Chunk and GLU: compositions on every mesh,
// beside plain loops and finite differences.
#include <cmath>

#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_point_parameters {

TEST_CASE(
    "numbers for each point: behind activations and norms, of signals and volumes, and a field of other extents") {
  using Plane = hg::Sequential<hg::Conv2d<2, 3>, hg::GELU, hg::PositionEmbedding2d<3, 24, 23>,
                               hg::LayerNormOver<3, 24, 23>, hg::SiLU, hg::Conv2d<3, 2>>;
  support::check_composition<Plane, 2, 2>();
  using Wave = hg::Sequential<hg::Conv1d<2, 3>, hg::Tanh, hg::PositionEmbedding1d<3, 29>, hg::Conv1d<3, 2>>;
  support::check_composition<Wave, 2, 2, true, support::SignalMesh>({2, 29});
  using Volume = hg::Sequential<hg::Conv3d<2, 3>, hg::PositionEmbedding3d<3, 6, 7, 11>, hg::GELU, hg::Conv3d<3, 2>>;
  support::check_composition<Volume, 2, 2, true, support::VolumeMesh>({1, 6, 7, 11});
  constexpr int points = 24 * 23;
  const auto image = support::numbers<double>(3 * points, 1), numbers = support::numbers<double>(6 * points, 2);
  double mean = 0, variance = 0;
  for (const double v : image) mean += v / (3 * points);
  for (const double v : image) variance += (v - mean) * (v - mean) / (3 * points);
  std::vector<double> normed;
  for (std::size_t i = 0; i < image.size(); ++i)
    normed.push_back(numbers[i] * (image[i] - mean) / std::sqrt(variance + 1e-5) + numbers[3 * points + i]);
  for (const auto& mesh : support::meshes(1))
    CHECK(support::relative_error(support::infer<hg::LayerNormOver<3, 24, 23>, 3>(mesh, {1, 24, 23}, numbers, image),
                                  normed) < 1e-13);
  using Other = hg::PositionEmbedding2d<2, 24, 22>;
  const support::Field<double, 2> x(support::alone<support::Mesh>(), {1, 2, 24, 23});
  CHECK_THROWS_WITH_AS(hg::infer(hg::initial_parameters<Other, double>(1), x),
                       doctest::Contains("PositionEmbedding has numbers for 22 points in width, but the field has "
                                         "23: give a field of its extents"),
                       hg::CollectiveError);
}

TEST_CASE("chunks of channels and a gated unit") {
  struct Parts : hg::Module<Parts> {
    constexpr hg::Traced forward(hg::Traced x) const {
      const auto parts = hg::chunk<3>(hg::SiLU{}(hg::GroupNorm<3, 6>{}(hg::Conv2d<2, 6>{}(x))));
      return hg::Conv2d<4, 2>{}(hg::concat(parts[2], hg::GLU{}(hg::concat(parts[0], parts[1]))));
    }
  };
  support::check_composition<Parts, 2, 2>();
  const auto x = support::numbers<double>(4 * 24 * 23, 1);
  std::vector<double> gated;
  for (std::size_t i = 0; i < x.size() / 2; ++i) gated.push_back(x[i] / (1 + std::exp(-x[i + x.size() / 2])));
  for (const auto& mesh : support::meshes(1))
    CHECK(support::relative_error(support::infer<hg::GLU, 4>(mesh, {1, 24, 23}, std::vector<double>{}, x), gated) <
          1e-14);
}

}  // namespace test_point_parameters
