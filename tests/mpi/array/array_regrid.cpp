// program: expressions
// slice, pad, permute, transpose, along beside plain loops over host arrays: ranks 1 to 5, all meshes, uneven cuts.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_regrid {

using namespace support;

namespace {

using hg::dyn;
using Line = hg::Mesh<"line">;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using Turned = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
template <class T>
using Vector = hg::Sharded<hg::Tensor<T, dyn>, Line, hg::Shard<0>>;

}  // namespace

TEST_CASE_TEMPLATE("a slice with a step, of one dimension or of both", T, float, double, int) {
  for (const Index<2> extents : {Index<2>{11, 13}, Index<2>{2, 3}, Index<2>{1, 7}}) {
    const auto a = numbers<T>(extents, 1);
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<T>>(mesh, a, way);
      const auto before = hg::comm_stats();
      const Plane<T> all = hg::slice<0>(u, 0, extents[0]);
      const Plane<T> middle = hg::slice<1>(u, 1, extents[1] - 1);
      const Plane<T> odd = hg::slice<1>(hg::slice<0>(u, 0, extents[0], 3), 1, extents[1], 2);
      const Plane<T> last = hg::slice<1>(hg::slice<1>(u, 1, extents[1]), extents[1] - 2, extents[1] - 1);
      const Plane<T> sum = hg::slice<0>(2 * u + u, 0, extents[0], 2);
      CHECK((hg::comm_stats() - before) == hg::CommStatistics{});  // points stay where they are
      CHECK(error(all, extents, a) == 0);
      CHECK(error(middle, {extents[0], extents[1] - 2}, [&](auto i) { return a(i[0], i[1] + 1); }) == 0);
      CHECK(error(odd, {(extents[0] + 2) / 3, extents[1] / 2}, [&](auto i) { return a(3 * i[0], 2 * i[1] + 1); }) == 0);
      CHECK(error(last, {extents[0], 1}, [&](auto i) { return a(i[0], extents[1] - 1); }) == 0);
      CHECK(error(sum, {(extents[0] + 1) / 2, extents[1]},
                  [&](auto i) { return T(2) * a(2 * i[0], i[1]) + a(2 * i[0], i[1]); }) == 0);
    });
  }
}

TEST_CASE("slices beside each other and beside fields that are cut otherwise") {
  const Index<2> extents{17, 14};
  const auto a = numbers<double>(extents, 2), b = numbers<double>(Index<2>{16, 14}, 3);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, 0), v = field<Plane<double>>(mesh, b, way);
    const Plane<double> difference = hg::slice<0>(u, 1, 17) - hg::slice<0>(u, 0, 16);
    CHECK(error(difference, {16, 14}, [&](auto i) { return a(i[0] + 1, i[1]) - a(i[0], i[1]); }) == 0);
    Plane<double> mixed = v * hg::slice<0>(u, 1, 17) + hg::shift<0, 1>(v) * hg::slice<0>(u, 0, 16);
    CHECK(error(mixed, {16, 14}, [&](auto i) { return b(i) * a(i[0] + 1, i[1]) + b(i[0] + 1, i[1]) * a(i[0], i[1]); }) <
          1e-15);
    CHECK(mixed.cut(0) == v.cut(0));
    // A shifted slice is 0 beyond its own ends, though the field goes on there; a slice of a shifted field is not.
    const Plane<double> beyond = hg::shift<0, 1>(hg::slice<0>(u, 2, 9));
    CHECK(error(beyond, {7, 14}, [&](auto i) { return i[0] + 1 < 7 ? a(i[0] + 3, i[1]) : 0.0; }) == 0);
    const Plane<double> inside = hg::slice<0>(hg::shift<0, 1>(u), 2, 9);
    CHECK(error(inside, {7, 14}, [&](auto i) { return a(i[0] + 3, i[1]); }) == 0);
  });
}

TEST_CASE("periodic fields narrower than what is read of them are passed more than once") {
  for (const Index<2> extents : {Index<2>{1, 1}, Index<2>{2, 1}, Index<2>{3, 2}, Index<2>{1, 5}, Index<2>{4, 7}}) {
    const auto a = numbers<double>(extents, 30), b = numbers<double>(extents, 31);
    const auto wrapped = [&](const auto& array, index_t i, index_t j) {
      return array(hg::floor_mod(i, extents[0]), hg::floor_mod(j, extents[1]));
    };
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<double>>(mesh, a, way), v = field<Plane<double>>(mesh, b, way);
      const auto w = hg::with_boundary<hg::Periodic, hg::Periodic>(u);
      const Plane<double> far = hg::shift<1, 9>(w) - hg::shift<0, -11>(w) * v + hg::shift<0, 4>(hg::shift<1, -3>(w));
      CHECK(error(far, extents, [&](auto i) {
              return wrapped(a, i[0], i[1] + 9) - wrapped(a, i[0] - 11, i[1]) * b(i) + wrapped(a, i[0] + 4, i[1] - 3);
            }) < 1e-15);
    });
  }
}

TEST_CASE("slices of a periodic field read over its ends, those with a step too") {
  const Index<2> extents{7, 12};
  const auto a = numbers<float>(extents, 4);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<float>>(mesh, a, way);
    const auto w = hg::with_boundary<hg::Zero, hg::Periodic>(u);
    const Plane<float> moved = hg::slice<1>(hg::shift<1, 2>(w) + hg::shift<0, -1>(w), 1, 12, 2);
    CHECK(error(moved, {7, 6}, [&](auto i) {
            const index_t x = 2 * i[1] + 1;
            return a(i[0], (x + 2) % 12) + a(i[0] - 1, x);
          }) == 0);
  });
}

TEST_CASE_TEMPLATE("pad: zeros at the ends, of fields, of expressions, of slices", T, float, int) {
  for (const Index<2> extents : {Index<2>{9, 10}, Index<2>{1, 2}, Index<2>{2, 5}}) {
    const auto a = numbers<T>(extents, 5);
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<T>>(mesh, a, way);
      const Plane<T> padded = hg::pad<1>(hg::pad<0>(u, 2, 1), 0, 3);
      CHECK(error(padded, {extents[0] + 3, extents[1] + 3}, [&](auto i) { return a(i[0] - 2, i[1]); }) == 0);
      const Plane<T> cleared =
          hg::pad<0>(hg::slice<0>(u + T(1), 0, 1), 0, extents[0] - 1);  // not the 1 beyond the ends
      CHECK(error(cleared, extents, [&](auto i) { return i[0] == 0 ? a(0, i[1]) + T(1) : T(0); }) == 0);
      const Plane<T> round = hg::slice<1>(hg::pad<1>(u, 4, 4), 4, 4 + extents[1]);
      CHECK(error(round, extents, a) == 0);
    });
  }
}

TEST_CASE("faces between points: N + 1 beside N, by pad and by slice") {
  for (const index_t n : {1, 2, 3, 5, 20}) {
    const auto a = numbers<double>(Index<1>{n}, 6);
    everywhere<Line>([&](const auto& mesh, int way) {
      const auto h = field<Vector<double>>(mesh, a, way);
      const Vector<double> flux = 0.5 * (hg::pad<0>(h, 1, 0) + hg::pad<0>(h, 0, 1));  // (N + 1)
      CHECK(error(flux, {n + 1}, [&](auto i) { return 0.5 * (a(i[0] - 1) + a(i[0])); }) == 0);
      const Vector<double> divergence = hg::slice<0>(flux, 1, n + 1) - hg::slice<0>(flux, 0, n);
      CHECK(error(divergence, {n}, [&](auto i) { return 0.5 * (a(i[0] + 1) - a(i[0] - 1)); }) < 1e-15);
      Vector<double> next = h;
      for (int t = 0; t < 3; ++t) next = h - (hg::slice<0>(flux, 1, n + 1) - hg::slice<0>(flux, 0, n));
      CHECK(error(next, {n}, [&](auto i) { return a(i) - 0.5 * (a(i[0] + 1) - a(i[0] - 1)); }) < 1e-15);
      CHECK(next.cut(0) == h.cut(0));
    });
  }
}

TEST_CASE_TEMPLATE("transpose: the dimensions, and with them the placements", T, double, int) {
  for (const Index<2> extents : {Index<2>{8, 11}, Index<2>{1, 6}, Index<2>{3, 2}}) {
    const auto a = numbers<T>(extents, 7), b = numbers<T>(Index<2>{extents[1], extents[0]}, 8);
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<T>>(mesh, a, way);
      const auto v = field<Turned<T>>(mesh, b, way);
      const auto before = hg::comm_stats();
      const Turned<T> turned = hg::transpose<0, 1>(u);
      const Plane<T> back = hg::transpose<1, 0>(turned);
      CHECK((hg::comm_stats() - before) == hg::CommStatistics{});
      CHECK(error(turned, {extents[1], extents[0]}, [&](auto i) { return a(i[1], i[0]); }) == 0);
      CHECK(error(back, extents, a) == 0);
      const Plane<T> moved = u + hg::shift<0, 1>(hg::transpose<0, 1>(hg::shift<0, -2>(v)));
      CHECK(error(moved, extents, [&](auto i) { return a(i) + b(i[1] - 2, i[0] + 1); }) == 0);
      const Plane<T> inner = hg::slice<0>(hg::transpose<0, 1>(hg::slice<0>(v, 0, extents[1], 2)), 0, extents[0]);
      CHECK(error(inner, {extents[0], (extents[1] + 1) / 2}, [&](auto i) { return b(2 * i[1], i[0]); }) == 0);
    });
  }
}

TEST_CASE("permute three, four and five dimensions") {
  using Three = hg::Sharded<hg::Tensor<float, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<0>>;
  using ThreeOf120 = hg::Sharded<hg::Tensor<float, dyn, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<2>>;
  using Four = hg::Sharded<hg::Tensor<int, dyn, 3, dyn, dyn>, hg::Mesh<"data", "height", "width">, hg::Shard<0>,
                           hg::Shard<2>, hg::Shard<3>>;
  using ChannelsLast = hg::Sharded<hg::Tensor<int, dyn, dyn, dyn, 3>, hg::Mesh<"data", "height", "width">, hg::Shard<0>,
                                   hg::Shard<1>, hg::Shard<2>>;
  using Five = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn, dyn, dyn>, Grid, hg::Shard<4>, hg::Shard<1>>;
  using FiveBack = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<3>>;
  const auto a = numbers<float>(Index<3>{4, 5, 7}, 9);
  const auto b = numbers<int>(Index<4>{2, 3, 5, 7}, 10);
  const auto c = numbers<double>(Index<5>{2, 3, 1, 2, 5}, 11);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const ThreeOf120 turned = hg::permute<1, 2, 0>(field<Three>(mesh, a, way));
    CHECK(error(turned, {5, 7, 4}, [&](auto i) { return a(i[2], i[0], i[1]); }) == 0);
    const FiveBack reversed = hg::permute<4, 3, 2, 1, 0>(field<Five>(mesh, c, way));
    CHECK(error(reversed, {5, 2, 1, 3, 2}, [&](auto i) { return c(i[4], i[3], i[2], i[1], i[0]); }) == 0);
    const Five sliced = hg::slice<4>(hg::shift<1, -1>(field<Five>(mesh, c, way)), 1, 5, 3);
    CHECK(error(sliced, {2, 3, 1, 2, 2}, [&](auto i) { return c(i[0], i[1] - 1, i[2], i[3], 1 + 3 * i[4]); }) == 0);
  });
  everywhere<hg::Mesh<"data", "height", "width">>([&](const auto& mesh, int way) {
    const auto u = field<Four>(mesh, b, way);
    const ChannelsLast last = hg::permute<0, 2, 3, 1>(u);
    CHECK(error(last, {2, 5, 7, 3}, [&](auto i) { return b(i[0], i[3], i[1], i[2]); }) == 0);
    const Four back = hg::permute<0, 3, 1, 2>(last) - u;
    CHECK(error(back, {2, 3, 5, 7}, [](auto) { return 0; }) == 0);
  });
}

TEST_CASE("along: vectors that every rank holds, or that are cut as their dimension") {
  using Everywhere = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Replicate>;
  using Rows = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
  using Columns = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Shard<0>>;
  for (const Index<2> extents : {Index<2>{9, 14}, Index<2>{2, 1}}) {
    const auto a = numbers<double>(extents, 12);
    const auto r = numbers<double>(Index<1>{extents[0]}, 13), c = numbers<double>(Index<1>{extents[1]}, 14);
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<double>>(mesh, a, way);
      const auto rows = field<Everywhere>(mesh, r), columns = field<Everywhere>(mesh, c);
      const auto cut_rows = field<Rows>(mesh, r, way);
      const auto cut_columns = field<Columns>(mesh, c, way);
      const auto expected = [&](auto i) { return a(i) * c(i[1]) + r(i[0]); };
      const auto before = hg::comm_stats();
      const Plane<double> whole = u * hg::along<1>(columns) + hg::along<0>(rows);
      const Plane<double> cut = u * hg::along<1>(cut_columns) + hg::along<0>(cut_rows);
      const Plane<double> first = hg::along<0>(rows) + hg::along<1>(columns) * u;
      CHECK((hg::comm_stats() - before) == hg::CommStatistics{});
      CHECK(error(whole, extents, expected) < 1e-15);
      CHECK(error(cut, extents, expected) < 1e-15);
      CHECK(error(first, extents, expected) < 1e-15);
      const Plane<double> outer = hg::along<0>(cut_rows) * hg::along<1>(cut_columns);  // no field of rank 2 in it
      CHECK(error(outer, extents, [&](auto i) { return r(i[0]) * c(i[1]); }) == 0);
      const Plane<double> sliced =
          hg::along<1>(hg::slice<0>(columns, 0, 1)) + hg::along<0>(rows) * hg::slice<1>(u, 0, 1);
      CHECK(error(sliced, {extents[0], 1}, [&](auto i) { return c(0) + r(i[0]) * a(i); }) < 1e-15);
      const Plane<double> neighbours =
          u + (hg::along<1>(hg::shift<0, 1>(cut_columns)) - hg::along<1>(hg::shift<0, -1>(columns)));
      CHECK(error(neighbours, extents, [&](auto i) { return a(i) + (c(i[1] + 1) - c(i[1] - 1)); }) < 1e-15);
    });
  }
}

TEST_CASE("along of a plane in four dimensions, and of a permuted one") {
  using Cube = hg::Mesh<"data", "height", "width">;
  using Four = hg::Sharded<hg::Tensor<float, dyn, dyn, dyn, dyn>, Cube, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
  using Surface = hg::Sharded<hg::Tensor<float, dyn, dyn>, Cube, hg::Replicate, hg::Shard<0>, hg::Shard<1>>;
  const auto a = numbers<float>(Index<4>{3, 2, 5, 4}, 15);
  const auto s = numbers<float>(Index<2>{5, 4}, 16);
  everywhere<Cube>([&](const auto& mesh, int way) {
    const auto u = field<Four>(mesh, a, way);
    const auto v = field<Surface>(mesh, s, way);
    const Four scaled = u * hg::along<2, 3>(v);
    CHECK(error(scaled, {3, 2, 5, 4}, [&](auto i) { return a(i) * s(i[2], i[3]); }) == 0);
    const Four turned = u - hg::along<3, 2>(hg::transpose<0, 1>(hg::shift<0, 1>(v)));
    CHECK(error(turned, {3, 2, 5, 4}, [&](auto i) { return a(i) - s(i[2] + 1, i[3]); }) == 0);
  });
}

TEST_CASE("fields that every rank holds, and a dimension that two mesh dimensions cut") {
  using Whole = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
  using Both = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<1>>;
  const Index<2> extents{5, 13};
  const auto a = numbers<double>(extents, 17);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto whole = field<Whole>(mesh, a, way);
    const Whole turned = hg::transpose<0, 1>(hg::slice<1>(hg::shift<0, 1>(whole), 2, 13, 4));
    CHECK(error(turned, {3, 5}, [&](auto i) { return a(i[1] + 1, 2 + 4 * i[0]); }) == 0);
    const auto both = field<Both>(mesh, a, way);
    const Both padded = hg::pad<1>(hg::slice<1>(both, 3, 12), 1, 1);
    CHECK(error(padded, {5, 11}, [&](auto i) { return i[1] < 1 || i[1] > 9 ? 0 : a(i[0], i[1] + 2); }) == 0);
    // What every rank holds may be assigned where it is cut: each keeps its part.
    const Plane<double> part = hg::transpose<0, 1>(whole);
    CHECK(error(part, {13, 5}, [&](auto i) { return a(i[1], i[0]); }) == 0);
  });
}

}  // namespace test_array_regrid
