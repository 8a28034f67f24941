// program: gradients_of_stages
// Gradients through slices and pads: finite differences in double, and the adjoint identity of linear ones.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_gradients {

using namespace support;

namespace {

using hg::dyn;
using Plane = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

constexpr double exact = 1e-13, differences = 1e-8;

}  // namespace

TEST_CASE("adjoints of slice and pad, with steps, nested, shifted, of a periodic field") {
  for (const Index<2> extents : {Index<2>{9, 8}, Index<2>{3, 2}, Index<2>{2, 5}}) {
    const auto a = numbers<double>(extents, 60);
    const auto e0 = extents[0], e1 = extents[1];
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane>(mesh, a, way);
      CHECK(adjoint_error([&](auto v) { return hg::slice<0>(v, 1, e0); }, u) < exact);
      CHECK(adjoint_error([&](auto v) { return hg::slice<1>(hg::slice<0>(v, 0, e0, 2), 1, e1, 3); }, u) < exact);
      CHECK(adjoint_error([&](auto v) { return hg::pad<0>(hg::pad<1>(v, 2, 1), 0, 3); }, u) < exact);
      CHECK(adjoint_error([&](auto v) { return hg::shift<0, 1>(hg::slice<0>(hg::shift<0, -1>(v), 0, e0 - 1)) * 3.0; },
                          u) < exact);
      CHECK(adjoint_error(
                [&](auto v) {
                  const auto w = hg::with_boundary<hg::Zero, hg::Periodic>(v);
                  return hg::slice<1>(hg::shift<1, -1>(w) + 2.0 * hg::shift<0, 1>(w), 0, e1, 2) +
                         hg::slice<1>(hg::shift<1, 1>(w), 0, e1, 2);
                },
                u) < exact);
      CHECK(adjoint_error([&](auto v) { return hg::slice<0>(v, 1, e0) - hg::slice<0>(v, 0, e0 - 1); }, u) < exact);
    });
  }
}

TEST_CASE("gradients through neighbours of a periodic field of very few points") {
  for (const Index<2> extents : {Index<2>{1, 1}, Index<2>{2, 3}, Index<2>{3, 1}, Index<2>{5, 2}}) {
    const auto a = numbers<double>(extents, 64);
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto apart = [](auto v) {
        const auto w = hg::with_boundary<hg::Periodic, hg::Periodic>(v);
        return hg::shift<0, 2>(w) - hg::shift<0, -2>(w) + 3.0 * hg::shift<1, 1>(w) - hg::shift<1, -4>(w);
      };
      CHECK(adjoint_error(apart, field<Plane>(mesh, a, way)) < exact);
      CHECK(gradient_error(
                maker<Plane>(mesh, way),
                [&](auto v) {
                  const auto w = hg::with_boundary<hg::Periodic, hg::Periodic>(v);
                  return hg::sum(hg::sin(apart(v)) * hg::shift<0, -1>(w)) + hg::mean(apart(v) * hg::shift<1, 2>(w * w));
                },
                1, a) < differences);
    });
  }
}

TEST_CASE("gradients of products and functions of slices; faces between points") {
  const auto a = numbers<double>(Index<2>{7, 6}, 61), b = numbers<double>(Index<2>{8, 6}, 62);
  everywhere<Grid>([&](const auto& mesh, int way) {
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto h, auto f) {  // h on points, f on faces
                const auto between = 0.5 * (hg::pad<0>(h, 1, 0) + hg::pad<0>(h, 0, 1));
                const auto flux = between * hg::sin(f);
                const auto next = h - (hg::slice<0>(flux, 1, 8) - hg::slice<0>(flux, 0, 7));
                return hg::mean(hg::square(next)) +
                       hg::sum(hg::exp(hg::slice<1>(h, 0, 6, 2)) * hg::slice<1>(h, 1, 6, 2));
              },
              3, a, b) < differences);
  });
}

}  // namespace test_array_gradients
