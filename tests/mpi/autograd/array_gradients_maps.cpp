// program: gradients_of_maps
// Gradients through transpose, permute and along, of fields that every rank holds: finite differences in double, and
// the adjoint identity of linear ones.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_gradients_maps {

using namespace support;

namespace {

using hg::dyn;
using Plane = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Turned = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
using Everywhere = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Replicate>;
using Rows = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
using Columns = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Shard<0>>;

constexpr double exact = 1e-13, differences = 1e-8;

}  // namespace

TEST_CASE("adjoints of transpose and permute, shifted and sliced") {
  using Three = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<0>>;
  const auto a = numbers<double>(Index<2>{5, 8}, 63);
  const auto b = numbers<double>(Index<3>{3, 4, 5}, 64);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::transpose<0, 1>(v); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::transpose<0, 1>(hg::shift<0, 1>(v)) * 2.0; }, u) < exact);
    CHECK(adjoint_error(
              [](auto v) { return hg::shift<0, 1>(hg::transpose<0, 1>(v)) - hg::shift<1, -2>(hg::transpose<0, 1>(v)); },
              u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::transpose<0, 1>(hg::slice<1>(hg::transpose<0, 1>(v), 0, 5, 2)); }, u) <
          exact);
    const auto s = field<Three>(mesh, b, way);
    CHECK(adjoint_error([](auto v) { return hg::permute<1, 2, 0>(v); }, s) < exact);
    CHECK(adjoint_error([](auto v) { return hg::permute<2, 0, 1>(hg::pad<1>(hg::permute<2, 1, 0>(v), 1, 0)); }, s) <
          exact);
  });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(gradient_error(
              maker<Turned>(mesh, way),
              [&](auto v) {
                return hg::sum(u * hg::square(hg::transpose<0, 1>(v)) * hg::transpose<0, 1>(hg::shift<0, 1>(v)));
              },
              3, Array<double, 2>({8, 5}, [&](auto i) { return a(i[1], i[0]); })) < differences);
  });
}

TEST_CASE("along: the gradient of a vector is a sum over what it was spread") {
  const Index<2> extents{6, 9};
  const auto a = numbers<double>(extents, 65);
  const auto r = numbers<double>(Index<1>{6}, 66), c = numbers<double>(Index<1>{9}, 67);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    const auto loss = [&](auto rows, auto columns) {
      return hg::sum(hg::sin(u * hg::along<1>(columns)) + hg::along<0>(rows) * hg::square(hg::along<1>(columns)) * u);
    };
    CHECK(gradient_error(maker<Everywhere>(mesh, way), loss, 1, r, c) < differences);
    CHECK(gradient_error(
              maker<Rows>(mesh, way),
              [&](auto rows) {
                return hg::sum(hg::square(u) * hg::along<0>(hg::shift<0, 1>(rows) * rows) +
                               hg::shift<0, -1>(u * hg::along<0>(rows)));
              },
              1, r) < differences);
    CHECK(gradient_error(
              maker<Columns>(mesh, way),
              [&](auto columns) { return hg::sum(hg::shift<1, 1>(hg::along<1>(hg::exp(columns)) * u) * u); }, 1,
              c) < differences);
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [&](auto v) {
                const auto columns = field<Columns>(mesh, c, way);
                return hg::sum(hg::square(v * hg::along<1>(columns)) * hg::shift<0, 1>(v));
              },
              5, a) < differences);
    CHECK(adjoint_error([&](auto v) { return u * hg::along<1>(hg::slice<0>(hg::pad<0>(v, 1, 0), 0, 9)); },
                        field<Everywhere>(mesh, c)) < exact);
  });
}

TEST_CASE("a field that every rank holds, and two mesh dimensions that cut one") {
  using Whole = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
  using Both = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<1>>;
  const auto a = numbers<double>(Index<2>{4, 9}, 68);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto f = [](auto v) {
      return hg::mean(hg::square(hg::slice<1>(v, 0, 9, 2)) * hg::slice<1>(hg::shift<0, 1>(v), 0, 9, 2)) +
             hg::norm(hg::pad<1>(v, 1, 1));
    };
    CHECK(gradient_error(maker<Whole>(mesh, way), f, 5, a) < differences);
    CHECK(gradient_error(maker<Both>(mesh, way), f, 5, a) < differences);
  });
}

}  // namespace test_array_gradients_maps
