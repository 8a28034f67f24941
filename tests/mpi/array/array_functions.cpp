// program: arrays
// The functions of values: those of the standard library, point by point; their gradients beside finite differences.
//

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/array.hpp"

namespace test_array_functions {

using namespace support;

namespace {

template <class T>
using PlaneOf = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Plane = PlaneOf<double>;

const Index<2> extents{7, 9};

/// A functor of the user's, whose derivative is found by dual numbers.
struct Powers {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T y) const {
    using Kokkos::asin, Kokkos::acos, Kokkos::atan, Kokkos::cosh, Kokkos::erf, Kokkos::expm1, Kokkos::log1p,
        Kokkos::pow, Kokkos::sinh, Kokkos::tan;
    return pow(x + 2.0, y) + pow(y + 2.0, 2) + pow(3, x) + asin(0.5 * x) * acos(0.5 * y) + atan(x) * cosh(y) +
           sinh(x) * tan(0.5 * y) + erf(x) * expm1(y) + log1p(x + 1.5);
  }
};

}  // namespace

TEST_CASE("functions of one value are those of the standard library") {
  const auto a = numbers<double>(extents, 1);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const Plane u = field<Plane>(mesh, a, way);
    const auto check = [&](const auto& expression, auto expected) {
      const Plane v = expression;
      CHECK(error(v, extents, [&](const Index<2>& i) { return expected(a(i)); }) < 1e-15);
    };
    check(hg::tan(u), [](double x) { return std::tan(x); });
    check(hg::asin(u), [](double x) { return std::asin(x); });
    check(hg::acos(u), [](double x) { return std::acos(x); });
    check(hg::atan(u), [](double x) { return std::atan(x); });
    check(hg::sinh(u), [](double x) { return std::sinh(x); });
    check(hg::cosh(u), [](double x) { return std::cosh(x); });
    check(hg::expm1(u), [](double x) { return std::expm1(x); });
    check(hg::log1p(u), [](double x) { return std::log1p(x); });
    check(hg::log10(2.0 + u), [](double x) { return std::log10(2.0 + x); });
    check(hg::erf(u), [](double x) { return std::erf(x); });
    check(hg::rsqrt(2.0 + u), [](double x) { return 1 / std::sqrt(2.0 + x); });
    check(hg::sigmoid(u), [](double x) { return 1 / (1 + std::exp(-x)); });
    check(hg::relu(u), [](double x) { return x > 0 ? x : 0; });
    check(hg::sign(u), [](double x) { return x > 0 ? 1 : -1; });
    check(hg::floor(4.0 * u), [](double x) { return std::floor(4 * x); });
    check(hg::ceil(4.0 * u), [](double x) { return std::ceil(4 * x); });
    check(hg::trunc(4.0 * u), [](double x) { return std::trunc(4 * x); });
    check(hg::round(4.0 * u), [](double x) { return std::round(4 * x); });
  });
}

TEST_CASE("functions of two values, bounds") {
  const auto a = numbers<double>(extents, 2), b = numbers<double>(extents, 3);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const Plane u = field<Plane>(mesh, a, way), v = field<Plane>(mesh, b, way);
    const auto check = [&](const auto& expression, auto expected) {
      const Plane w = expression;
      CHECK(error(w, extents, [&](const Index<2>& i) { return expected(a(i), b(i)); }) < 1e-15);
    };
    check(hg::pow(2.0 + u, v), [](double x, double y) { return std::pow(2 + x, y); });
    check(hg::pow(u, 3), [](double x, double) { return std::pow(x, 3); });
    check(hg::atan2(u, v), [](double x, double y) { return std::atan2(x, y); });
    check(hg::hypot(u, v), [](double x, double y) { return std::hypot(x, y); });
    check(hg::max(u, v) - hg::maximum(u, 0.25), [](double x, double y) { return std::max(x, y) - std::max(x, 0.25); });
    check(hg::min(u, v) - hg::minimum(0.25, v), [](double x, double y) { return std::min(x, y) - std::min(0.25, y); });
    check(hg::clamp(u, -0.5, 0.25), [](double x, double) { return std::clamp(x, -0.5, 0.25); });
    check(hg::clamp(u, -0.5, v), [](double x, double y) { return std::min(std::max(x, -0.5), y); });
    check(hg::remainder(8.0 * u, 3.0), [](double x, double) { return 8 * x - 3 * std::floor(8 * x / 3); });
    check(8.0 * u % -3.0, [](double x, double) { return 8 * x + 3 * std::floor(8 * x / -3); });
  });
}

TEST_CASE("values keep their types") {
  const auto mesh = all_meshes<Grid>().front();
  const auto a = numbers<float>(extents, 4);
  const auto u = field<PlaneOf<float>>(mesh, a);
  static_assert(std::is_same_v<decltype(hg::pow(u, 2))::value_type, float>);
  static_assert(std::is_same_v<decltype(hg::pow(u, 2.0))::value_type, double>);
  static_assert(std::is_same_v<decltype(hg::clamp(u, 0.f, 1.f))::value_type, float>);
  static_assert(std::is_same_v<decltype(hg::isnan(u))::value_type, bool>);
  const PlaneOf<float> v = hg::erf(u) * hg::log10(2.f + u);
  CHECK(error(v, extents, [&](const Index<2>& i) { return std::erf(a(i)) * std::log10(2.f + a(i)); }) < 1e-7);

  const auto n = numbers<int>(extents, 5);
  const auto whole = field<PlaneOf<int>>(mesh, n);
  const PlaneOf<int> rest = whole % 7 + 10 * hg::sign(whole);
  CHECK(error(rest, extents, [&](const Index<2>& i) { return (n(i) % 7 + 7) % 7 + 10 * ((n(i) > 0) - (n(i) < 0)); }) ==
        0);
}

TEST_CASE("halves are rounded to the even number") {
  const auto mesh = all_meshes<Grid>().front();
  const Array<double, 2> halves(extents, [](const Index<2>& i) { return static_cast<double>(i[0] - i[1]) / 2; });
  const Plane rounded = hg::round(field<Plane>(mesh, halves));
  CHECK(error(rounded, extents, [&](const Index<2>& i) {
          const double x = halves(i);
          return std::abs(x - std::trunc(x)) == 0.5 ? 2 * std::round(x / 2) : x;
        }) == 0);
}

TEST_CASE("a NaN is seen, whichever operand it is") {
  const auto mesh = all_meshes<Grid>().front();
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const double specials[] = {nan, infinity, -infinity, 0.5};
  const Array<double, 2> a(extents, [&](const Index<2>& i) { return specials[(i[0] + i[1]) % 4]; });
  const Plane u = field<Plane>(mesh, a);
  const PlaneOf<int> nans = hg::cast<int>(hg::isnan(u)) + 10 * hg::cast<int>(hg::isfinite(u)) +
                            100 * hg::cast<int>(hg::isnan(hg::maximum(u, 1.0)) && hg::isnan(hg::maximum(1.0, u))) +
                            1000 * hg::cast<int>(hg::isnan(hg::min(u, 1.0)) && hg::isnan(hg::min(1.0, u))) +
                            10000 * hg::cast<int>(hg::isnan(hg::relu(u))) +
                            100000 * hg::cast<int>(hg::isnan(hg::clamp(u, 0.0, 1.0)));
  CHECK(error(nans, extents, [&](const Index<2>& i) {
          const int n = std::isnan(a(i)) ? 1 : 0;
          return 111101 * n + 10 * (std::isfinite(a(i)) ? 1 : 0);
        }) == 0);
}

TEST_CASE("gradients") {
  const auto a = numbers<double>(Index<2>{5, 4}, 6), b = numbers<double>(Index<2>{5, 4}, 7);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto make = maker<Plane>(mesh, way);
    CHECK(gradient_error(
              make,
              [](auto u, auto v) {
                const auto w = 0.5 * u * v;
                return hg::sum(hg::tan(w) + hg::asin(w) * hg::acos(0.5 * v) + hg::atan(w) * hg::sinh(u) +
                               hg::cosh(w) * hg::expm1(v) + hg::log1p(w) * hg::log10(2.0 + u) + hg::erf(u) +
                               hg::rsqrt(2.0 + w) + hg::sigmoid(2.0 * v) + hg::relu(u) * w);
              },
              1, a, b) < 1e-8);
    CHECK(gradient_error(
              make,
              [](auto u, auto v) {
                return hg::sum(hg::pow(2.0 + u, v) + hg::pow(u, 3) + hg::pow(2.0, v) + hg::atan2(u, 2.0 + v) +
                               hg::hypot(u, v) + hg::max(u, v) * hg::min(u, 0.3) + hg::clamp(u, -0.5, 0.5) * v +
                               hg::remainder(u, 3.0 + v) + hg::floor(2.0 + 0.5 * u) * v);
              },
              1, a, b) < 1e-8);
    CHECK(gradient_error(
              make, [](auto u, auto v) { return hg::sum(hg::apply(Powers{}, u, v)); }, 1, a, b) < 1e-8);
  });
}

TEST_CASE("powers of zero have a gradient") {
  const auto mesh = all_meshes<Grid>().front();
  const Array<double, 2> zeros(extents, [](const Index<2>&) { return 0.0; });
  const Array<double, 2> twos(extents, [](const Index<2>&) { return 2.0; });
  auto f = hg::value_and_grad([](auto u, auto v) { return hg::sum(hg::pow(u, v)); });
  const auto [value, du, dv] = f(field<Plane>(mesh, zeros), field<Plane>(mesh, twos));
  CHECK(value == 0);
  CHECK(error(du, extents, [](const Index<2>&) { return 0.0; }) == 0);
  CHECK(error(dv, extents, [](const Index<2>&) { return 0.0; }) == 0);
}

}  // namespace test_array_functions
