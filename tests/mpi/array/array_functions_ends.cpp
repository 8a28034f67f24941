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

const hg::DeviceMesh<Line>& line() {
  static_cast<void>(grid_world());
  static const auto mesh = hg::device_mesh<Line>(hg::Communicator(), {1});  // each rank alone
  return mesh;
}
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
template <class T>
Points<T> points(const std::vector<T>& values) {
  Points<T> field(line(), {static_cast<index_t>(values.size())});
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
  /// Alone such a function has no gradient to ask for; beside its operand it adds PyTorch's 0.
  template <class F>
  void flat(const std::string& name, F f) const {
    const auto x = stored.values("points");
    const decltype(points(x)) value = f(points(x));
    compare(name, value.to_host(), stored.values(name + ".value"), {x}, true);
    auto expected = stored.values(name + ".derivative");
    for (double& slope : expected) slope += 1;
    const auto [sum, slope] = derived([f](auto u) { return f(u) + u; }, points(x));
    compare(name + "' + 1", slope.to_host(), expected, {x}, false);
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

/// A branch of a user's own, and a part that does not depend on x.
struct Branches {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::expm1;
    const T none = T(1) / T(0);
    return x > T(0) ? x : none < T(0) ? none : expm1(x);
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
#define HALOGEN_TEST_FLAT(function) table.flat(#function, [](auto u) { return hg::function(u); });
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
  HALOGEN_TEST_FLAT(sign)
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
  HALOGEN_TEST_FLAT(floor)
  HALOGEN_TEST_FLAT(ceil)
  HALOGEN_TEST_FLAT(trunc)
  HALOGEN_TEST_FLAT(round)
#undef HALOGEN_TEST_ONE
#undef HALOGEN_TEST_FLAT
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

const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// The slope of f at x beside the right one.
template <class F>
void check_slope(const std::string& name, const std::vector<double>& x, const std::vector<double>& expected, F f) {
  compare(name, std::get<1>(derived(f, points(x))).to_host(), expected, {x}, false);
}

TEST_CASE("points that a function does not choose owe nothing, though their derivative be infinite or NaN") {
  const std::vector<double> x{1000, -0.5, infinity, 0};
  const std::vector<double> expected{1, std::exp(-0.5), 1, 1};
  check_slope("where", x, expected, [](auto u) { return hg::where(u > 0.0, u, hg::expm1(u)); });
  check_slope("where of what is stored", x, expected,
              [](auto u) { return hg::where(u > 0.0, u, hg::stored(hg::expm1(u))); });
  check_slope("a functor's branch", x, expected, [](auto u) { return hg::apply(Branches{}, u); });
  check_slope("minimum", {1000, -1}, {0, std::exp(-1)}, [](auto u) { return hg::minimum(hg::exp(u), 2.0); });
  check_slope("clamp", {1000, -1, 0}, {0, std::exp(-1), 1}, [](auto u) { return hg::clamp(hg::exp(u), 0.0, 2.0); });
  check_slope("relu", {0, 2}, {0, 0.25 / std::sqrt(2.0)}, [](auto u) { return 0.5 * hg::relu(hg::sqrt(u)); });
  check_slope("a label that is missing", {1, 2, 3}, {2, 0, 0}, [](auto u) {
    const auto label = points(std::vector<double>{0, nan, infinity});
    return hg::where(hg::isfinite(label), hg::square(u - label), 0.0);
  });
  check_slope("logarithms of 0, through a sum over two points", {0, 2}, {0, 1},
              [](auto u) { return hg::sum(hg::where(u > 0.0, hg::log(u), 0.0)) + hg::zeros_like(u); });
}

TEST_CASE("what is 0 by choice stays 0 beside an infinite cotangent") {
  const std::vector<double> x{-1, 4};
  const auto check = [&](const std::string& name, auto f) { check_slope(name, x, {0, 0.25}, f); };
  check("where", [](auto u) { return hg::sqrt(hg::where(u > 0.0, u, 0.0)); });
  check("relu", [](auto u) { return hg::sqrt(hg::relu(u)); });
  check("clamp", [](auto u) { return hg::sqrt(hg::clamp(u, 0.0, 9.0)); });
  check("maximum", [](auto u) { return hg::sqrt(hg::maximum(u, 0.0)); });
  check("minimum", [](auto u) { return hg::sqrt(-hg::minimum(-u, 0.0)); });
  check_slope("abs", {0, 4}, {0, 0.25}, [](auto u) { return hg::sqrt(hg::abs(u)); });
}

TEST_CASE_TEMPLATE("integers: nothing traps; by 0 is 0, overflows wrap", T, std::int8_t, std::uint8_t, std::int16_t,
                   int, unsigned, std::int64_t, std::uint64_t) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  constexpr T minus_one = static_cast<T>(-1);
  const std::vector<T> a{7, static_cast<T>(-7), 7, static_cast<T>(-7), least, least, most, 0, 5};
  const std::vector<T> b{2, 2, static_cast<T>(-2), static_cast<T>(-2), minus_one, 0, 0, 0, 5};
  const auto u = points(a), v = points(b);
  // In 128 bits, then cut to the type of C++'s operator: what wraps.
  const auto check = [&](const std::string& name, const auto& expression, auto expected) {
    using R = typename std::decay_t<decltype(expression)>::value_type;
    const Points<R> field = expression;
    const auto found = field.to_host();
    for (std::size_t i = 0; i < a.size(); ++i) {
      CAPTURE(name);
      CAPTURE(static_cast<double>(a[i]));
      CAPTURE(static_cast<double>(b[i]));
      CHECK(found[i] == static_cast<R>(expected(static_cast<__int128>(a[i]), static_cast<__int128>(b[i]))));
    }
  };
  using Wide = __int128;
  const auto quotient = [](Wide x, Wide y) { return y == 0 ? Wide(0) : x / y; };
  const auto floored = [](Wide x, Wide y) {
    return y == 0 ? Wide(0) : x / y - (x % y != 0 && (x % y < 0) != (y < 0) ? 1 : 0);
  };
  const auto rest = [&](Wide x, Wide y) { return y == 0 ? Wide(0) : x - y * floored(x, y); };
  check("/", u / v, quotient);
  check("where", hg::where(v != T(0), u / v, T(0)), quotient);
  check("fmod", hg::fmod(u, v), [](Wide x, Wide y) { return y == 0 ? Wide(0) : x % y; });
  check("remainder", hg::remainder(u, v), rest);
  check("%", u % v, rest);
  check("floor_divide", hg::floor_divide(u, v), floored);
  check("+", u + v, [](Wide x, Wide y) { return x + y; });
  check("-", u - v, [](Wide x, Wide y) { return x - y; });
  check("*", u * v, [](Wide x, Wide y) { return x * y; });
  check("square", hg::square(u), [](Wide x, Wide) { return x * x; });
  check("negative", -u, [](Wide x, Wide) { return -x; });
  check("abs", hg::abs(u), [](Wide x, Wide) { return x < 0 ? -x : x; });
  check("floor, ceil, trunc, round", hg::floor(u) + hg::ceil(v) * T(0) + hg::trunc(v) * T(0) + hg::round(v) * T(0),
        [](Wide x, Wide) { return x; });
  check("prod", hg::prod(v) + u * T(0), [](Wide, Wide) { return Wide(0); });
  const auto total = hg::sum(hg::cast<std::int64_t>(u) * T(0) + std::numeric_limits<std::int64_t>::max()).item();
  CHECK(total == std::numeric_limits<std::int64_t>::max() - 8);  // 9 times, modulo 2^64
}

TEST_CASE("the larger and the smaller of a signed and an unsigned integer, and bounds of either sign") {
  const auto check = [](const std::string& name, const auto& expression, const auto& expected) {
    using R = typename std::decay_t<decltype(expression)>::value_type;
    static_assert(std::is_same_v<std::vector<R>, std::decay_t<decltype(expected)>>);
    CAPTURE(name);
    const Points<R> field = expression;
    CHECK(field.to_host() == expected);
  };
  const auto of = [&]<class U>(U most) {
    using Values = std::vector<U>;
    const auto u = points(Values{0, 3, most});
    const auto s = points(std::vector<int>{-7, 5, std::numeric_limits<int>::min()});
    check("clamp, below", hg::clamp(u, -1, 5), Values{0, 3, 5});
    check("clamp, both below", hg::clamp(u, -3, -1), Values{0, 0, 0});
    check("clamp by fields", hg::clamp(u, s, 4), Values{0, 4, 4});
    check("clamp a signed one", hg::clamp(s, U(0), U(2)), Values{0, 2, 0});
    check("clamp between both", hg::clamp(s, -8, U(2)), Values{0, 2, 0});
    check("maximum", hg::maximum(u, s), Values{0, 5, most});
    check("maximum, signed first", hg::maximum(s, u), Values{0, 5, most});
    check("minimum", hg::minimum(u, s), Values{0, 3, 0});
    check("minimum, signed first", hg::minimum(s, u), Values{0, 3, 0});
    check("of their own", hg::maximum(u, U(4)), Values{4, 4, most});
  };
  of(4000000000u);
  of(~std::uint64_t{0});
  const auto bytes = points(std::vector<std::uint8_t>{0, 3, 255});
  check("clamp bytes", hg::clamp(bytes, -1, 5), std::vector<int>{0, 3, 5});
  check("clamp wide integers", hg::clamp(points(std::vector<std::int64_t>{-9, 5, 1}), 0u, 4u),
        std::vector<std::int64_t>{0, 4, 1});
}

TEST_CASE_TEMPLATE("reals that are cast to integers stay in range", T, std::int8_t, std::uint8_t, int, unsigned,
                   std::int64_t, std::uint64_t) {
  using Limits = std::numeric_limits<T>;
  const auto check = [](const auto& x) {
    const auto field = points(x);
    const Points<T> cast = hg::cast<T>(field);
    const auto found = cast.to_host();
    const T one = 1;
    const T expected[] = {0,
                          Limits::max(),
                          Limits::min(),
                          Limits::max(),
                          Limits::min(),
                          one,
                          std::is_signed_v<T> ? static_cast<T>(-1) : T(0),
                          100};
    for (std::size_t i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(found[i] == expected[i]);
    }
  };
  check(std::vector<double>{nan, infinity, -infinity, 1e300, -1e300, 1.9, -1.9, 100.5});
  const auto f = std::numeric_limits<float>::infinity();
  check(std::vector<float>{std::numeric_limits<float>::quiet_NaN(), f, -f, 1e30f, -1e30f, 1.9f, -1.9f, 100.5f});
  Points<T> whole = points(std::vector<T>{1, 2});
  hg::assign(whole, 1e300 * whole);  // a number is no field: no cast is asked for
  CHECK(whole.to_host() == std::vector<T>{Limits::max(), Limits::max()});
}

TEST_CASE("floor_divide, lerp, logaddexp, softplus, logit at their ends") {
  const auto real = [](const std::string& name, const auto& expression, const std::vector<double>& expected) {
    const Points<double> field = expression;
    compare(name, field.to_host(), expected, {}, true);
  };
  const auto of = [](std::vector<double> values) { return points(values); };
  real("floor_divide",
       hg::floor_divide(of({-7, 7, -7, 1, -1, 0, infinity, -3, 3, 5}),
                        of({2, -2, -2, 0, 0, 0, 2, infinity, infinity, nan})),
       {-4, -4, 3, infinity, -infinity, nan, nan, -1, 0, nan});
  real("lerp", hg::lerp(of({1e16, 1e16, 1, 1}), of({1, 1, 3, infinity}), of({1, 0, 0.5, 0.25})),
       {1, 1e16, 2, infinity});
  real("lerp of unsigned integers",
       hg::lerp(points(std::vector<unsigned>{5, 0}), points(std::vector<unsigned>{3, 4}), 0.5), {4, 2});
  real("logaddexp",
       hg::logaddexp(of({infinity, -infinity, infinity, -infinity, 1000, nan, 2}),
                     of({infinity, -infinity, -infinity, 3, 1000, 1, nan})),
       {infinity, -infinity, infinity, 3, 1000 + std::log(2.0), nan, nan});
  real("softplus", hg::softplus(of({infinity, -infinity, 0, 800, -800, -30, nan})),
       {infinity, 0, std::log(2.0), 800, 0, std::log1p(std::exp(-30.0)), nan});
  real("softplus of unsigned integers", hg::softplus(points(std::vector<unsigned>{0, 4000000000u})),
       {std::log(2.0f), 4e9f});
  real("logit", hg::logit(of({0, 1, 0.25, -1, 2, infinity, nan})),
       {-infinity, infinity, -std::log(3.0), nan, nan, nan, nan});
  real("logit of integers", hg::logit(points(std::vector<int>{0, 1, 2})), {-infinity, infinity, nan});
  const auto slopes = [&](const std::string& name, auto f, const std::vector<double>& x, const std::vector<double>& y,
                          const std::vector<double>& by_x, const std::vector<double>& by_y) {
    const auto [value, dx, dy] = derived(f, points(x), points(y));
    compare(name, dx.to_host(), by_x, {x, y}, false);
    compare(name, dy.to_host(), by_y, {x, y}, false);
  };
  slopes("lerp'", [](auto u, auto v) { return hg::lerp(u, v, 0.25); }, {1, infinity}, {3, 2}, {0.75, 0.75},
         {0.25, 0.25});
  slopes("logaddexp'", [](auto u, auto v) { return hg::logaddexp(u, v); }, {infinity, -infinity, 2, 1000, 3},
         {infinity, -infinity, 2, -1000, infinity}, {0.5, 0.5, 0.5, 1, 0}, {0.5, 0.5, 0.5, 0, 1});
  check_slope("lerp' by the weight", {0, 1, 2}, {2, 2, 2},
              [](auto w) { return hg::lerp(hg::full_like(w, 3), 5.0, w); });
  check_slope("softplus'", {infinity, -infinity, 0, nan}, {1, 0, 0.5, nan}, [](auto u) { return hg::softplus(u); });
  check_slope("logit'", {0, 1, 0.5, -1, 2}, {infinity, infinity, 4, nan, nan}, [](auto u) { return hg::logit(u); });
  check_slope("floor_divide'", {-7, 3}, {0, 0}, [](auto u) { return hg::floor_divide(u, 2.0) + hg::zeros_like(u); });
}

TEST_CASE("nan_to_num, isclose, full_like of infinities, NaN and integers") {
  const auto x = points(std::vector<double>{nan, infinity, -infinity, 2});
  const auto host = [](const auto& expression) {
    const Points<typename std::decay_t<decltype(expression)>::value_type> field = expression;
    return field.to_host();
  };
  const double largest = std::numeric_limits<double>::max();
  CHECK(host(hg::nan_to_num(x)) == std::vector<double>{0, largest, -largest, 2});
  CHECK(host(hg::nan_to_num(x, {.nan = 7, .posinf = 8, .neginf = 9})) == std::vector<double>{7, 8, 9, 2});
  const Points<hg::bfloat16> small = hg::cast<hg::bfloat16>(x);
  const Points<hg::bfloat16> finite = hg::nan_to_num(small);
  CHECK(static_cast<float>(finite.to_host()[1]) == 0x1.FEp127f);
  CHECK(host(hg::nan_to_num(points(std::vector<int>{-3, 4}))) == std::vector<int>{-3, 4});
  check_slope("nan_to_num'", {nan, infinity, -infinity, 2}, {0, 0, 0, 1}, [](auto u) { return hg::nan_to_num(u); });

  const auto y = points(std::vector<double>{nan, infinity, infinity, 2.00001});
  CHECK(host(hg::cast<int>(hg::isclose(x, y))) == std::vector<int>{0, 1, 0, 1});
  CHECK(host(hg::cast<int>(hg::isclose(x, y, 0, 0, true))) == std::vector<int>{1, 1, 0, 0});
  CHECK(host(hg::cast<int>(hg::isclose(points(std::vector<double>{1, infinity}),
                                       points(std::vector<double>{infinity, 1})))) == std::vector<int>{0, 0});
  CHECK(host(hg::cast<int>(hg::isclose(points(std::vector<double>{-8, -8}), points(std::vector<double>{-9, -10}), 0.125,
                                       0))) == std::vector<int>{1, 0});
  const std::int64_t big = std::int64_t{1} << 60;
  CHECK(host(hg::cast<int>(
            hg::isclose(points(std::vector<std::int64_t>{big + 1, std::numeric_limits<std::int64_t>::min()}),
                        points(std::vector<std::int64_t>{big, std::numeric_limits<std::int64_t>::max()}), 0, 0.5))) ==
        std::vector<int>{0, 0});
  CHECK(host(hg::cast<int>(hg::isclose(points(std::vector<unsigned>{2, 3}), points(std::vector<unsigned>{3, 2}), 0,
                                       1))) == std::vector<int>{1, 1});
  CHECK(hg::allclose(points(std::vector<double>{infinity, 1}), points(std::vector<double>{infinity, 1})).item());
  CHECK_FALSE(hg::allclose(x, x).item());
  CHECK(hg::allclose(x, x, 0, 0, true).item());

  CHECK(host(hg::full_like(x, 3)) == std::vector<double>{3, 3, 3, 3});
  CHECK(host(hg::zeros_like(x)) == std::vector<double>{0, 0, 0, 0});
  CHECK(host(hg::ones_like(points(std::vector<std::uint8_t>{4}))) == std::vector<std::uint8_t>{1});
}

TEST_CASE("argmin, prod, softmin, normalize, cosine_similarity, gradient at their ends") {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  CHECK(hg::argmin(points(std::vector<std::int64_t>{3, least, least + 1, least})).item() == 1);
  CHECK(hg::argmin(points(std::vector<unsigned>{4000000000u, 7, 0, 9})).item() == 2);
  CHECK(hg::argmin(points(std::vector<double>{1, -infinity, nan, -infinity, nan})).item() == 2);
  CHECK(hg::argmin(points(std::vector<std::uint8_t>{9, 3, 3})).item() == 1);
  CHECK(hg::prod(points(std::vector<double>{-2, 3, -0.5})).item() == 3);
  CHECK(std::isnan(hg::prod(points(std::vector<double>{0, infinity})).item()));
  CHECK(hg::prod(points(std::vector<int>{-2, 100000, 100000})).item() == -20000000000);
  const auto product = [](auto u) { return hg::prod(u) + hg::zeros_like(u); };  // of n points: n times its slope
  check_slope("prod'", {2, -3, 5}, {3 * -15, 3 * 10, 3 * -6}, product);
  check_slope("prod' with a 0", {2, 0, 5}, {0, 30, 0}, product);
  check_slope("prod' with two", {0, 0, 5}, {0, 0, 0}, product);

  static const auto mesh = hg::device_mesh<Line>(hg::Communicator(), {1});
  const auto plane = [&](index_t rows, index_t columns, const std::vector<double>& values) {
    Plane field(mesh, {rows, columns});
    field.copy_from_host(values);
    return field;
  };
  const auto u = plane(3, 2, {0, 0, 3, -4, 3e200, 4e200});
  const Plane unit = hg::normalize<1>(u);
  compare("normalize", unit.to_host(), {0, 0, 0.6, -0.8, 0, 0}, {}, false);  // its norm is infinite
  const Plane slope = hg::grad([](auto x) { return hg::sum(hg::normalize<1>(x)); })(plane(2, 2, {0, 0, 3, 4}));
  compare("normalize'", slope.to_host(), {1e12, 1e12, 0.2 - 7 * 3 / 125.0, 0.2 - 7 * 4 / 125.0}, {}, false);
  CHECK(hg::cosine_similarity(plane(1, 2, {0, 0}), plane(1, 2, {1, 2})).item() == 0);
  CHECK(hg::cosine_similarity(plane(1, 2, {3, 4}), plane(1, 2, {-3, -4})).item() == doctest::Approx(-1));
  const Plane low = hg::softmin<1>(plane(1, 2, {infinity, 0}));
  compare("softmin", low.to_host(), {0, 1}, {}, false);
  hg::Sharded<hg::Tensor<unsigned, hg::dyn, hg::dyn>, Line, hg::Shard<0>> counts(mesh, {1, 2});
  counts.copy_from_host(std::vector<unsigned>{0, 1000});
  const Plane of_unsigned = hg::softmin<1>(counts);
  compare("softmin of unsigned integers", of_unsigned.to_host(), {1, 0}, {}, false);

  const Points<double> central = hg::gradient<0>(points(std::vector<double>{1, 4, 9, 16}), 0.5);
  compare("gradient", central.to_host(), {6, 8, 12, 14}, {}, false);
  const Points<double> whole = hg::gradient<0>(points(std::vector<unsigned>{9, 4, 1}));
  compare("gradient of unsigned integers", whole.to_host(), {-5, -4, -3}, {}, false);
  check_slope("gradient'", {1, 4, 9, 16}, {-1.5, 0.5, -0.5, 1.5}, [](auto x) { return hg::gradient<0>(x); });
  CHECK_THROWS_WITH_AS(hg::gradient<0>(points(std::vector<double>{1})),
                       "gradient: dimension 0 has less than the 2 points that a difference takes", hg::CollectiveError);
}

template <class T>
using PlaneOf = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
template <class T>
PlaneOf<T> plane(index_t rows, const std::vector<T>& values) {
  PlaneOf<T> field(line(), {rows, static_cast<index_t>(values.size()) / rows});
  field.copy_from_host(values);
  return field;
}

/// A number made of x, and its gradient.
template <class F>
void check_number(const std::string& name, const std::vector<double>& x, double value,
                  const std::vector<double>& slopes, F f) {
  CAPTURE(name);
  const auto [found, slope] = hg::value_and_grad_of(f, points(x));
  compare(name, {found}, {value}, {}, false);
  compare(name + "'", slope.to_host(), slopes, {x}, false);
}
/// A row made of one row of x, and the gradient of its sum, each point with a weight: 1, 2, ...
template <class F>
void check_row(const std::string& name, const std::vector<double>& x, const std::vector<double>& values,
               const std::vector<double>& slopes, F f) {
  const auto [value, pull] = hg::vjp(f, plane(1, x));
  compare(name, value.to_host(), values, {}, false);
  std::vector<double> weights(values.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i + 1);
  const Plane slope = std::get<0>(pull(plane(1, weights)));
  compare(name + "'", slope.to_host(), slopes, {x}, false);
}

TEST_CASE("sums, negatives, comparisons and truths of every pair of ends") {
  const Table table;
  const auto x = table.stored.values("firsts"), y = table.stored.values("seconds");
  const auto u = points(x), v = points(y);
  const auto check = [&](const std::string& name, const auto& expression, auto expected) {
    const Points<double> field = hg::cast<double>(expression);
    std::vector<double> right(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) right[i] = static_cast<double>(expected(x[i], y[i]));
    compare(name, field.to_host(), right, {x, y}, true);
  };
  check("add", u + v, [](double a, double b) { return a + b; });
  check("sub", u - v, [](double a, double b) { return a - b; });
  check("neg", -u, [](double a, double) { return -a; });
  check("eq", u == v, [](double a, double b) { return a == b; });
  check("ne", u != v, [](double a, double b) { return a != b; });
  check("lt", u < v, [](double a, double b) { return a < b; });
  check("le", u <= v, [](double a, double b) { return a <= b; });
  check("gt", u > v, [](double a, double b) { return a > b; });
  check("ge", u >= v, [](double a, double b) { return a >= b; });
  check("logical_and", u != 0.0 && v != 0.0, [](double a, double b) { return a != 0 && b != 0; });
  check("logical_or, logical_not", !(u > 0.0) || v > 0.0, [](double a, double b) { return !(a > 0) || b > 0; });
  check("logical_xor", hg::logical_xor(u > 0.0, v > 0.0), [](double a, double b) { return (a > 0) != (b > 0); });
  check("isnan, isinf, isfinite", hg::cast<int>(hg::isnan(u)) + 2 * hg::cast<int>(hg::isinf(v)) + 4 * hg::isfinite(u),
        [](double a, double b) { return std::isnan(a) + 2 * std::isinf(b) + 4 * std::isfinite(a); });
  check("addcmul", u + 0.5 * v * u, [](double a, double b) { return a + 0.5 * b * a; });
  check("addcdiv", u + 0.5 * u / v, [](double a, double b) { return a + 0.5 * a / b; });
  check("masked_fill", hg::where(u > v, 7.0, u), [](double a, double b) { return a > b ? 7 : a; });
  check("frac", u - hg::trunc(u), [](double a, double) { return a - std::trunc(a); });
  check("detach", hg::detach(u), [](double a, double) { return a; });
  check("cast to float and back", hg::cast<double>(hg::cast<float>(u)), [](double a, double) { return a; });
  check("a functor", hg::apply(Product{}, u, v), [](double a, double b) { return a * b; });
  check("squared error", hg::square(u - v), [](double a, double b) { return (a - b) * (a - b); });
  check("absolute error", hg::abs(u - v), [](double a, double b) { return std::abs(a - b); });
  const auto random = hg::Generator{3};
  const Points<double> zeros = hg::zeros_like(u), uniform = zeros + hg::rand_like(u, random),
                       normal = zeros + hg::randn_like(u, random);
  check("rand_like", uniform - hg::rand_like(zeros, random), [](double, double) { return 0; });
  check("randn_like", normal - hg::randn_like(zeros, random), [](double, double) { return 0; });
  const std::vector<double> ones(x.size(), 1), minus(x.size(), -1);
  const auto [sum, by_x, by_y] = derived([](auto a, auto b) { return a - b; }, u, v);
  compare("sub'", by_x.to_host(), ones, {x, y}, false);
  compare("sub'", by_y.to_host(), minus, {x, y}, false);
  check_slope("frac'", {0, -1.5, infinity, nan}, {1, 1, 1, 1}, [](auto w) { return w - hg::trunc(w); });
  check_slope("l1'", {0, -2, infinity, 5}, {0, -1, 1, 0}, [](auto w) {
    return hg::abs(w - points(std::vector<double>{0, 1, 1, 5}));
  });
}

TEST_CASE_TEMPLATE("functions of reals of extreme and unsigned integers are those of their values", T, std::uint8_t,
                   unsigned, std::int64_t) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> x{Limits::min(), static_cast<T>(-1), 0, 1, 2, Limits::max()};
  const auto u = points(x);
  const auto check = [&](const std::string& name, const auto& expression, auto expected) {
    using R = typename std::decay_t<decltype(expression)>::value_type;
    const double tolerance = std::is_same_v<R, float> ? 2e-7 : 4e-15;
    const Points<double> field = hg::cast<double>(expression);
    const auto found = field.to_host();
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(name);
      CAPTURE(static_cast<double>(x[i]));
      CAPTURE(found[i]);
      const double right = expected(static_cast<double>(x[i]));
      CAPTURE(right);
      CHECK((std::isnan(right) ? std::isnan(found[i])
                               : found[i] == right || std::abs(found[i] - right) <= tolerance * std::abs(right)));
    }
  };
#define HALOGEN_TEST_OF_INTEGERS(function) check(#function, hg::function(u), [](double a) { return std::function(a); });
  HALOGEN_TEST_OF_INTEGERS(sin)
  HALOGEN_TEST_OF_INTEGERS(cos)
  HALOGEN_TEST_OF_INTEGERS(tan)
  HALOGEN_TEST_OF_INTEGERS(asin)
  HALOGEN_TEST_OF_INTEGERS(acos)
  HALOGEN_TEST_OF_INTEGERS(atan)
  HALOGEN_TEST_OF_INTEGERS(sinh)
  HALOGEN_TEST_OF_INTEGERS(cosh)
  HALOGEN_TEST_OF_INTEGERS(tanh)
  HALOGEN_TEST_OF_INTEGERS(asinh)
  HALOGEN_TEST_OF_INTEGERS(acosh)
  HALOGEN_TEST_OF_INTEGERS(atanh)
  HALOGEN_TEST_OF_INTEGERS(exp)
  HALOGEN_TEST_OF_INTEGERS(exp2)
  HALOGEN_TEST_OF_INTEGERS(expm1)
  HALOGEN_TEST_OF_INTEGERS(log)
  HALOGEN_TEST_OF_INTEGERS(log2)
  HALOGEN_TEST_OF_INTEGERS(log10)
  HALOGEN_TEST_OF_INTEGERS(log1p)
  HALOGEN_TEST_OF_INTEGERS(sqrt)
  HALOGEN_TEST_OF_INTEGERS(erf)
  HALOGEN_TEST_OF_INTEGERS(erfc)
  HALOGEN_TEST_OF_INTEGERS(isnan)
  HALOGEN_TEST_OF_INTEGERS(isinf)
  HALOGEN_TEST_OF_INTEGERS(isfinite)
#undef HALOGEN_TEST_OF_INTEGERS
  check("rsqrt", hg::rsqrt(u), [](double a) { return 1 / std::sqrt(a); });
  check("reciprocal", hg::reciprocal(u), [](double a) { return 1 / a; });
  check("sign", hg::sign(u), [](double a) { return (a > 0) - (a < 0); });
  check("relu", hg::relu(u), [](double a) { return std::max(a, 0.0); });
  check("nan_to_num", hg::nan_to_num(u), [](double a) { return a; });
  check("frac", u - hg::trunc(u), [](double) { return 0; });
  check("elu", hg::where(u > T(0), u, hg::expm1(u)), [](double a) { return a > 0 ? a : std::expm1(a); });
  check("silu", u * hg::sigmoid(u), [](double a) { return a / (1 + std::exp(-a)); });
  check("gelu", 0.5 * u * (1 + hg::erf(0.7071067811865476 * u)),
        [](double a) { return 0.5 * a * (1 + std::erf(0.7071067811865476 * a)); });
  check("masked_fill", hg::where(u == T(0), T(7), u), [](double a) { return a == 0 ? 7 : a; });
  check("logical_not", !(u != T(0)), [](double a) { return a == 0; });
  check("logaddexp", hg::logaddexp(u, u), [](double a) { return a + std::log(2.0); });
  check("pow", hg::pow(u, 2), [](double a) { return a * a; });
  check("pow of a negative exponent", hg::pow(u, T(-1)),
        [](double a) { return std::pow(a, static_cast<double>(T(-1))); });
  check("atan2", hg::atan2(u, T(1)), [](double a) { return std::atan2(a, 1.0); });
  check("hypot", hg::hypot(u, T(1)), [](double a) { return std::hypot(a, 1.0); });
  check("full_like", hg::full_like(u, 1e300), [](double) { return static_cast<double>(Limits::max()); });
  check("isclose", hg::isclose(u, u, 0, 0), [](double) { return 1; });
  CHECK(hg::max(u).item() == Limits::max());
  CHECK(hg::min(u).item() == Limits::min());
  CHECK(hg::argmax(u).item() == (std::is_signed_v<T> ? 5 : 1));
  CHECK(hg::argmin(u).item() == 0);
  CHECK(hg::min(hg::cast<int>(u == u)).item() == 1);
  CHECK(hg::sum(hg::cast<int>(u != T(0))).item() == (std::is_signed_v<T> ? 5 : 4));
  CHECK(hg::norm(points(std::vector<T>{Limits::max(), 0})).item() ==
        doctest::Approx(static_cast<double>(Limits::max())));
  CHECK(hg::var(points(std::vector<T>{Limits::max(), Limits::max()})).item() == 0);
  CHECK(hg::mean(points(std::vector<T>{Limits::max(), Limits::max()})).item() == static_cast<double>(Limits::max()));
  CHECK(hg::logsumexp(points(std::vector<T>{Limits::max(), 0})).item() ==
        doctest::Approx(static_cast<double>(Limits::max())));
  CHECK(hg::cosine_similarity(points(std::vector<T>{Limits::max(), 0}), points(std::vector<T>{1, 0})).item() ==
        doctest::Approx(1));
  const auto row = plane<T>(1, {Limits::min(), 0, Limits::max()});
  const Plane soft = hg::softmax<1>(row), logarithm = hg::log_softmax<1>(row), unit = hg::normalize<1>(row);
  CHECK(soft.to_host()[2] == doctest::Approx(1));
  CHECK(logarithm.to_host()[1] == doctest::Approx(-static_cast<double>(Limits::max())));
  CHECK(unit.to_host()[2] == doctest::Approx(std::is_signed_v<T> ? std::sqrt(0.5) : 1.0).epsilon(0.01));
  const Plane slope = hg::gradient<1>(row);
  CHECK(slope.to_host()[2] == static_cast<double>(Limits::max()));
}

TEST_CASE("reductions at zeros, equal values, infinities and NaN are PyTorch's, and their gradients") {
  const auto sum = [](auto u) { return hg::sum(u); };
  check_number("sum", {infinity, 1}, infinity, {1, 1}, sum);
  check_number("sum", {infinity, -infinity}, nan, {1, 1}, sum);
  check_number("mean", {nan, 1}, nan, {0.5, 0.5}, [](auto u) { return hg::mean(u); });
  const auto var = [](auto u) { return hg::var(u); };
  check_number("var", {2, 2, 2}, 0, {0, 0, 0}, var);
  check_number("var", {infinity, 1}, nan, {nan, -infinity}, var);
  check_number("var of one point", {3}, nan, {nan}, var);
  check_number("std", {2, 2, 2}, 0, {0, 0, 0}, [](auto u) { return hg::std(u); });
  const auto norm = [](auto u) { return hg::norm(u); };
  check_number("norm", {0, 0}, 0, {0, 0}, norm);
  check_number("norm", {3, -4}, 5, {0.6, -0.8}, norm);
  check_number("norm", {infinity, 1}, infinity, {0, 0}, norm);  // a gradient of 0 adds nothing, where PyTorch has NaN
  check_number("norm", {nan, 1}, nan, {nan, nan}, norm);
  check_number("dot", {infinity, 0}, nan, {0, infinity}, [](auto u) {
    return hg::dot(u, points(std::vector<double>{0, infinity}));
  });
  const auto logsumexp = [](auto u) { return hg::logsumexp(u); };
  check_number("logsumexp", {-3, -3}, -3 + std::log(2.0), {0.5, 0.5}, logsumexp);
  check_number("logsumexp", {infinity, 1}, infinity, {0, 0}, logsumexp);
  check_number("logsumexp", {-infinity, 1}, 1, {0, 1}, logsumexp);
  CHECK(hg::logsumexp(points(std::vector<double>{-infinity, -infinity})).item() == -infinity);
  check_number("max", {-infinity, -infinity}, -infinity, {0.5, 0.5}, [](auto u) { return hg::max(u); });
  check_number("min", {infinity, infinity}, infinity, {0.5, 0.5}, [](auto u) { return hg::min(u); });
  check_number("aminmax", {nan, 1, 2}, nan, {0, 0, 0}, [](auto u) { return hg::max(u) - hg::min(u); });
  check_number("prod", {-infinity, -2}, infinity, {nan, -infinity}, [](auto u) { return hg::prod(u); });
  check_number("norm of order 1", {0, -2, infinity}, infinity, {0, -1, 1}, [](auto u) { return hg::sum(hg::abs(u)); });
  check_number("norm of order infinity", {-3, 3, 0}, 3, {-0.5, 0.5, 0}, [](auto u) { return hg::max(hg::abs(u)); });
  check_number("mse", {infinity, 1}, nan, {nan, 0}, [](auto u) {
    return hg::mean(hg::square(u - points(std::vector<double>{infinity, 1})));
  });
  check_number("nansum", {nan, nan}, 0, {0, 0}, [](auto u) { return hg::sum(hg::where(hg::isnan(u), 0.0, u)); });
  const auto none = points(std::vector<double>{nan, nan});
  CHECK(std::isnan((hg::sum(hg::where(hg::isnan(none), 0.0, none)) / hg::sum(hg::cast<int>(!hg::isnan(none)))).item()));
  check_number("var_mean", {2, 2}, 2, {0.5, 0.5}, [](auto u) { return hg::var(u) + hg::mean(u); });
  CHECK(hg::argmax(points(std::vector<double>{-infinity, -infinity})).item() == 0);
  CHECK(hg::argmax(points(std::vector<double>{1, infinity, nan, infinity})).item() == 2);
  const auto holes = points(std::vector<double>{-0.0, nan, -infinity, 0});
  CHECK(hg::sum(hg::cast<int>(holes != 0.0)).item() == 2);
  CHECK_FALSE((hg::min(hg::cast<int>(holes <= 0.0)) == 1).item());
  CHECK_FALSE((hg::max(hg::cast<int>(holes > 0.0)) == 1).item());

  const auto other = [](auto u) { return hg::cosine_similarity(u, points(std::vector<double>{3, -4})); };
  check_number("cosine_similarity", {0, 0}, 0, {0.6e8, -0.8e8}, other);
  check_number("cosine_similarity", {infinity, 1}, nan, {0, 0}, other);
  check_number("cosine_similarity", {4, 3}, 0, {0.12, -0.16}, other);
  const auto small = points(std::vector<double>{3e-6, -4e-6});  // its norm is above eps, though its square is not
  CHECK(hg::cosine_similarity(small, small).item() == doctest::Approx(1));
}

TEST_CASE("rows of a field at zeros, equal values, infinities and NaN are PyTorch's, and their gradients") {
  const auto scan = [](auto u) { return hg::cumulative_sum<1>(u); };
  check_row("cumsum", {1, infinity, 2}, {1, infinity, infinity}, {6, 5, 3}, scan);
  check_row("cumsum", {infinity, -infinity, nan}, {infinity, nan, nan}, {6, 5, 3}, scan);
  const auto softmax = [](auto u) { return hg::softmax<1>(u); };
  check_row("softmax", {-infinity, 0}, {0, 1}, {0, 0}, softmax);
  check_row("softmax", {5, 5}, {0.5, 0.5}, {-0.25, 0.25}, softmax);
  check_row("softmax", {infinity, 0}, {nan, nan}, {nan, nan}, softmax);
  check_row("softmax", {-infinity, -infinity}, {nan, nan}, {nan, nan}, softmax);
  check_row("softmin", {infinity, 0}, {0, 1}, {0, 0}, [](auto u) { return hg::softmin<1>(u); });
  const auto logarithms = [](auto u) { return hg::log_softmax<1>(u); };
  check_row("log_softmax", {-infinity, 0}, {-infinity, 0}, {1, -1}, logarithms);
  check_row("log_softmax", {5, 5}, {-std::log(2.0), -std::log(2.0)}, {-0.5, 0.5}, logarithms);
  const auto normalize = [](auto u) { return hg::normalize<1>(u); };
  check_row("normalize", {infinity, 1}, {nan, 0}, {0, 0}, normalize);
  check_row("normalize", {0, 0}, {0, 0}, {1e12, 2e12}, normalize);
  const auto layer_norm = [](auto u) {
    return (u - hg::mean<1>(u, hg::keep_dimensions)) * hg::rsqrt(hg::var<1>(u, hg::keep_dimensions, 0) + 0.25);
  };
  check_row("layer_norm", {7, 7, 7}, {0, 0, 0}, {-2, 0, 2}, layer_norm);
  check_row("layer_norm", {infinity, 1, 1}, {nan, nan, nan}, {nan, nan, nan}, layer_norm);
  const auto diff = [](auto u) { return hg::slice<1>(hg::shift<1, 1>(u) - u, 0, 2); };
  check_row("diff", {-1, infinity, infinity}, {infinity, nan}, {-1, -1, 2}, diff);
  check_row("gradient", {1, infinity, 2}, {infinity, 0.5, -infinity}, {-2, -2, 4},
            [](auto u) { return hg::gradient<1>(u); });
  check_row("trapezoid", {1, nan, -3}, {nan, nan}, {0.5, 1.5, 1},
            [](auto u) { return hg::slice<1>(0.5 * (u + hg::shift<1, 1>(u)), 0, 2); });
  const auto triangle = [](auto u) { return hg::where(hg::global_index<1>(u) <= hg::global_index<0>(u), u, 0.0); };
  check_row("tril", {-2, nan, infinity}, {-2, 0, 0}, {1, 0, 0}, triangle);
  const auto trace = [](auto u) {
    return hg::sum(hg::where(hg::global_index<0>(u) == hg::global_index<1>(u), u, 0.0));
  };
  const auto square = plane<double>(2, {1, nan, infinity, -4});
  CHECK(trace(square).item() == -3);
  const Plane traced = hg::grad([&](auto u) { return trace(u); })(square);
  CHECK(traced.to_host() == std::vector<double>{1, 0, 0, 1});

  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const PlaneOf<std::int64_t> wrapped = hg::cumulative_sum<1>(plane<std::int64_t>(1, {most, 1, -3}));
  CHECK(wrapped.to_host() == std::vector<std::int64_t>{most, std::numeric_limits<std::int64_t>::min(), most - 2});
  const PlaneOf<std::int64_t> widened = hg::cumulative_sum<1>(plane<unsigned>(1, {4000000000u, 4000000000u}));
  CHECK(widened.to_host() == std::vector<std::int64_t>{4000000000, 8000000000});
  const Points<std::uint64_t> own = hg::cumulative_sum<0>(points(std::vector<std::uint64_t>{~std::uint64_t{0}, 2}));
  CHECK(own.to_host() == std::vector<std::uint64_t>{~std::uint64_t{0}, 1});
  using Whole = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Line, hg::Replicate>;
  const auto whole = [](const std::vector<double>& x) { return hg::redistribute<Whole>(plane(2, x)); };
  const Whole product = hg::matmul(whole({0, 1, infinity, 2}), whole({infinity, 1, -1, 0}));
  compare("matmul", product.to_host(), {nan, 0, infinity, infinity}, {}, false);
}

TEST_CASE("isclose and allclose of integers of either sign compare their values") {
  const auto s = points(std::vector<int>{-1, 5, 7});
  const auto u = points(std::vector<unsigned>{4294967295u, 5, 6});
  const Points<int> close = hg::cast<int>(hg::isclose(s, u, 0, 0)), back = hg::cast<int>(hg::isclose(u, s, 0, 0));
  CHECK(close.to_host() == std::vector<int>{0, 1, 0});
  CHECK(back.to_host() == std::vector<int>{0, 1, 0});
  const auto long_s = points(std::vector<std::int64_t>{-1, std::numeric_limits<std::int64_t>::max()});
  const auto long_u = points(std::vector<std::uint64_t>{~std::uint64_t{0}, std::uint64_t{1} << 63});
  const Points<int> wide = hg::cast<int>(hg::isclose(long_s, long_u, 0, 0.5));
  CHECK(wide.to_host() == std::vector<int>{0, 0});
  CHECK_FALSE(hg::allclose(s, u).item());
}

TEST_CASE("products of infinities, NaN and zeros are those of plain loops") {
  using Whole = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Line, hg::Replicate>;
  using Vector = hg::Sharded<hg::Tensor<double, hg::dyn>, Line, hg::Replicate>;
  const std::vector<double> x{0, -0.0, 2, -3, infinity, -infinity, nan, 1e200}, y{1, 2, -1, 0, 3, 1, 2, 1};
  const Vector v = hg::redistribute<Vector>(points(x));
  const Whole a = hg::redistribute<Whole>(plane(2, x)), b = hg::redistribute<Whole>(plane(2, y));
  std::vector<double> outer, product, kron, cross, covariance;
  for (const double first : x)
    for (const double second : x) outer.push_back(first * second);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 4; ++k) sum += x[4 * i + k] * y[4 * j + k];
      product.push_back(sum);
    }
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t j = 0; j < 4; ++j)
        for (std::size_t l = 0; l < 4; ++l) kron.push_back(x[4 * i + j] * y[4 * k + l]);
  for (std::size_t i = 0; i < 8; ++i) cross.push_back(x[i] * y[7 - i] - y[i] * x[7 - i]);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) {  // the second row has no finite mean
      double sum = 0;
      for (std::size_t k = 0; k < 4; ++k)
        sum += (x[4 * i + k] - (i == 0 ? -0.25 : nan)) * (x[4 * j + k] - (j == 0 ? -0.25 : nan));
      covariance.push_back(sum / 3);
    }
  const auto of = [](const std::string& name, const auto& field, const std::vector<double>& expected) {
    compare(name, field.to_host(), expected, {}, false);
  };
  of("outer", Whole(hg::einsum<"i,j->ij">(v, v)), outer);
  of("linear", Whole(hg::matmul(a, hg::transpose<0, 1>(b))), product);
  of("tensordot, einsum of two operands", Whole(hg::einsum<"ik,jk->ij">(a, b)), product);
  of("kron", Whole(hg::flatten<0, 1>(hg::flatten<2, 3>(hg::einsum<"ij,kl->ikjl">(a, b)))), kron);
  const Points<double> p = points(x), q = points(y), turned_p = points(std::vector<double>(x.rbegin(), x.rend())),
                       turned_q = points(std::vector<double>(y.rbegin(), y.rend()));
  of("cross", Points<double>(p * turned_q - q * turned_p), cross);
  const auto deviation = a - hg::mean<1>(a, hg::keep_dimensions);
  of("cov", Whole(hg::einsum<"in,jn->ij">(deviation, deviation) / 3.0), covariance);
}

}  // namespace test_array_functions_ends
