// program: gradients_of_stages
// Gradients through cumulative_sum, concatenate and redistribute: finite differences in double, and the adjoint
// identity of linear ones.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_gradients_stages {

using namespace support;

namespace {

using hg::dyn;
using Plane = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Turned = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
using Whole = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;

constexpr double exact = 1e-13, differences = 1e-8;

}  // namespace

TEST_CASE("cumulative_sum, both ways round, of expressions and of itself") {
  const auto a = numbers<double>(Index<2>{4, 7}, 73);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::cumulative_sum<1>(v); }, u) < exact);
    CHECK(adjoint_error(
              [](auto v) { return hg::cumulative_sum<0>(hg::shift<1, 1>(v) - 2.0 * hg::cumulative_sum<1>(v)); }, u) <
          exact);
    CHECK(
        adjoint_error(
            [](auto v) { return hg::shift<1, -1>(hg::cumulative_sum<1>(v)) + hg::slice<1>(hg::pad<1>(v, 1, 0), 0, 7); },
            u) < exact);
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto v) {
                const auto s = hg::cumulative_sum<1>(hg::square(v));
                return hg::sum(s * v + hg::log(1.0 + s)) + hg::mean(hg::square(hg::cumulative_sum<0>(v)));
              },
              1, a) < differences);
  });
}

TEST_CASE("concatenate and redistribute: each part is given its piece of the cotangent") {
  using Rows = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
  const auto a = numbers<double>(Index<2>{5, 6}, 74), b = numbers<double>(Index<2>{3, 6}, 75);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<0>(v, 2.0 * v, hg::slice<0>(v, 1, 3)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<1>(hg::slice<1>(v, 2, 6), hg::slice<1>(v, 0, 2)); }, u) <
          exact);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<1>(v, hg::shift<0, 1>(v)); }, field<Rows>(mesh, a, way)) <
          exact);
    CHECK(adjoint_error([](auto v) { return hg::redistribute<Turned>(hg::shift<0, 1>(v) + v); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::shift<0, 1>(hg::redistribute<Whole>(v)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::redistribute<Plane>(2.0 * v); }, field<Whole>(mesh, a)) < exact);
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto v, auto w) {
                const auto joined = hg::concatenate<0>(v, hg::sin(w));
                const auto turned = hg::redistribute<Turned>(hg::square(v));
                return hg::sum(hg::square(joined) * hg::shift<0, 1>(joined)) +
                       hg::sum(turned * hg::cumulative_sum<0>(turned)) * hg::norm(w);
              },
              2, a, b) < differences);
  });
}

TEST_CASE("cut_as: to the placements and cuts of another, values and gradients") {
  const Index<2> extents{7, 6};
  const auto a = numbers<double>(extents, 78), b = numbers<double>(extents, 79);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    const auto same = field<Plane>(mesh, b, (way + 1) % ways_to_cut);
    const auto turned = field<Turned>(mesh, b, (way + 2) % ways_to_cut);
    const Plane sum = hg::cut_as(2.0 * u + hg::shift<0, 1>(u), same) * same;
    CHECK(error(sum, extents, [&](auto i) { return (2 * a(i) + a(i[0] + 1, i[1])) * b(i); }) < 1e-14);
    CHECK(sum.cuts() == same.cuts());
    const Turned across = hg::cut_as(u, turned + 1.0);
    CHECK(error(across, extents, a) == 0);
    CHECK(across.cuts() == turned.cuts());
    const auto floats = hg::cast<float>(u);
    static_assert(std::is_same_v<typename decltype(hg::cut_as(floats, turned))::value_type, float>);
    CHECK(adjoint_error([&](auto v) { return hg::cut_as(2.0 * v, same); }, u) < exact);
    CHECK(adjoint_error([&](auto v) { return hg::shift<1, 1>(hg::cut_as(hg::shift<0, 1>(v), turned)); }, u) < exact);
    const auto slope =
        hg::grad([&](auto v) { return hg::sum(hg::square(hg::cut_as(hg::sin(v), turned)) * turned); })(u);
    CHECK(error(slope, extents, [&](auto i) { return 2 * std::sin(a(i)) * std::cos(a(i)) * b(i); }) < 1e-14);
    const auto end = field<Plane>(mesh, Array<double, 2>({2, 6}, [](auto) { return 1.0; }), way);
    const Plane moved = end + hg::cut_as(hg::slice<0>(u, 5, 7), end);  // far from where it is used, on many ranks
    CHECK(error(moved, {2, 6}, [&](auto i) { return 1 + a(i[0] + 5, i[1]); }) == 0);
    const auto longer = field<Plane>(mesh, numbers<double>(Index<2>{8, 6}, 80), way);
    CHECK_THROWS_AS(hg::cut_as(u, longer), hg::CollectiveError);
  });
}

TEST_CASE("what fits any partners owes what all of them were given, wherever they lie") {
  const auto a = numbers<double>(Index<2>{5, 6}, 76);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<1>(v, hg::sum<1>(v, hg::keep_dimensions)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<0>(hg::mean<0>(v, hg::keep_dimensions), v); }, u) < exact);
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto v) {
                const auto m = hg::mean<1>(v, hg::keep_dimensions);
                const auto n = hg::sum<0>(v, hg::keep_dimensions);
                return hg::sum(hg::slice<0>(m, 1, 5) * hg::slice<0>(v, 1, 5)) +
                       hg::sum(hg::slice<1>(n, 0, 6, 2) * hg::square(hg::slice<1>(v, 0, 6, 2))) +
                       hg::sum(hg::pad<0>(m, 1, 0) * hg::pad<0>(v, 0, 1));
              },
              1, a) < differences);
    const auto turned = numbers<double>(Index<2>{6, 5}, 77);  // whole on every rank, beside what is cut
    const auto beside = [&](auto v) { return hg::sum(hg::square(hg::concatenate<1>(u, hg::transpose<0, 1>(v)))); };
    CHECK(gradient_error(maker<Whole>(mesh, way), beside, 1, turned) < differences);
    const auto as_it_is = [&](auto v) { return hg::sum(hg::square(hg::concatenate<1>(u, hg::permute<0, 1>(v)))); };
    CHECK(gradient_error(maker<Whole>(mesh, way), as_it_is, 1, a) < differences);
  });
}

}  // namespace test_array_gradients_stages
