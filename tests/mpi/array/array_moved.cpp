// program: arrays
// cumulative_sum, concatenate, redistribute of expressions and stencil functors, beside plain loops.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_moved {

using namespace support;

namespace {

using hg::dyn;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using Turned = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
template <class T>
using Whole = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;

struct Upwind {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<2, 1>>;
  float speed;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T west, T corner) const {
    return centre - speed * (centre - west) + corner * corner;
  }
};
struct Median {
  using footprint = hg::Footprint<hg::At<-1>, hg::At<0>, hg::At<1>>;
  KOKKOS_FUNCTION int operator()(int a, int b, int c) const {
    return a > b ? (b > c ? b : (a > c ? c : a)) : (a > c ? a : (b > c ? c : b));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("cumulative_sum along a cut dimension and along another", T, double, int, float) {
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-13;
  for (const Index<2> extents : {Index<2>{7, 130}, Index<2>{65, 3}, Index<2>{1, 2}}) {
    const auto a = numbers<T>(extents, 30);
    Array<double, 2> right(extents, a), down(extents, a), both(extents, a);
    for_each_index(extents, [&](Index<2> i) {
      right.values[right.offset(i)] += right(i[0], i[1] - 1);
      down.values[down.offset(i)] += down(i[0] - 1, i[1]);
    });
    for_each_index(extents, [&](Index<2> i) { both.values[both.offset(i)] = right(i) + both(i[0] - 1, i[1]); });
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<T>>(mesh, a, way);
      using Sums = Plane<std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>;
      const Sums along_rows = hg::cumulative_sum<1>(u), along_columns = hg::cumulative_sum<0>(u);
      const Sums nested = hg::cumulative_sum<0>(hg::cumulative_sum<1>(u));
      CHECK(error(along_rows, extents, right) < tolerance);
      CHECK(error(along_columns, extents, down) < tolerance);
      CHECK(error(nested, extents, both) < tolerance * 10);
      // trapezoids from the expression's neighbours, and the sum's own neighbours
      const Sums inner = hg::cumulative_sum<1>(u + hg::shift<1, -1>(u)) - hg::shift<1, -1>(hg::cumulative_sum<1>(u));
      CHECK(error(inner, extents, right) < tolerance * 2);
      const Sums sliced = hg::cumulative_sum<1>(hg::slice<1>(u, extents[1] / 2, extents[1]));
      CHECK(error(sliced, {extents[0], extents[1] - extents[1] / 2}, [&](auto i) {
              return right(i[0], i[1] + extents[1] / 2) - right(i[0], extents[1] / 2 - 1);
            }) < tolerance * 2);
    });
  }
}

TEST_CASE("cumulative sums of what is true, and of narrow integers, count in 64 bits") {
  const Index<2> extents{3, 700};
  const Array<std::int8_t, 2> a(extents, [](auto) { return 100; });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<std::int8_t>>(mesh, a, way);
    const Plane<std::int64_t> sums = hg::cumulative_sum<1>(u), counts = hg::cumulative_sum<1>(u > 0);
    CHECK(error(sums, extents, [](auto i) { return 100 * (i[1] + 1); }) == 0);
    CHECK(error(counts, extents, [](auto i) { return i[1] + 1; }) == 0);
  });
}

TEST_CASE("beyond the ends of an expression without any field stands 0 too") {
  const Array<double, 2> a(Index<2>{6, 5}, [](Index<2>) { return 0.0; });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way);
    const auto rows = hg::with_boundary<hg::Zero, hg::Zero>(hg::cast<double>(hg::global_index<0>(u)) + 1.0);
    const Plane<double> next = u + hg::shift<0, 1>(rows);
    CHECK(error(next, {6, 5}, [](auto i) { return i[0] < 5 ? static_cast<double>(i[0] + 2) : 0.0; }) == 0);
    const Plane<double> wider = hg::pad<1>(u, 0, 1) + hg::pad<1>(hg::cast<double>(hg::global_index<1>(u)) + 1.0, 0, 1);
    CHECK(error(wider, {6, 6}, [](auto i) { return i[1] < 5 ? static_cast<double>(i[1] + 1) : 0.0; }) == 0);
  });
}

TEST_CASE("cumulative_sum in one, three and four dimensions") {
  using Line = hg::Mesh<"line">;
  using Vector = hg::Sharded<hg::Tensor<double, dyn>, Line, hg::Shard<0>>;
  using Volume = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
  using Four = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn, dyn>, Grid, hg::Shard<3>, hg::Shard<3>>;
  const auto a = numbers<double>(Index<1>{23}, 31);
  const auto b = numbers<double>(Index<3>{4, 5, 3}, 32);
  const auto c = numbers<double>(Index<4>{2, 3, 2, 7}, 33);
  everywhere<Line>([&](const auto& mesh, int way) {
    const Vector s = hg::cumulative_sum<0>(field<Vector>(mesh, a, way));
    CHECK(error(s, {23}, [&](auto i) {
            double sum = 0;
            for (index_t k = 0; k <= i[0]; ++k) sum += a(k);
            return sum;
          }) < 1e-14);
  });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const Volume s = hg::cumulative_sum<1>(field<Volume>(mesh, b, way));
    CHECK(error(s, {4, 5, 3}, [&](auto i) {
            double sum = 0;
            for (index_t k = 0; k <= i[1]; ++k) sum += b(i[0], k, i[2]);
            return sum;
          }) < 1e-14);
    const Four t = hg::cumulative_sum<3>(field<Four>(mesh, c, way)) + hg::cumulative_sum<1>(field<Four>(mesh, c, way));
    CHECK(error(t, {2, 3, 2, 7}, [&](auto i) {
            double sum = 0;
            for (index_t k = 0; k <= i[3]; ++k) sum += c(i[0], i[1], i[2], k);
            for (index_t k = 0; k <= i[1]; ++k) sum += c(i[0], k, i[2], i[3]);
            return sum;
          }) < 1e-14);
  });
}

TEST_CASE("concatenate along both dimensions, of fields, expressions, slices and of one") {
  for (const Index<2> extents : {Index<2>{7, 5}, Index<2>{1, 2}}) {
    const auto a = numbers<double>(extents, 34), b = numbers<double>(Index<2>{3, extents[1]}, 35),
               c = numbers<double>(Index<2>{extents[0], 9}, 36);
    const auto e0 = extents[0], e1 = extents[1];
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<double>>(mesh, a, way), v = field<Plane<double>>(mesh, b, (way + 1) % 3),
                 w = field<Plane<double>>(mesh, c, way);
      const Plane<double> tall = hg::concatenate<0>(u, v);
      CHECK(error(tall, {e0 + 3, e1}, [&](auto i) { return i[0] < e0 ? a(i) : b(i[0] - e0, i[1]); }) == 0);
      const Plane<double> broad = hg::concatenate<1>(w, 2.0 * u, hg::shift<0, 1>(w));
      CHECK(error(broad, {e0, 18 + e1}, [&](auto i) {
              return i[1] < 9 ? c(i) : i[1] < 9 + e1 ? 2 * a(i[0], i[1] - 9) : c(i[0] + 1, i[1] - 9 - e1);
            }) == 0);
      const Plane<double> rolled = hg::concatenate<1>(hg::slice<1>(w, 4, 9), hg::slice<1>(w, 0, 4));
      CHECK(error(rolled, {e0, 9}, [&](auto i) { return c(i[0], (i[1] + 4) % 9); }) == 0);
      const Plane<double> one = hg::concatenate<0>(v);
      CHECK(error(one, {3, e1}, b) == 0);
      const Plane<double> inside = hg::shift<0, 1>(hg::concatenate<0>(u, v)) - hg::concatenate<0>(2.0 * u, v);
      CHECK(error(inside, {e0 + 3, e1}, [&](auto i) {
              const auto uv = [&](index_t y) { return y < e0 ? a(y, i[1]) : b(y - e0, i[1]); };
              return (i[0] + 1 < e0 + 3 ? uv(i[0] + 1) : 0.0) - (i[0] < e0 ? 2 : 1) * uv(i[0]);
            }) == 0);
      CHECK_THROWS_AS(static_cast<void>(hg::concatenate<0>(u, w)), hg::CollectiveError);
    });
  }
}

TEST_CASE("concatenate along a dimension that is not cut sends nothing; kinds of numbers join as in C++") {
  using Rows = hg::Sharded<hg::Tensor<float, dyn, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
  using IntRows = hg::Sharded<hg::Tensor<int, dyn, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
  const auto a = numbers<float>(Index<2>{8, 5}, 37);
  const auto b = numbers<int>(Index<2>{8, 4}, 38);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Rows>(mesh, a, way);
    const auto v = field<IntRows>(mesh, b, way);
    const auto before = hg::comm_stats();
    const Rows joined = hg::concatenate<1>(u, v, u);
    if (way == 0) CHECK((hg::comm_stats() - before).messages.count == 0);
    CHECK(error(joined, {8, 14}, [&](auto i) {
            return i[1] < 5 ? a(i) : i[1] < 9 ? static_cast<float>(b(i[0], i[1] - 5)) : a(i[0], i[1] - 9);
          }) == 0);
  });
}

TEST_CASE("redistribute inside an expression, of expressions, there and back") {
  const Index<2> extents{9, 10};
  const auto a = numbers<float>(extents, 39), b = numbers<float>(extents, 40);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<float>>(mesh, a, way);
    const auto v = field<Turned<float>>(mesh, b, way);
    const Turned<float> sum =
        hg::redistribute<Turned<float>>(2.0f * u) + hg::shift<0, 1>(hg::redistribute<Turned<float>>(u + u));
    CHECK(error(sum, extents, [&](auto i) { return 2 * a(i) + 2 * a(i[0] + 1, i[1]); }) == 0);
    const auto chunked = field<Plane<float>>(mesh, a, 0);
    const Plane<float> beside =
        chunked * hg::redistribute<Plane<float>>(hg::slice<0>(hg::pad<0>(v + 1.0f, 1, 1), 1, 10));
    CHECK(error(beside, extents, [&](auto i) { return a(i) * (b(i) + 1); }) == 0);
    const Whole<float> whole = hg::redistribute<Whole<float>>(hg::transpose<0, 1>(u - 0.0f));
    CHECK(error(whole, {10, 9}, [&](auto i) { return a(i[1], i[0]); }) == 0);
    const Plane<float> scaled =
        u * hg::along<1>(hg::redistribute<hg::Sharded<hg::Tensor<float, dyn>, Grid, hg::Replicate, hg::Replicate>>(
                hg::max<0>(u) + 0.0f));
    CHECK(error(scaled, extents, [&](auto i) {
            float most = -2;
            for (int y = 0; y < 9; ++y) most = std::max(most, a(y, i[1]));
            return a(i) * most;
          }) == 0);
  });
}

TEST_CASE("stencil functors: footprints in two dimensions and one, both boundaries, of expressions") {
  using Line = hg::Mesh<"line">;
  using Vector = hg::Sharded<hg::Tensor<int, dyn>, Line, hg::Shard<0>>;
  for (const Index<2> extents : {Index<2>{11, 8}, Index<2>{2, 1}}) {
    const auto a = numbers<double>(extents, 41);
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<double>>(mesh, a, way);
      const double speed = 0.25f;
      const auto expected = [&](auto at) {
        return [&, at](auto i) {
          const double corner = at(i[0] + 2, i[1] + 1);
          return at(i[0], i[1]) - speed * (at(i[0], i[1]) - at(i[0], i[1] - 1)) + corner * corner;
        };
      };
      const Plane<double> zero = hg::stencil(Upwind{0.25f}, u);
      CHECK(error(zero, extents, expected([&](index_t y, index_t x) { return a(y, x); })) < 1e-15);
      const Plane<double> torus = hg::stencil(Upwind{0.25f}, hg::with_boundary<hg::Zero, hg::Periodic>(u));
      CHECK(error(torus, extents, expected([&](index_t y, index_t x) { return a(y, hg::floor_mod(x, extents[1])); })) <
            1e-15);
      const Plane<double> chained = hg::stencil(Upwind{0.25f}, hg::shift<1, 1>(u) * 2.0);
      CHECK(error(chained, extents, expected([&](index_t y, index_t x) { return 2 * a(y, x + 1); })) < 1e-14);
    });
  }
  const auto b = numbers<int>(Index<1>{29}, 42);
  everywhere<Line>([&](const auto& mesh, int way) {
    const Vector smooth = hg::stencil(Median{}, field<Vector>(mesh, b, way));
    CHECK(error(smooth, {29}, [&](auto i) {
            std::array<int, 3> three{b(i[0] - 1), b(i), b(i[0] + 1)};
            std::sort(three.begin(), three.end());
            return three[1];
          }) == 0);
  });
}

}  // namespace test_array_moved
