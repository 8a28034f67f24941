// Activation functions on the host: against their definitions in long double, in units of the last place, derivatives
// too; ends and NaN as PyTorch has them; a row's last points have the bits of those in full vectors.
#include "halogen/kernels/rows/nonlinearity.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "halogen/core/philox.hpp"

namespace {

using halogen::index_t;
using halogen::Nonlinearity;
using Kind = Nonlinearity::Kind;
using Long = long double;

constexpr Nonlinearity functions[] = {{Kind::none},     {Kind::relu},   {Kind::leaky_relu, 0.2},
                                      {Kind::elu, 0.5}, {Kind::silu},   {Kind::gelu},
                                      {Kind::tanh},     {Kind::sigmoid}};

Long defined(const Nonlinearity& f, Long x) {
  const Long p = f.parameter;
  switch (f.kind) {
    case Kind::relu:
      return x > 0 ? x : 0;
    case Kind::leaky_relu:
      return x > 0 ? x : p * x;
    case Kind::elu:
      return x > 0 ? x : p * std::expm1(x);
    case Kind::silu:
      return x / (1 + std::exp(-x));
    case Kind::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(Long(2)));
    case Kind::tanh:
      return std::tanh(x);
    case Kind::sigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x;
  }
}
/// By differences of the definition: exact to 1e-13.
Long slope(const Nonlinearity& f, Long x) {
  const Long h = 1e-4L;
  const auto over = [&](Long step) { return (defined(f, x + step) - defined(f, x - step)) / (2 * step); };
  return (4 * over(h) - over(2 * h)) / 3;
}

template <class T>
std::vector<T> numbers(T low, T high, index_t count) {
  std::vector<T> x;
  for (index_t i = 0; i < count; ++i)
    x.push_back(low + (high - low) * static_cast<T>(halogen::uniform_at(5, 1, static_cast<std::uint64_t>(i))));
  return x;
}

template <class T>
std::vector<T> activated(const Nonlinearity& f, std::vector<T> x) {
  halogen::kernels::activate_row<T>(f, static_cast<index_t>(x.size()), x.data());
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("as they are defined", T, float, double) {
  const T unit = std::numeric_limits<T>::epsilon();
  for (const Nonlinearity& f : functions) {
    CAPTURE(halogen::name_of(f.kind));
    for (const T reach : {T(1e-3), T(1), T(12)}) {
      const std::vector<T> x = numbers<T>(-reach, reach, 20011), y = activated(f, x);
      Long worst = 0, worst_small = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Long error = std::abs(static_cast<Long>(y[i]) - defined(f, x[i]));
        worst = std::max(worst, error / (unit * (std::abs(defined(f, x[i])) + std::abs(Long(x[i])))));
        if (f.kind == Kind::tanh || f.kind == Kind::elu || f.kind == Kind::sigmoid)  // exact in relation to y too
          worst_small = std::max(worst_small, error / (unit * std::abs(defined(f, x[i]))));
      }
      CHECK(worst < 4);
      CHECK(worst_small < 4);
    }
  }
}

TEST_CASE_TEMPLATE("derivatives", T, float, double) {
  const Long exact = sizeof(T) == 4 ? 1e-6L : 2e-12L;
  for (const Nonlinearity& f : functions) {
    CAPTURE(halogen::name_of(f.kind));
    const std::vector<T> x = numbers<T>(-9, 9, 4001), g = numbers<T>(-2, 2, 4001);
    std::vector<T> to(x.size());
    halogen::kernels::pass_back_row<T>(f, g.data(), x.data(), {T(0.5), T(0.25), T(-0.5)}, 4001, to.data());
    Long worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Long at = (static_cast<Long>(x[i]) + 0.5L) * 0.5L + 0.25L;
      if (std::abs(at) < 1e-3L) continue;  // corners
      worst = std::max(worst, std::abs(static_cast<Long>(to[i]) - slope(f, at) * g[i]));
    }
    CHECK(worst < exact);
    // a point without a gradient does not count, whatever it is
    std::vector<T> none(3, T(0)),
        odd{std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(), T(-1e30)};
    halogen::kernels::pass_back_row<T>(f, none.data(), odd.data(), {}, 3, none.data());
    CHECK(none == std::vector<T>(3, T(0)));
    // at 0 they have the slope of negative numbers, as in PyTorch
    if (f.kind == Kind::relu || f.kind == Kind::leaky_relu) {
      std::vector<T> one{T(1)};
      const T zero = 0;
      halogen::kernels::pass_back_row<T>(f, one.data(), &zero, {}, 1, one.data());
      CHECK(one[0] == (f.kind == Kind::relu ? T(0) : static_cast<T>(f.parameter)));
    }
  }
}

TEST_CASE_TEMPLATE("ends, NaN, and the same bits in a row's last points", T, float, double) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const Nonlinearity& f : functions) {
    CAPTURE(halogen::name_of(f.kind));
    const std::vector<T> ends = activated<T>(f, {infinity, T(0), nan, T(200), T(-200), -infinity});
    const bool bounded = f.kind == Kind::tanh || f.kind == Kind::sigmoid;
    CHECK(ends[0] == (bounded ? T(1) : infinity));
    CHECK(ends[1] == (f.kind == Kind::sigmoid ? T(0.5) : T(0)));
    CHECK(!std::signbit(ends[1]));
    CHECK(ends[2] != ends[2]);
    CHECK(ends[3] == (bounded ? T(1) : T(200)));
    const T far = static_cast<T>(defined(f, -200));
    CHECK(std::abs(ends[4] - far) <= std::abs(far) * std::numeric_limits<T>::epsilon() + T(1e-30));
    if (f.kind != Kind::silu && f.kind != Kind::gelu)  // -inf * 0 there, as in PyTorch
      CHECK(ends[5] == static_cast<T>(defined(f, -std::numeric_limits<Long>::infinity())));

    const std::vector<T> x = numbers<T>(-5, 5, 64), g = numbers<T>(-1, 1, 64), whole = activated(f, x);
    std::vector<T> passed(64);
    halogen::kernels::pass_back_row<T>(f, g.data(), x.data(), {T(1.5), T(-0.1)}, 64, passed.data());
    for (index_t count = 1; count < 20; ++count) {
      std::vector<T> some(x.begin() + 3, x.begin() + 3 + count), gradient(g.begin() + 3, g.begin() + 3 + count);
      halogen::kernels::pass_back_row<T>(f, gradient.data(), some.data(), {T(1.5), T(-0.1)}, count, gradient.data());
      some = activated(f, some);
      for (index_t i = 0; i < count; ++i) {
        CHECK(some[i] == whole[3 + i]);
        CHECK(gradient[i] == passed[3 + i]);
        CHECK(halogen::kernels::activated(x[3 + i], f) == whole[3 + i]);
      }
    }
  }
}
