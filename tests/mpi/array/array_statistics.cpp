// program: gradients_of_reductions
// var, std, logsumexp, softmax and log_softmax beside plain loops in double, their gradients beside finite differences,
// and how many sums they send.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_statistics {

using namespace support;

namespace {

using hg::dyn;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using Rows = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
template <class T>
using Columns = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Replicate, hg::Shard<0>>;
template <class T>
using OfRows = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Shard<0>, hg::Replicate>;

/// Two passes in double over the values that each(add) adds.
template <class Each>
double variance(Each each, double correction) {
  double sum = 0, count = 0, squares = 0;
  each([&](double v) { sum += v, ++count; });
  each([&](double v) { squares += (v - sum / count) * (v - sum / count); });
  return squares / (count - correction);
}
template <class Each>
double log_of_sum(Each each) {
  double most = -INFINITY, sum = 0;
  each([&](double v) { most = std::max(most, v); });
  if (!std::isfinite(most)) most = 0;
  each([&](double v) { sum += std::exp(v - most); });
  return most + std::log(sum);
}
/// The values of row y, or of column x, or all.
template <class A>
auto row(const A& a, index_t y) {
  return [&a, y](auto add) {
    for (index_t x = 0; x < a.extents[1]; ++x) add(static_cast<double>(a(y, x)));
  };
}
template <class A>
auto column(const A& a, index_t x) {
  return [&a, x](auto add) {
    for (index_t y = 0; y < a.extents[0]; ++y) add(static_cast<double>(a(y, x)));
  };
}
template <class A>
auto all(const A& a) {
  return [&a](auto add) {
    for (const auto v : a.values) add(static_cast<double>(v));
  };
}

/// Calls of collectives and messages of f.
template <class F>
index_t sums_sent(F f) {
  const auto before = hg::comm_stats();
  f();
  const auto spent = hg::comm_stats() - before;
  CHECK(spent.messages.count == 0);
  return static_cast<index_t>(spent.all_reduces.count);
}

}  // namespace

TEST_CASE_TEMPLATE("variances and deviations far from 0, whole and along each dimension", T, float, double, int) {
  const double tolerance = std::is_same_v<T, float> ? 2e-6 : 1e-12;
  auto a = numbers<T>(Index<2>{7, 10}, 301);
  for (T& v : a.values) v = static_cast<T>(v + 1000);  // E[x^2] - E[x]^2 in float has no digit left
  using R = std::conditional_t<std::is_integral_v<T>, double, T>;
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<T>>(mesh, a, way);
    CHECK(hg::var(u).item() == doctest::Approx(variance(all(a), 1)).epsilon(1e-12));
    CHECK(hg::var(u, 0).item() == doctest::Approx(variance(all(a), 0)).epsilon(1e-12));
    CHECK(hg::std(u).item() == doctest::Approx(std::sqrt(variance(all(a), 1))).epsilon(1e-12));
    const double scale = std::is_integral_v<T> ? 1000 : 1;
    const OfRows<R> of_rows = hg::var<1>(u), biased = hg::var<1>(u, 0), deviation = hg::std<1>(u);
    CHECK(error(of_rows, {7}, [&](auto i) { return variance(row(a, i[0]), 1); }) < scale * tolerance);
    CHECK(error(biased, {7}, [&](auto i) { return variance(row(a, i[0]), 0); }) < scale * tolerance);
    CHECK(error(deviation, {7}, [&](auto i) { return std::sqrt(variance(row(a, i[0]), 1)); }) < scale * tolerance);
    const Columns<R> of_columns = hg::var<0>(u);
    CHECK(error(of_columns, {10}, [&](auto i) { return variance(column(a, i[0]), 1); }) < scale * tolerance);
    const Plane<R> kept = (u - hg::mean<1>(u, hg::keep_dimensions)) / hg::std<1>(u, hg::keep_dimensions, 0);
    CHECK(error(kept, {7, 10}, [&](auto i) {
            double mean = 0;
            row(a, i[0])([&](double v) { mean += v / 10; });
            return (a(i) - mean) / std::sqrt(variance(row(a, i[0]), 0));
          }) < (std::is_same_v<T, float> ? 1e-3 : 1e-11));
    const OfRows<R> of_one = hg::var<1>(hg::slice<1>(u, 3, 4)), none = hg::std<1>(hg::slice<1>(u, 3, 4), 0);
    CHECK((of_one.local_extent(0) == 0 || error(of_one, {7}, [](auto) { return 0.0; }) == 1e300));  // NaN
    CHECK(error(none, {7}, [](auto) { return 0.0; }) == 0);
  });
}

TEST_CASE_TEMPLATE("logsumexp, softmax and log_softmax, of large numbers, infinities and integers", T, float, double,
                   int) {
  const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-13;
  using R = std::conditional_t<std::is_integral_v<T>, double, T>;
  auto a = numbers<T>(Index<2>{6, 9}, 302);
  for (T& v : a.values) v = static_cast<T>(v * 3);
  for (index_t x = 0; x < 9; ++x) a.values[a.offset({2, x})] += static_cast<T>(500);
  if constexpr (!std::is_integral_v<T>) {
    for (index_t x = 0; x < 9; ++x) a.values[a.offset({3, x})] = static_cast<T>(-INFINITY);
    a.values[a.offset({4, 1})] = static_cast<T>(INFINITY);
    a.values[a.offset({5, 7})] = static_cast<T>(-INFINITY);
  }
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<T>>(mesh, a, way);
    const OfRows<R> logs = hg::logsumexp<1>(u);
    const Plane<R> soft = hg::softmax<1>(u), log_soft = hg::log_softmax<1>(u), along_columns = hg::softmax<0>(u);
    for (index_t y = 0; y < 6; ++y) {
      if (!(y >= logs.owned(0).begin && y < logs.owned(0).end)) continue;
      const double expected = log_of_sum(row(a, y));
      const double own = static_cast<double>(logs.to_host()[static_cast<std::size_t>(y - logs.offset(0))]);
      CHECK((own == expected || std::abs(own - expected) <= tolerance * std::max(1.0, std::abs(expected))));
    }
    const auto in_row = [&](auto i) { return std::exp(a(i) - log_of_sum(row(a, i[0]))); };
    const auto finite = [&](auto i) { return i[0] != 3 && i[0] != 4; };
    CHECK(error(Plane<R>(hg::where(hg::isfinite(soft), soft, R(0))), {6, 9},
                [&](auto i) { return finite(i) || std::is_integral_v<T> ? in_row(i) : 0.0; }) < tolerance);
    CHECK(error(Plane<R>(hg::where(hg::isfinite(log_soft), log_soft, R(0))), {6, 9}, [&](auto i) {
            const double v = a(i) - log_of_sum(row(a, i[0]));
            return (finite(i) || std::is_integral_v<T>)&&std::isfinite(v) ? v : 0.0;
          }) < 50 * tolerance);
    if constexpr (std::is_integral_v<T>) {
      CHECK(error(along_columns, {6, 9}, [&](auto i) { return std::exp(a(i) - log_of_sum(column(a, i[1]))); }) < 1e-13);
      CHECK(hg::logsumexp(u).item() == doctest::Approx(log_of_sum(all(a))).epsilon(1e-14));
    } else {
      CHECK(hg::logsumexp(u).item() == INFINITY);
    }
    const Plane<R> beside = hg::cast<R>(u) - hg::logsumexp<1>(u, hg::keep_dimensions);
    CHECK(error(Plane<R>(hg::where(hg::isfinite(beside), beside - log_soft, R(0))), {6, 9}, [](auto) { return 0.0; }) ==
          0);
  });
}

TEST_CASE("gradients of var, std, logsumexp, softmax and log_softmax, whole and along each dimension") {
  const auto a = numbers<double>(Index<2>{5, 6}, 303);
  everywhere<Grid>([&](const auto& mesh, int way) {
    CHECK(gradient_error(
              maker<Plane<double>>(mesh, way),
              [](auto v) {
                return hg::var(v) * hg::std(v, 0) + hg::sum(hg::square(hg::var<1>(hg::sin(v)))) +
                       hg::mean(hg::std<0>(v, hg::keep_dimensions) * hg::square(v)) + hg::logsumexp(v * v);
              },
              1, a) < 1e-8);
    CHECK(gradient_error(
              maker<Plane<double>>(mesh, way),
              [](auto v) {
                const auto s = hg::softmax<1>(2.0 * v);
                return hg::sum(s * hg::shift<1, 1>(v)) + hg::sum(hg::square(hg::softmax<0>(v))) +
                       hg::sum(hg::log_softmax<1>(v) * v) + hg::sum(hg::logsumexp<0>(v) * hg::logsumexp<0>(v)) +
                       hg::sum(hg::logsumexp<1>(v, hg::keep_dimensions) * v);
              },
              1, a) < 1e-8);
    const auto flat = field<Plane<double>>(mesh, Array<double, 2>(Index<2>{5, 6}, [](auto) { return 2.0; }), way);
    const auto none = hg::grad([](auto v) { return hg::std(v) + hg::sum(hg::std<1>(v)); })(flat);
    CHECK(error(none, {5, 6}, [](auto) { return 0.0; }) == 0);  // as torch.std: 0, where a root alone has infinity
    const auto detached = hg::grad([](auto v) { return hg::sum(v * hg::detach(v)); })(flat);
    CHECK(error(detached, {5, 6}, [](auto) { return 2.0; }) == 0);
  });
}

TEST_CASE("two sums of a number or of a number a line where the dimension is cut, none where it is not") {
  const auto a = numbers<double>(Index<2>{12, 8}, 304);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Rows<double>>(mesh, a, way);
    CHECK(sums_sent([&] { const OfRows<double> v = hg::var<1>(u); }) == 0);
    CHECK(sums_sent([&] { const Rows<double> v = hg::softmax<1>(u); }) == 0);
    const index_t cut = mesh.extent(0) > 1 ? 2 : 0;
    CHECK(sums_sent([&] { static_cast<void>(hg::std(u).item()); }) == cut);
    CHECK(sums_sent([&] { const Rows<double> v = hg::softmax<0>(u); }) == cut);
    CHECK(sums_sent([&] { const Rows<double> v = u / hg::std<0>(u, hg::keep_dimensions); }) == cut);
  });
}

}  // namespace test_array_statistics
