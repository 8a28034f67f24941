// The host's vector exponential: its error in units of the last place, its ends, NaN, and that a vector's lanes and a
// single value have the same bits.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "halogen/core/philox.hpp"
#include "halogen/kernels/vector/exponential.hpp"

namespace {

using halogen::index_t;
using halogen::kernels::exponential;
using halogen::kernels::exponential_of;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

/// The largest error over `count` numbers of [low, high), in units of the last place of the true value.
template <class T>
double worst_error(T low, T high, index_t count) {
  std::vector<T> x;
  for (index_t i = 0; i < count; ++i)
    x.push_back(low + (high - low) * static_cast<T>(halogen::uniform_at(3, 1, static_cast<std::uint64_t>(i))));
  std::vector<T> y = x;
  exponential_of<T>(y.data(), count);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = std::exp(static_cast<long double>(x[i]));
    const T rounded = static_cast<T>(expected);
    const long double unit = std::nextafter(rounded, infinity<T>) - rounded;
    const double error = static_cast<double>(std::abs((static_cast<long double>(y[i]) - expected) / unit));
    worst = std::max(worst, error <= 1e300 ? error : 1e300);
  }
  return worst;
}

}  // namespace

TEST_CASE("within 1.5 units in the last place") {
  CHECK(worst_error<float>(-87.3f, 88.0f, 300001) < 1.5);
  CHECK(worst_error<float>(-1, 0, 100003) < 1.5);
  CHECK(worst_error<float>(-1e-6f, 1e-6f, 10003) < 1.5);
  CHECK(worst_error<double>(-708, 709, 300001) < 1.5);
  CHECK(worst_error<double>(-1, 0, 100003) < 1.5);
}

TEST_CASE_TEMPLATE("ends, NaN, and lanes like single values", T, float, double) {
  const T below = sizeof(T) == 4 ? T(-87.5) : T(-708.5), above = sizeof(T) == 4 ? T(88.5) : T(709.5);
  std::vector<T> x{0, 1, -infinity<T>, infinity<T>, below, above, std::numeric_limits<T>::quiet_NaN(), T(-0.0)};
  for (int i = 0; i < 29; ++i) x.push_back(T(i) / 3 - 5);
  std::vector<T> y = x;
  exponential_of<T>(y.data(), static_cast<index_t>(y.size()));
  CHECK(y[0] == 1);
  CHECK(y[7] == 1);
  CHECK(y[2] == 0);
  CHECK(y[3] == infinity<T>);
  CHECK(y[4] == 0);
  CHECK(y[5] == infinity<T>);
  CHECK(y[6] != y[6]);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i != 6) CHECK(exponential<T>(x[i]) == y[i]);
}
