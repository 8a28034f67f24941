// transports: mpi nccl
// program: arrays
// Reductions over some dimensions, argmax, and numbers made of several reductions, beside plain loops.
//

#include <doctest/doctest.h>

#include <limits>

#include "support/array.hpp"

namespace test_array_reduced {

using namespace support;

namespace {

using hg::dyn;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using Rows = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
template <class T>
using Columns = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Replicate, hg::Shard<0>>;
using Cube = hg::Mesh<"data", "height", "width">;

/// fold(values along the row or column that remains when dimension `reduced` of a is gone)
template <class T, class Fold>
auto over(const Array<T, 2>& a, int reduced, Fold fold) {
  return [&a, reduced, fold](Index<1> kept) {
    std::vector<T> line;
    for (index_t k = 0; k < a.extents[static_cast<std::size_t>(reduced)]; ++k)
      line.push_back(reduced == 0 ? a(k, kept[0]) : a(kept[0], k));
    return fold(line);
  };
}
const auto add = [](const auto& line) {
  double sum = 0;
  for (const auto v : line) sum += static_cast<double>(v);
  return sum;
};
const auto average = [](const auto& line) { return add(line) / static_cast<double>(line.size()); };
const auto largest = [](const auto& line) { return *std::max_element(line.begin(), line.end()); };
const auto smallest = [](const auto& line) { return *std::min_element(line.begin(), line.end()); };
const auto length = [](const auto& line) {
  double sum = 0;
  for (const auto v : line) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
};
const auto where_largest = [](const auto& line) {
  return static_cast<std::int64_t>(std::max_element(line.begin(), line.end()) - line.begin());
};

}  // namespace

TEST_CASE("means of integers, and of what is true, are fractions") {
  const Index<2> extents{5, 7};
  const auto a = numbers<int>(extents, 29);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<int>>(mesh, a, way);
    const Rows<double> means = hg::mean<1>(u), positive = hg::mean<1>(u > 0);
    CHECK(error(means, {5}, over(a, 1, average)) < 1e-13);
    CHECK(error(positive, {5}, over(a, 1, [](const auto& line) {
                  return static_cast<double>(std::count_if(line.begin(), line.end(), [](int v) { return v > 0; })) / 7;
                })) < 1e-13);
  });
}

TEST_CASE_TEMPLATE("over one dimension of two", T, double, float) {
  const double tolerance = std::is_same_v<T, double> ? 1e-13 : 2e-6;
  for (const Index<2> extents : {Index<2>{7, 150}, Index<2>{31, 2}, Index<2>{1, 1}}) {
    const auto a = numbers<T>(extents, 20);
    const Index<1> rows{extents[0]}, columns{extents[1]};
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<T>>(mesh, a, way);
      const Rows<T> row_sum = hg::sum<1>(u), row_mean = hg::mean<1>(u), row_max = hg::max<1>(u),
                    row_norm = hg::norm<1>(u);
      const Columns<T> column_sum = hg::sum<0>(u), column_min = hg::min<0>(u), column_norm = hg::norm<0>(u + u);
      CHECK(error(row_sum, rows, over(a, 1, add)) < tolerance * 10);
      CHECK(error(row_mean, rows, over(a, 1, average)) < tolerance);
      CHECK(error(row_max, rows, over(a, 1, largest)) == 0);
      CHECK(error(row_norm, rows, over(a, 1, length)) < tolerance * 10);
      CHECK(error(column_sum, columns, over(a, 0, add)) < tolerance * 10);
      CHECK(error(column_min, columns, over(a, 0, smallest)) == 0);
      CHECK(error(column_norm, columns, [&](auto i) { return 2 * over(a, 0, length)(i); }) < tolerance * 10);
      CHECK(row_sum.cut(0) == u.cut(0));
      CHECK(column_sum.cut(0) == u.cut(1));
    });
  }
}

TEST_CASE("integers: sums of 64 bits, extremes, argmax of equal ones is the first") {
  for (const Index<2> extents : {Index<2>{9, 70}, Index<2>{2, 3}}) {
    Array<int, 2> a(extents, [n = 0](auto) mutable { return (n++ * 7919) % 5; });
    const Array<int, 2> big(extents, [](auto) { return 2000000000; });
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<int>>(mesh, a, way);
      const Rows<std::int64_t> sum = hg::sum<1>(field<Plane<int>>(mesh, big, way));
      CHECK(error(sum, {extents[0]}, [&](auto) { return 2000000000 * extents[1]; }) == 0);
      const Columns<std::int64_t> most = hg::max<0>(u), first = hg::argmax<0>(u);
      const Rows<std::int64_t> least = hg::min<1>(u), second = hg::argmax<1>(u);
      CHECK(error(most, {extents[1]}, over(a, 0, largest)) == 0);
      CHECK(error(first, {extents[1]}, over(a, 0, where_largest)) == 0);
      CHECK(error(least, {extents[0]}, over(a, 1, smallest)) == 0);
      CHECK(error(second, {extents[0]}, over(a, 1, where_largest)) == 0);
      const auto where_most = hg::argmax<1>(u, hg::keep_dimensions);
      CHECK(hg::sum(hg::where(hg::global_index<1>(u) == where_most, u, 0)).item() == hg::sum(hg::max<1>(u)).item());
      CHECK(hg::argmax(u).item() == std::max_element(a.values.begin(), a.values.end()) - a.values.begin());
      CHECK(hg::argmax(hg::shift<1, 1>(u) * 3).item() == [&] {
        const Array<int, 2> moved(extents, [&](auto i) { return a(i[0], i[1] + 1); });
        return std::max_element(moved.values.begin(), moved.values.end()) - moved.values.begin();
      }());
    });
  }
}

TEST_CASE("integers of 64 bits: unsigned ones stay so, the mean of large ones does not overflow") {
  using Wide = std::uint64_t;
  const Index<2> extents{3, 7};
  const Wide most = ~Wide{0};
  const Array<Wide, 2> a(extents, [&](auto i) { return i[1] == 2 ? most - static_cast<Wide>(i[0]) : Wide{5}; });
  const std::int64_t now = 1700000000000000000;  // nanoseconds since 1970
  const Array<std::int64_t, 2> times(extents, [&](auto i) { return now + i[0]; });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<Wide>>(mesh, a, way);
    const auto t = field<Plane<std::int64_t>>(mesh, times, way);
    static_assert(std::is_same_v<decltype(hg::max(u).item()), Wide>);
    CHECK(hg::max(u).item() == most);
    CHECK(hg::min(u).item() == 5);
    CHECK(hg::argmax(u).item() == 2);
    CHECK(std::abs(hg::mean(u).item() / (3 * 18446744073709551615.0 / 21) - 1) < 1e-15);
    CHECK(hg::sum(hg::slice<0>(u, 1, 2)).item() == most - 1 + 30);
    CHECK(hg::sum(hg::where(u > 5u, Wide{1} << 63, Wide{0})).item() == Wide{3} << 63);
    CHECK(hg::dot(hg::slice<1>(u, 2, 3) - (most - 3), 1u).item() == 3 + 2 + 1);
    const Rows<Wide> largest = hg::max<1>(u), smallest = hg::min<1>(u);
    const Rows<std::int64_t> at = hg::argmax<1>(u);
    const Rows<double> means = hg::mean<1>(t);
    const Plane<Wide> sums = hg::cumulative_sum<1>(hg::where(u > 5u, most / 2 + 1, u));
    for (const Wide value : hg::full_tensor(smallest)) CHECK(value == 5);
    for (const std::int64_t index : hg::full_tensor(at)) CHECK(index == 2);
    for (Wide i = 0; i < 3; ++i) {
      CHECK(hg::full_tensor(largest)[i] == most - i);
      CHECK(hg::full_tensor(means)[i] == static_cast<double>(now));
      CHECK(hg::full_tensor(sums)[7 * i + 6] == most / 2 + 31);
    }
    CHECK(hg::mean(t).item() == static_cast<double>(now));
    CHECK(hg::norm(t).item() == doctest::Approx(std::sqrt(21.0) * static_cast<double>(now)));
  });
  using Unsigned = Plane<std::uint32_t>;
  const Array<std::uint32_t, 2> large(extents, [](auto) { return 4294967295u; });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Unsigned>(mesh, large, way);
    CHECK(hg::sum(u).item() == 21 * std::int64_t{4294967295});
    CHECK(hg::mean(u).item() == 4294967295.0);
    CHECK(hg::max(u).item() == 4294967295);
  });
}

TEST_CASE("NaN and infinities: NaN is the largest and the smallest, -infinity can be the largest") {
  const double inf = std::numeric_limits<double>::infinity();
  auto a = numbers<double>(Index<2>{6, 9}, 21);
  for (index_t x = 0; x < 9; ++x) a.values[a.offset({3, x})] = -inf;
  for (index_t y = 0; y < 6; ++y) a.values[a.offset({y, 2})] = inf;
  a.values[a.offset({3, 2})] = -inf;
  auto with_nan = a;
  with_nan.values[with_nan.offset({1, 4})] = std::nan("");
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way), v = field<Plane<double>>(mesh, with_nan, way);
    const Rows<double> top = hg::max<1>(u), bottom = hg::min<1>(u), tops = hg::max<1>(v);
    const Rows<std::int64_t> at = hg::argmax<1>(v), at_row = hg::argmax<1>(u);
    const auto tops_own = hg::full_tensor(tops), top_own = hg::full_tensor(top), bottom_own = hg::full_tensor(bottom);
    const auto at_own = hg::full_tensor(at), at_row_own = hg::full_tensor(at_row);
    CHECK(top_own[3] == -inf);
    CHECK(top_own[0] == inf);
    CHECK(bottom_own[3] == -inf);
    CHECK(std::isnan(tops_own[1]));
    CHECK(tops_own[3] == -inf);
    CHECK(at_own[1] == 4);
    CHECK(at_own[0] == 2);
    CHECK(at_row_own[3] == 0);
    CHECK(hg::argmax(v).item() == 9 + 4);
    CHECK(hg::argmax(u).item() == 2);
    CHECK(hg::max(hg::slice<0>(u, 3, 4)).item() == -inf);
    CHECK(hg::argmax(hg::slice<0>(u, 3, 4)).item() == 0);
    CHECK(hg::min(-u).item() == -inf);
  });
}

TEST_CASE("keep_dimensions: beside the field they came from; alone, of extent 1") {
  const Index<2> extents{5, 12};
  const auto a = numbers<double>(extents, 22);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way);
    const Plane<double> anomaly = u - hg::mean<1>(u, hg::keep_dimensions);
    CHECK(error(anomaly, extents, [&](auto i) { return a(i) - over(a, 1, average)({i[0]}); }) < 1e-14);
    const Plane<double> unit = u / hg::norm<0>(u, hg::keep_dimensions) + hg::max<1>(u, hg::keep_dimensions);
    CHECK(error(unit, extents,
                [&](auto i) { return a(i) / over(a, 0, length)({i[1]}) + over(a, 1, largest)({i[0]}); }) < 1e-14);
    // softmax over a dimension that is cut
    const auto e = hg::exp(u - hg::max<1>(u, hg::keep_dimensions));
    const Plane<double> softmax = e / hg::sum<1>(e, hg::keep_dimensions);
    const Rows<double> ones = hg::sum<1>(softmax);
    CHECK(error(ones, {extents[0]}, [](auto) { return 1.0; }) < 1e-14);
    const Plane<double> alone = hg::min<0>(u, hg::keep_dimensions);
    CHECK(error(alone, {1, extents[1]}, [&](auto i) { return over(a, 0, smallest)({i[1]}); }) == 0);
    // of a slice, and a slice of it
    const Plane<double> sliced = hg::slice<1>(u, 1, 12) - hg::mean<1>(hg::slice<1>(u, 0, 11, 2), hg::keep_dimensions);
    CHECK(error(sliced, {5, 11}, [&](auto i) {
            double sum = 0;
            for (int x = 0; x < 11; x += 2) sum += a(i[0], x);
            return a(i[0], i[1] + 1) - sum / 6;
          }) < 1e-14);
    const Rows<double> rows = hg::slice<0>(hg::sum<1>(u), 1, 4);
    CHECK(error(rows, {3}, [&](auto i) { return over(a, 1, add)({i[0] + 1}); }) < 1e-14);
    const Rows<double> difference = hg::shift<0, 1>(hg::sum<1>(u)) - hg::sum<1>(u);
    CHECK(error(difference, {5},
                [&](auto i) { return (i[0] < 4 ? over(a, 1, add)({i[0] + 1}) : 0) - over(a, 1, add)(i); }) < 1e-13);
  });
}

TEST_CASE("two of four dimensions, of a batch on a mesh of three, static channels") {
  using Four = hg::Sharded<hg::Tensor<float, dyn, 3, dyn, dyn>, Cube, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
  using Means = hg::Sharded<hg::Tensor<float, dyn, dyn>, Cube, hg::Shard<0>, hg::Replicate, hg::Replicate>;
  using Zonal = hg::Sharded<hg::Tensor<float, dyn, dyn, dyn>, Cube, hg::Shard<0>, hg::Shard<2>, hg::Replicate>;
  const Index<4> extents{3, 3, 5, 66};
  const auto a = numbers<float>(extents, 23);
  everywhere<Cube>([&](const auto& mesh, int way) {
    const auto u = field<Four>(mesh, a, way);
    const Means means = hg::mean<2, 3>(u);
    CHECK(error(means, {3, 3}, [&](auto i) {
            double sum = 0;
            for (int y = 0; y < 5; ++y)
              for (int x = 0; x < 66; ++x) sum += a(i[0], i[1], y, x);
            return sum / (5 * 66);
          }) < 1e-6);
    const Zonal zonal = hg::max<3>(hg::shift<2, 1>(u));
    CHECK(error(zonal, {3, 3, 5}, [&](auto i) {
            float most = -2;
            for (int x = 0; x < 66; ++x) most = std::max(most, a(i[0], i[1], i[2] + 1, x));
            return most;
          }) == 0);
    const Four centred = u - hg::mean<0, 2>(u, hg::keep_dimensions);
    CHECK(error(centred, extents, [&](auto i) {
            double sum = 0;
            for (int n = 0; n < 3; ++n)
              for (int y = 0; y < 5; ++y) sum += a(n, i[1], y, i[3]);
            return a(i) - sum / 15;
          }) < 1e-6);
  });
}

TEST_CASE("a replicated field counts once; two mesh dimensions that cut one are summed both") {
  using Half = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Shard<1>>;
  using Both = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<1>>;
  using Line = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Replicate>;
  const auto a = numbers<double>(Index<2>{4, 15}, 24);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto half = field<Half>(mesh, a, way);
    const auto both = field<Both>(mesh, a, way);
    const Line of_half = hg::sum<1>(half), of_both = hg::sum<1>(both);
    CHECK(error(of_half, {4}, over(a, 1, add)) < 1e-14);
    CHECK(error(of_both, {4}, over(a, 1, add)) < 1e-14);
    const Columns<double> down = hg::sum<0>(half);
    CHECK(error(down, {15}, over(a, 0, add)) < 1e-14);
    CHECK(std::abs(hg::sum(hg::sum<0>(half)).item() - add(a.values)) < 1e-13);
  });
}

TEST_CASE("numbers made of reductions: item(), conversion, in an expression") {
  const auto a = numbers<float>(Index<2>{6, 11}, 25);
  double sum = 0, squares = 0;
  for (const float v : a.values) sum += v, squares += static_cast<double>(v) * v;
  const double most = largest(a.values), least = smallest(a.values), n = 66;
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<float>>(mesh, a, way);
    const auto variance = hg::mean(hg::cast<double>(u) * u) - hg::square(hg::mean(u));
    CHECK(variance.item() == doctest::Approx(squares / n - sum * sum / n / n).epsilon(1e-12));
    const double range = hg::max(u) - hg::min(u);
    CHECK(range == most - least);
    CHECK(hg::where(hg::sum(u) > 0.0, hg::max(u), hg::min(u)).item() == (sum > 0 ? most : least));
    const Plane<float> scaled = (u - hg::mean(u)) / hg::sqrt(variance + 1e-6);
    const double deviation = std::sqrt(squares / n - sum * sum / n / n + 1e-6);
    CHECK(error(scaled, {6, 11}, [&](auto i) { return (a(i) - sum / n) / deviation; }) < 1e-6);
    CHECK(hg::sum(hg::cast<int>(u > 0.0f)).item() ==
          std::count_if(a.values.begin(), a.values.end(), [](float v) { return v > 0; }));
  });
}

TEST_CASE("what keep_dimensions leaves has one point where it is stored") {
  using Kept = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
  const Index<2> extents{7, 13};
  const auto a = numbers<double>(extents, 28);
  const auto row_mean = [&](index_t y) { return over(a, 1, average)({y}); };
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way);
    const auto kept = hg::mean<1>(u, hg::keep_dimensions);
    const Kept alone = kept, twice = hg::concatenate<1>(kept, 2.0 * kept);
    CHECK(error(alone, {7, 1}, [&](auto i) { return row_mean(i[0]); }) < 1e-13);
    CHECK(error(twice, {7, 2}, [&](auto i) { return (1.0 + i[1]) * row_mean(i[0]); }) < 1e-13);
    const Rows<double> again = hg::mean<1>(kept), sums = hg::sum<1>(kept + 0.0);
    const Rows<std::int64_t> where = hg::argmax<1>(kept);
    CHECK(error(again, {7}, [&](auto i) { return row_mean(i[0]); }) < 1e-13);
    CHECK(error(sums, {7}, [&](auto i) { return row_mean(i[0]); }) < 1e-13);
    CHECK(error(where, {7}, [](auto) { return 0; }) == 0);
    CHECK(hg::argmax(kept).item() == [&] {
      std::int64_t best = 0;
      for (index_t y = 1; y < 7; ++y)
        if (row_mean(y) > row_mean(best)) best = y;
      return best;
    }());
    const Kept doubled = hg::shift<1, 1>(hg::iterate<2>([](const auto& v) { return 2.0 * v; }, kept));
    CHECK(error(doubled, {7, 1}, [](auto) { return 0.0; }) == 0);
    const Kept running = hg::cumulative_sum<1>(kept);
    CHECK(error(running, {7, 1}, [&](auto i) { return row_mean(i[0]); }) < 1e-13);
    using Whole = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
    const Whole whole = hg::redistribute<Whole>(kept);
    CHECK(error(whole, {7, 1}, [&](auto i) { return row_mean(i[0]); }) < 1e-13);
    // beside the field it still fits any extent, and has no end along the dimension that it left
    const Plane<double> anomaly = u - hg::with_boundary<hg::Zero, hg::Zero>(kept + 0.0);
    CHECK(error(anomaly, extents, [&](auto i) { return a(i) - row_mean(i[0]); }) < 1e-13);
    const Kept below = hg::shift<0, 1>(hg::pad<0>(kept, 1, 0));
    CHECK(error(below, {8, 1}, [&](auto i) { return i[0] < 7 ? row_mean(i[0]) : 0.0; }) < 1e-13);
    CHECK_THROWS_WITH_AS(hg::pad<1>(kept, 0, 1),
                         "pad of dimension 1, which keep_dimensions or along left to fit any extent: assign the "
                         "expression to a field first, where it has 1 point",
                         hg::CollectiveError);
    CHECK_THROWS_AS(hg::slice<1>(kept, 0, 1), hg::CollectiveError);
    CHECK_THROWS_AS(hg::concatenate<0>(kept, u), hg::CollectiveError);
  });
}

TEST_CASE("dimensions that a reduction keeps fit any extent after other stages, too") {
  using Field = hg::Sharded<hg::Tensor<double, dyn, 2, dyn, dyn>, Cube, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
  const Index<4> extents{2, 2, 5, 6};
  const auto a = numbers<double>(extents, 31);
  const auto plane_norm = [&](index_t n, index_t c) {
    double sum = 0;
    for (index_t y = 0; y < 5; ++y)
      for (index_t x = 0; x < 6; ++x) sum += a(n, c, y, x) * a(n, c, y, x);
    return std::sqrt(sum);
  };
  everywhere<Cube>([&](const auto& mesh, int way) {
    const auto u = field<Field>(mesh, a, way);
    const auto norms = hg::norm<2, 3>(u, hg::keep_dimensions);
    const Field stored = u / hg::stored(norms);
    CHECK(error(stored, extents, [&](auto i) { return a(i) / plane_norm(i[0], i[1]); }) < 1e-13);
    const Field twice = u / hg::mean<1>(norms, hg::keep_dimensions);
    CHECK(error(twice, extents, [&](auto i) { return a(i) / (0.5 * (plane_norm(i[0], 0) + plane_norm(i[0], 1))); }) <
          1e-13);
    const Field flipped = u * hg::flip<1>(norms);
    CHECK(error(flipped, extents, [&](auto i) { return a(i) * plane_norm(i[0], 1 - i[1]); }) < 1e-12);
    const Field running = u * hg::cumulative_sum<1>(norms);
    CHECK(error(running, extents,
                [&](auto i) { return a(i) * (plane_norm(i[0], 0) + (i[1] == 1 ? plane_norm(i[0], 1) : 0)); }) < 1e-12);
    const Field joined = u * hg::slice<1>(hg::concatenate<1>(norms, norms), 1, 3);
    CHECK(error(joined, extents, [&](auto i) { return a(i) * plane_norm(i[0], 1 - i[1]); }) < 1e-12);
    auto mean_of = hg::value_and_grad(
        [](auto v) { return hg::sum(v / hg::mean<1>(hg::norm<2, 3>(v, hg::keep_dimensions), hg::keep_dimensions)); });
    const auto [value, gradient] = mean_of(u);  // of degree 0 in u, so that u does not change it along itself
    static_cast<void>(value);
    CHECK(hg::dot(gradient, u).item() == doctest::Approx(0).scale(1).epsilon(1e-12));
  });
}

TEST_CASE("norms and products of integers do not overflow") {
  const Index<2> extents{5, 6};
  const Array<int, 2> big(extents, [](auto) { return 50000; });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<int>>(mesh, big, way);
    CHECK(hg::norm(u).item() == doctest::Approx(50000 * std::sqrt(30.0)));
    CHECK(hg::dot(u, u).item() == 30 * std::int64_t{2500000000});
    const Rows<double> rows = hg::norm<1>(u);
    CHECK(error(rows, {5}, [](auto) { return 50000 * std::sqrt(6.0); }) < 1e-9);
  });
}

TEST_CASE("norms and products of floats: squares that no float holds, and their gradients") {
  const Index<2> extents{4, 6};
  for (const float size : {1e30f, 1e-30f}) {
    CAPTURE(size);
    const Array<float, 2> a(extents, [&](auto i) { return i[1] % 2 == 0 ? size : -size; });
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<float>>(mesh, a, way);
      const double exact = static_cast<double>(size);
      CHECK(hg::norm(u).item() == doctest::Approx(exact * std::sqrt(24.0)).epsilon(1e-14));
      CHECK(hg::dot(u, u).item() == doctest::Approx(exact * exact * 24).epsilon(1e-14));
      CHECK(hg::cosine_similarity(u, u, 0).item() == doctest::Approx(1).epsilon(1e-14));
      const Rows<float> rows = hg::norm<1>(u);
      CHECK(error(rows, {4}, [&](auto) { return exact * std::sqrt(6.0); }) < 1e-6 * exact);
      const Plane<float> unit = u / hg::norm<1>(u, hg::keep_dimensions);
      CHECK(error(unit, extents, [&](auto i) { return a(i) / (exact * std::sqrt(6.0)); }) < 1e-6);
      const Plane<float> normalized = hg::normalize<1>(u, 0);
      CHECK(error(normalized, extents, [&](auto i) { return a(i) / (exact * std::sqrt(6.0)); }) < 1e-7);
      const auto slope = hg::grad([](auto v) { return hg::norm(v) + hg::sum(hg::norm<1>(v)); })(u);
      CHECK(error(slope, extents, [&](auto i) { return a(i) / exact * (1 / std::sqrt(24.0) + 1 / std::sqrt(6.0)); }) <
            1e-6);
    });
  }
}

TEST_CASE("products: of all points and of lines, cut or not, and their gradients beside 0") {
  const Index<2> extents{5, 4};
  const auto a = numbers<double>(extents, 91);
  const Array<double, 2> holes(extents,
                               [&](auto i) { return (i[1] == 2 && i[0] < 2) || (i[1] == 3 && i[0] == 4) ? 0 : a(i); });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way), v = field<Plane<double>>(mesh, holes, way);
    double all = 1;
    for (const double x : a.values) all *= x;
    CHECK(hg::prod(u).item() == doctest::Approx(all).epsilon(1e-13));
    const Rows<double> rows = hg::prod<1>(u);
    CHECK(error(rows, {5}, [&](auto i) { return a(i[0], 0) * a(i[0], 1) * a(i[0], 2) * a(i[0], 3); }) < 1e-14);
    const auto slope = hg::grad([](auto x) { return hg::sum(hg::prod<0>(x, hg::keep_dimensions)); })(v);
    CHECK(error(slope, extents, [&](auto i) {
            double others = 1;
            for (index_t y = 0; y < 5; ++y)
              if (y != i[0]) others *= holes(y, i[1]);
            return others;
          }) < 1e-14);
    const auto whole = hg::grad([](auto x) { return hg::prod(1.5 + x); })(u);
    double shifted = 1;
    for (const double x : a.values) shifted *= 1.5 + x;
    CHECK(error(whole, extents, [&](auto i) { return shifted / (1.5 + a(i)); }) < 1e-12 * shifted);
    const auto n = field<Plane<int>>(mesh, Array<int, 2>(extents, [](auto i) { return i[0] == 3 ? -7 : 3; }), way);
    CHECK(hg::prod(n).item() == std::int64_t{2401} * 43046721);
  });
}

}  // namespace test_array_reduced
