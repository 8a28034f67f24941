// ranks: 1
// Values and derivatives of the functions of values beside PyTorch's, at signed zeros, ties, the ends of their domains,
// infinities and NaN: as expressions, and those of them that functors may call by dual numbers.
//

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "support/array.hpp"
#include "support/reference.hpp"

namespace test_array_functions_ends {

using namespace support;

namespace {

using Line = hg::Mesh<"line">;
template <class T>
using Points = hg::Sharded<hg::Tensor<T, hg::dyn>, Line, hg::Shard<0>>;

template <class T>
Points<T> points(const std::vector<T>& values) {
  static_cast<void>(grid_world());
  static const auto mesh = hg::device_mesh<Line>(hg::Communicator(), {1});  // each rank alone
  Points<T> field(mesh, {static_cast<index_t>(values.size())});
  field.copy_from_host(values);
  return field;
}

/// Of both signs of 0 where `signs`.
bool same(double a, double b, bool signs) {
  if (std::isnan(b)) return std::isnan(a);
  if (a == b) return !signs || std::signbit(a) == std::signbit(b);
  return std::abs(a - b) <= 4e-15 * std::abs(b) + 1e-16;
}

void compare(const std::string& what, const std::vector<double>& found, const std::vector<double>& expected,
             const std::vector<std::vector<double>>& at, bool signs) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::string place = what;
    for (const auto& values : at) place += " " + std::to_string(values[i]);
    CAPTURE(place);
    CAPTURE(found[i]);
    CAPTURE(expected[i]);
    CHECK(same(found[i], expected[i], signs));
  }
}

/// The value and the derivative of f with respect to each of its fields.
template <class F, class... Fields>
auto derived(F f, const Fields&... fields) {
  const auto [value, pull] = hg::vjp(f, fields...);
  const auto ones = points(std::vector<double>(static_cast<std::size_t>(value.extent(0)), 1));
  return std::tuple_cat(std::tuple(value), pull(ones));
}

struct Table {
  Reference stored{"functions"};

  template <class F>
  void one(const std::string& name, F f) const {
    const auto x = stored.values("points");
    const auto [value, slope] = derived(f, points(x));
    compare(name, value.to_host(), stored.values(name + ".value"), {x}, true);
    compare(name + "'", slope.to_host(), stored.values(name + ".derivative"), {x}, false);
  }
  template <class F>
  void two(const std::string& name, F f, bool signs = true) const {
    const auto x = stored.values("firsts"), y = stored.values("seconds");
    const auto [value, first, second] = derived(f, points(x), points(y));
    compare(name, value.to_host(), stored.values(name + ".value"), {x, y}, signs);
    compare(name + " by the first", first.to_host(), stored.values(name + ".first"), {x, y}, false);
    compare(name + " by the second", second.to_host(), stored.values(name + ".second"), {x, y}, false);
  }
};

#define HALOGEN_TEST_FUNCTOR(function)              \
  struct Dual_##function {                          \
    template <class... T>                           \
    KOKKOS_FUNCTION auto operator()(T... x) const { \
      using Kokkos::function;                       \
      return function(x...);                        \
    }                                               \
  };
HALOGEN_TEST_FUNCTOR(sqrt)
HALOGEN_TEST_FUNCTOR(exp)
HALOGEN_TEST_FUNCTOR(expm1)
HALOGEN_TEST_FUNCTOR(log)
HALOGEN_TEST_FUNCTOR(log1p)
HALOGEN_TEST_FUNCTOR(erf)
HALOGEN_TEST_FUNCTOR(abs)
HALOGEN_TEST_FUNCTOR(sin)
HALOGEN_TEST_FUNCTOR(cos)
HALOGEN_TEST_FUNCTOR(tan)
HALOGEN_TEST_FUNCTOR(asin)
HALOGEN_TEST_FUNCTOR(acos)
HALOGEN_TEST_FUNCTOR(atan)
HALOGEN_TEST_FUNCTOR(sinh)
HALOGEN_TEST_FUNCTOR(cosh)
HALOGEN_TEST_FUNCTOR(tanh)
HALOGEN_TEST_FUNCTOR(pow)
HALOGEN_TEST_FUNCTOR(fmax)
HALOGEN_TEST_FUNCTOR(fmin)
#undef HALOGEN_TEST_FUNCTOR

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T y) const {
    return x * y;
  }
};
struct Quotient {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T y) const {
    return x / y;
  }
};

/// u^0 of a neighbour: constant, wherever u is 0.
struct PowerOfNeighbour {
  using footprint = hg::Footprint<hg::At<0>, hg::At<1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T here, T next) const {
    using Kokkos::pow, Kokkos::abs;
    return here * pow(next, 0) + abs(next);
  }
};

}  // namespace

TEST_CASE("functions of one value at the ends of their domains are PyTorch's, and their derivatives") {
  const Table table;
#define HALOGEN_TEST_ONE(function) table.one(#function, [](auto u) { return hg::function(u); });
  HALOGEN_TEST_ONE(square)
  HALOGEN_TEST_ONE(sqrt)
  HALOGEN_TEST_ONE(rsqrt)
  HALOGEN_TEST_ONE(exp)
  HALOGEN_TEST_ONE(expm1)
  HALOGEN_TEST_ONE(log)
  HALOGEN_TEST_ONE(log1p)
  HALOGEN_TEST_ONE(log10)
  HALOGEN_TEST_ONE(erf)
  HALOGEN_TEST_ONE(abs)
  HALOGEN_TEST_ONE(sign)
  HALOGEN_TEST_ONE(sin)
  HALOGEN_TEST_ONE(cos)
  HALOGEN_TEST_ONE(tan)
  HALOGEN_TEST_ONE(asin)
  HALOGEN_TEST_ONE(acos)
  HALOGEN_TEST_ONE(atan)
  HALOGEN_TEST_ONE(sinh)
  HALOGEN_TEST_ONE(cosh)
  HALOGEN_TEST_ONE(tanh)
  HALOGEN_TEST_ONE(sigmoid)
  HALOGEN_TEST_ONE(reciprocal)
  HALOGEN_TEST_ONE(exp2)
  HALOGEN_TEST_ONE(log2)
  HALOGEN_TEST_ONE(erfc)
  HALOGEN_TEST_ONE(asinh)
  HALOGEN_TEST_ONE(acosh)
  HALOGEN_TEST_ONE(atanh)
  HALOGEN_TEST_ONE(relu)
  HALOGEN_TEST_ONE(floor)
  HALOGEN_TEST_ONE(ceil)
  HALOGEN_TEST_ONE(trunc)
  HALOGEN_TEST_ONE(round)
#undef HALOGEN_TEST_ONE
  table.one("clamp", [](auto u) { return hg::clamp(u, -1.0, 1.5); });
}

TEST_CASE("functions of two values at zeros, ties, infinities and NaN are PyTorch's, and their derivatives") {
  const Table table;
#define HALOGEN_TEST_TWO(function) table.two(#function, [](auto u, auto v) { return hg::function(u, v); });
  HALOGEN_TEST_TWO(pow)
  HALOGEN_TEST_TWO(hypot)
  HALOGEN_TEST_TWO(atan2)
  HALOGEN_TEST_TWO(remainder)
  HALOGEN_TEST_TWO(fmod)
#undef HALOGEN_TEST_TWO
  table.two(
      "maximum", [](auto u, auto v) { return hg::maximum(u, v); }, false);  // either 0 is the larger
  table.two(
      "minimum", [](auto u, auto v) { return hg::minimum(u, v); }, false);
  table.two("multiply", [](auto u, auto v) { return u * v; });
  table.two("divide", [](auto u, auto v) { return u / v; });
  table.two("where", [](auto u, auto v) { return hg::where(u > v, u, v); });
}

TEST_CASE("what functors may call has the same derivatives by dual numbers") {
  const Table table;
#define HALOGEN_TEST_DUAL(function) table.one(#function, [](auto u) { return hg::apply(Dual_##function{}, u); });
  HALOGEN_TEST_DUAL(sqrt)
  HALOGEN_TEST_DUAL(exp)
  HALOGEN_TEST_DUAL(expm1)
  HALOGEN_TEST_DUAL(log)
  HALOGEN_TEST_DUAL(log1p)
  HALOGEN_TEST_DUAL(erf)
  HALOGEN_TEST_DUAL(abs)
  HALOGEN_TEST_DUAL(sin)
  HALOGEN_TEST_DUAL(cos)
  HALOGEN_TEST_DUAL(tan)
  HALOGEN_TEST_DUAL(asin)
  HALOGEN_TEST_DUAL(acos)
  HALOGEN_TEST_DUAL(atan)
  HALOGEN_TEST_DUAL(sinh)
  HALOGEN_TEST_DUAL(cosh)
  HALOGEN_TEST_DUAL(tanh)
#undef HALOGEN_TEST_DUAL
  table.two("multiply", [](auto u, auto v) { return hg::apply(Product{}, u, v); });
  table.two("divide", [](auto u, auto v) { return hg::apply(Quotient{}, u, v); });
  table.two("pow", [](auto u, auto v) { return hg::apply(Dual_pow{}, u, v); });
  table.two(
      "fmax", [](auto u, auto v) { return hg::apply(Dual_fmax{}, u, v); }, false);
  table.two(
      "fmin", [](auto u, auto v) { return hg::apply(Dual_fmin{}, u, v); }, false);
}

TEST_CASE("powers with a number: u^0 is constant, in expressions, functors and stencils") {
  const auto u = points(std::vector<double>{0, -0.0, 3, -2, std::numeric_limits<double>::infinity()});
  const auto [value, slope] = derived([](auto v) { return hg::pow(v, 0) + hg::pow(v, 0.0f) + hg::pow(v, 1); }, u);
  const auto ones = hg::full_tensor(slope);
  for (const double one : ones) CHECK(one == 1);
  CHECK(hg::full_tensor(value)[0] == 2);
  const auto exponents = hg::grad([](auto v) { return hg::sum(hg::pow(0, hg::abs(v))); })(u);
  for (const double none : hg::full_tensor(exponents)) CHECK(none == 0);
  const auto w = points(std::vector<double>{0, -0.0, 3, -2, 0});
  const auto by_stencil =
      hg::full_tensor(std::get<1>(derived([](auto v) { return hg::stencil(PowerOfNeighbour{}, v); }, w)));
  const double expected[] = {1, 1, 2, 0, 1};  // the neighbour beyond the end is 0
  for (std::size_t i = 0; i < 5; ++i) CHECK(by_stencil[i] == expected[i]);
}

TEST_CASE("bounds that are fields share the gradient of a tie") {
  const auto u = points(std::vector<double>{-1, 2, 5, 2}), low = points(std::vector<double>{-1, 0, 0, 0}),
             high = points(std::vector<double>{3, 2, 3, 4});
  const auto [value, du, dlow, dhigh] =
      derived([](auto a, auto b, auto c) { return hg::clamp(a, b, c); }, u, low, high);
  CHECK(value.to_host() == std::vector<double>{-1, 2, 3, 2});
  CHECK(du.to_host() == std::vector<double>{0.5, 0.5, 0, 1});
  CHECK(dlow.to_host() == std::vector<double>{0.5, 0, 0, 0});
  CHECK(dhigh.to_host() == std::vector<double>{0, 0.5, 1, 0});
}

TEST_CASE("the logistic function of unsigned integers and truths") {
  const auto values = [](const auto& field) {
    const Points<double> s = hg::sigmoid(field);
    return s.to_host();
  };
  const double expected[] = {0.5, 0.7310585786300049, 1};
  const auto check = [&](const std::vector<double>& found) {
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(found[i] - expected[i]) < 1e-15);
  };
  check(values(points(std::vector<unsigned>{0, 1, 4000000000u})));
  check(values(points(std::vector<std::uint8_t>{0, 1, 255})));
  check(values(points(std::vector<std::uint64_t>{0, 1, ~std::uint64_t{0}})));
}

}  // namespace test_array_functions_ends
