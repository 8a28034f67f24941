// LpPool2d<P, Size>, LpPool3d: y[n, c, o] = (sum over the window of x^P)^(1 / P), as torch.nn.LpPool2d: a map, an
// average pool and a map; their contracts hold. With P = 1 it is the sum, with its sign. As in PyTorch, the gradient is
// NaN if the sum is 0 and P is not 1, and the value is NaN if P > 1 is odd and the sum is negative.
#pragma once

#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/functions/map.hpp"

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
/// The P-th root of `Points` times x.
template <int P, int Points>
struct RootOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::pow;
    using Kokkos::sqrt;
    const T sum = x * double{Points};
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

constexpr int to_power(int base, int exponent) { return exponent == 0 ? 1 : base * to_power(base, exponent - 1); }
/// The edge of the field of powers that corresponds to an edge of x, and likewise the options.
template <int P, class Edge>
struct edge_of_powers {
  using type = Edge;
};
template <int P, int Numerator, int Denominator>
struct edge_of_powers<P, ConstantEdge<Numerator, Denominator>> {
  using type = ConstantEdge<to_power(Numerator, P), to_power(Denominator, P)>;
};
template <int P, class Option>
struct option_of_powers {
  using type = Option;
};
template <int P, class... Edges>
struct option_of_powers<P, Boundary<Edges...>> {
  using type = Boundary<typename edge_of_powers<P, Edges>::type...>;
};

}  // namespace detail

template <int P, int Size, class... Options>
struct LpPool2d : detail::LpPool<P, AvgPool2d<Size, typename detail::option_of_powers<P, Options>::type...>> {
  static_assert(P > 0, "a norm of a whole power");
};
template <int P, int Size, class... Options>
struct LpPool3d : detail::LpPool<P, AvgPool3d<Size, typename detail::option_of_powers<P, Options>::type...>> {
  static_assert(P > 0, "a norm of a whole power");
};

}  // namespace halogen
