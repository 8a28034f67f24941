// LpPool2d<P, Size>, LpPool3d: y[n, c, o] = (sum over the window of x^P)^(1 / P), as torch.nn.LpPool2d: a map, an
// average pool, and a map, whose contracts hold. A window whose sum is 0 has no gradient there, nor has PyTorch's: it
// is NaN.
#pragma once

#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/map.hpp"

namespace halogen {
namespace detail {

template <int P>
struct PowerOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    T power = x;
    for (int i = 1; i < P; ++i) power = power * x;
    return power;
  }
};
/// The P-th root of `Points` times x, 0 where that is negative.
template <int P, int Points>
struct RootOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::pow;
    using Kokkos::sqrt;
    const T sum = (x > 0 ? x : x * 0) * double{Points};
    if constexpr (P == 1)
      return sum;
    else if constexpr (P == 2)
      return sqrt(sum);
    else
      return pow(sum, 1.0 / P);
  }
};

template <int P, class Pool>
constexpr int lp_points =
    Pool::options.window[0].kernel * Pool::options.window[1].kernel * Pool::options.window[2].kernel;

template <int P, class Pool>
using LpPool = Sequential<Map<PowerOf<P>>, Pool, Map<RootOf<P, lp_points<P, Pool>>>>;

}  // namespace detail

template <int P, int Size, class... Options>
struct LpPool2d : detail::LpPool<P, AvgPool2d<Size, Options...>> {
  static_assert(P > 0, "a norm of a whole power");
};
template <int P, int Size, class... Options>
struct LpPool3d : detail::LpPool<P, AvgPool3d<Size, Options...>> {
  static_assert(P > 0, "a norm of a whole power");
};

}  // namespace halogen
