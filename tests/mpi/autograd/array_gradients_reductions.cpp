// program: gradients_of_reductions
// Gradients through reductions over some dimensions: finite differences in double, and the adjoint identity.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_gradients_reductions {

using namespace support;

namespace {

using hg::dyn;
using Plane = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Half = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Shard<1>>;

constexpr double exact = 1e-13, differences = 1e-8;

}  // namespace

TEST_CASE("reductions over some dimensions inside: anomalies, softmax, norms, extremes") {
  const auto a = numbers<double>(Index<2>{5, 6}, 72);
  everywhere<Grid>([&](const auto& mesh, int way) {
    CHECK(adjoint_error([](auto u) { return u - hg::mean<1>(u, hg::keep_dimensions); }, field<Plane>(mesh, a, way)) <
          exact);
    CHECK(adjoint_error([](auto u) { return hg::sum<0>(hg::shift<0, 1>(u) - hg::shift<0, -2>(u)); },
                        field<Plane>(mesh, a, way)) < exact);
    CHECK(adjoint_error([](auto u) { return hg::shift<0, 1>(hg::mean<1>(hg::shift<1, 1>(u))); },
                        field<Plane>(mesh, a, way)) < exact);
    CHECK(adjoint_error(
              [](auto u) {
                const auto w = hg::with_boundary<hg::Periodic, hg::Periodic>(u);
                return hg::sum<1>(hg::shift<0, 1>(w) - hg::shift<1, 2>(w)) * 2.0;
              },
              field<Plane>(mesh, a, way)) < exact);
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto u) {
                const auto e = hg::exp(u - hg::max<1>(u, hg::keep_dimensions));
                const auto softmax = e / hg::sum<1>(e, hg::keep_dimensions);
                return hg::sum(softmax * hg::sin(u * 3.0)) + hg::sum(hg::square(hg::norm<0>(u)) * hg::min<0>(u));
              },
              1, a) < differences);
    CHECK(gradient_error(
              maker<Half>(mesh, way),
              [](auto u) {
                return hg::sum(hg::square(hg::sum<1>(u * hg::shift<0, 1>(u)))) + hg::sum(hg::max<0>(u) * 2.0);
              },
              1, a) < differences);
  });
}

}  // namespace test_array_gradients_reductions
