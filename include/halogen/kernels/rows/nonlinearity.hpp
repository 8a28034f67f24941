// Activation functions and their adjoints: for a point on host or device, and for rows on the host, a vector at a time.
#pragma once

#include "halogen/core/nonlinearity.hpp"
#include "halogen/kernels/rows/affine.hpp"
#include "halogen/kernels/vector/exponential.hpp"

namespace halogen::kernels {
namespace detail {

template <class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V exponential_anywhere(V x) {
  KOKKOS_IF_ON_HOST((return exponential<T>(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::exp(x);))
}
template <class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V exponential_minus_one_anywhere(V x) {
  KOKKOS_IF_ON_HOST((return exponential_minus_one<T>(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::expm1(x);))
}

/// The normal distribution function Phi(x), and e^(-x^2 / 2) of its density. With z = |x|, Phi(-z) = e^(-z^2 / 2) R(z).
/// R is a polynomial of (z - 4) / (z + 4), lowest power first. It is the Chebyshev interpolant of erfc(z / sqrt(2))
/// e^(z^2 / 2) / 2. Phi is off by less than 4e-9 (float) and 4e-17 (double).
template <class T>
struct NormalOf;
template <>
struct NormalOf<float> {
  static constexpr int degree = 10;
  KOKKOS_FORCEINLINE_FUNCTION static float power(int k) {
    constexpr float powers[] = {0.0944106426f,    -0.170397689f,   0.124379160f,    -0.0717080596f,
                                0.0308659371f,    -0.00848834962f, 0.000502586537f, 0.000629872632f,
                                -0.000177111768f, -3.57766850e-5f, 1.87867177e-5f};
    return powers[k];
  }
};
template <>
struct NormalOf<double> {
  static constexpr int degree = 22;
  KOKKOS_FORCEINLINE_FUNCTION static double power(int k) {
    constexpr double powers[] = {
        0.094410641301968929647,    -0.17039772154845439364,     0.12437925533926537758,     -0.07170740733782752436,
        0.030864804106225148285,    -0.0084920954797582159091,   0.00050756207679998798414,  0.00063881382348542079249,
        -0.00018718428669896723996, -0.000045554706500327972707, 0.000028648442798579606927, 4.6307969177245657649e-6,
        -4.3039043464912183561e-6,  -8.2743022565203666588e-7,   6.6229710875344592953e-7,   2.0262365606909649002e-7,
        -9.534702277947433481e-8,   -4.9046782847242660783e-8,   1.047997890348480463e-8,    9.2598447471443118696e-9,
        -4.5839893569679710067e-10, -9.5435504309035015693e-10,  -4.7678512288096093092e-11};
    return powers[k];
  }
};

template <class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V normal_distribution(V x, V& density) {
  const V magnitude = x < T(0) ? -x : x;
  const V z = magnitude < T(40) ? magnitude : V{} + T(40);  // e^(-z^2 / 2) is 0 there
  const V t = (z - T(4)) / (z + T(4));
  V sum = V{} + NormalOf<T>::power(NormalOf<T>::degree);
  HALOGEN_UNROLL
  for (int k = NormalOf<T>::degree - 1; k >= 0; --k) sum = sum * t + NormalOf<T>::power(k);
  density = exponential_anywhere<T>(T(-0.5) * z * z);
  const V below = density * sum;
  return x > T(0) ? T(1) - below : below;
}

template <class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V logistic(V x) {
  return T(1) / (T(1) + exponential_anywhere<T>(-x));
}

/// Computed from e^(-2 |x|) - 1, which does not overflow and loses no digits.
template <class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V hyperbolic_tangent(V x) {
  const V t = exponential_minus_one_anywhere<T>(T(-2) * (x < T(0) ? -x : x));
  const V magnitude = (V{} - t) / (T(2) + t);  // a minus sign would turn 0 into -0
  return x < T(0) ? -magnitude : magnitude;
}

using NonlinearityKind = Nonlinearity::Kind;

/// f(x). V is T or a vector of T.
template <NonlinearityKind Kind, class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V value_of(V x, [[maybe_unused]] T parameter) {
  if constexpr (Kind == NonlinearityKind::relu)
    return x < T(0) ? V{} : x;  // a NaN stays a NaN
  else if constexpr (Kind == NonlinearityKind::leaky_relu)
    return x > T(0) ? x : parameter * x;
  else if constexpr (Kind == NonlinearityKind::elu)
    return x > T(0) ? x : parameter * exponential_minus_one_anywhere<T>(x);
  else if constexpr (Kind == NonlinearityKind::silu)
    return x * logistic<T>(x);
  else if constexpr (Kind == NonlinearityKind::gelu) {
    V density;
    return x * normal_distribution<T>(x, density);
  } else if constexpr (Kind == NonlinearityKind::tanh)
    return hyperbolic_tangent<T>(x);
  else if constexpr (Kind == NonlinearityKind::sigmoid)
    return logistic<T>(x);
  else
    return x;
}

/// f'(x) g for functions other than none and ReLU.
template <NonlinearityKind Kind, class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V slope_times(V g, V x, [[maybe_unused]] T parameter) {
  if constexpr (Kind == NonlinearityKind::leaky_relu) {
    return x > T(0) ? g : parameter * g;
  } else if constexpr (Kind == NonlinearityKind::elu) {
    return x > T(0) ? g : g * (parameter * exponential_anywhere<T>(x));
  } else if constexpr (Kind == NonlinearityKind::silu) {
    const V s = logistic<T>(x);
    return g * (s * (T(1) + x * (T(1) - s)));
  } else if constexpr (Kind == NonlinearityKind::gelu) {
    constexpr T one_over_root_of_two_pi = T(0.39894228040143267794);
    V density;
    const V below = normal_distribution<T>(x, density);
    return g * (below + x * (one_over_root_of_two_pi * density));
  } else if constexpr (Kind == NonlinearityKind::tanh) {
    const V y = hyperbolic_tangent<T>(x);
    return g * (T(1) - y * y);
  } else if constexpr (Kind == NonlinearityKind::sigmoid) {
    const V s = logistic<T>(x);
    return g * (s * (T(1) - s));
  }
}

/// f'(x) g. It is 0 where g is 0, even if x is infinite or NaN: such a point does not count.
template <NonlinearityKind Kind, class T, class V>
KOKKOS_FORCEINLINE_FUNCTION V adjoint_of(V g, V x, [[maybe_unused]] T parameter) {
  if constexpr (Kind == NonlinearityKind::none) {
    return g;
  } else if constexpr (Kind == NonlinearityKind::relu) {
    return x <= T(0) ? V{} : g;
  } else {
    const V result = slope_times<Kind, T>(g, x, parameter);
    return g == T(0) ? V{} : result;
  }
}

/// Calls f.template operator()<Kind>() for the kind, which is only known at run time.
template <class F>
KOKKOS_FORCEINLINE_FUNCTION auto with_kind(NonlinearityKind kind, F f) {
  using K = NonlinearityKind;
  switch (kind) {
    case K::relu:
      return f.template operator()<K::relu>();
    case K::leaky_relu:
      return f.template operator()<K::leaky_relu>();
    case K::elu:
      return f.template operator()<K::elu>();
    case K::silu:
      return f.template operator()<K::silu>();
    case K::gelu:
      return f.template operator()<K::gelu>();
    case K::tanh:
      return f.template operator()<K::tanh>();
    case K::sigmoid:
      return f.template operator()<K::sigmoid>();
    default:
      return f.template operator()<K::none>();
  }
}

// On the host every point is computed in a vector; the last points of a row are in a vector that is not full. So the
// bits are the same on any mesh. nvcc's front end cannot choose between vectors.
#if defined(__CUDACC__)
template <class T>
using Points = T;
#else
template <class T>
using Points = Vector<T, wide_lanes<T>>;
#endif
template <class T>
inline constexpr index_t points_at_once = sizeof(Points<T>) / sizeof(T);

/// The last points of a row, fewer than a vector has, followed by zeros.
template <class T, class From>
Points<T> load_last(const From* from, index_t count) {
  T points[points_at_once<T>] = {};
  for (index_t i = 0; i < count; ++i) points[i] = T(from[i]);
  return load<Points<T>>(points);
}

/// to = f of the points of the rows `from`, a vector of each at a time. `to` may be one of these rows.
template <class T, class To, class F, class... From>
void over_points(index_t count, To* to, F f, const From*... from) {
  using V = Points<T>;
  index_t i = 0;
  for (; i + points_at_once<T> <= count; i += points_at_once<T>) store<V>(to + i, f(load<V>(from + i)...));
  if (i == count) return;
  T points[points_at_once<T>];
  store<V>(points, f(load_last<T>(from + i, count - i)...));
  for (index_t k = 0; i + k < count; ++k) to[i + k] = static_cast<To>(points[k]);
}

}  // namespace detail

/// Whether a function is none or ReLU. Kernels apply these while they compute.
HALOGEN_FUNCTION constexpr bool only_clips(Nonlinearity function) { return function.kind <= Nonlinearity::Kind::relu; }

/// Replaces a row by f(x).
template <class T>
[[gnu::noinline]] void activate_row(const Nonlinearity& function, index_t count, T* row) {
  const T parameter = static_cast<T>(function.parameter);
  detail::with_kind(function.kind, [=]<Nonlinearity::Kind Kind>() {
    detail::over_points<T>(
        count, row, [=](auto x) { return detail::value_of<Kind, T>(x, parameter); }, static_cast<const T*>(row));
  });
}

/// to = f'(affine(value)) gradient for a row. `to` may be the row of the gradient.
template <class T, class From, class Value, class To>
[[gnu::noinline]] void pass_back_row(const Nonlinearity& function, const From* gradient, const Value* value,
                                     const ScaleAndShift<T>& affine, index_t count, To* to) {
  const T parameter = static_cast<T>(function.parameter);
  detail::with_kind(function.kind, [=]<Nonlinearity::Kind Kind>() {
    detail::over_points<T>(
        count, to, [=](auto g, auto v) { return detail::adjoint_of<Kind, T>(g, affine(v), parameter); }, gradient,
        value);
  });
}

namespace detail {

// For a point. Functions other than ReLU are a call that takes values, so that kernels keep their registers for what
// they compute and their own arguments where they are.
template <class T>
[[gnu::noinline]] HALOGEN_FUNCTION T activated_otherwise(T x, NonlinearityKind kind, T parameter) {
  KOKKOS_IF_ON_HOST((activate_row<T>({kind, static_cast<double>(parameter)}, 1, &x); return x;))
  KOKKOS_IF_ON_DEVICE(
      (return with_kind(kind, [=]<NonlinearityKind Kind>() { return value_of<Kind, T>(x, parameter); });))
}
template <class T>
[[gnu::noinline]] HALOGEN_FUNCTION T passed_back_otherwise(T g, T x, NonlinearityKind kind, T parameter) {
  KOKKOS_IF_ON_HOST((pass_back_row<T>({kind, static_cast<double>(parameter)}, &g, &x, {}, 1, &g); return g;))
  KOKKOS_IF_ON_DEVICE(
      (return with_kind(kind, [=]<NonlinearityKind Kind>() { return adjoint_of<Kind, T>(g, x, parameter); });))
}

}  // namespace detail

/// f(x) of one point.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T activated(T x, Nonlinearity function) {
  if (only_clips(function)) return function && x < T(0) ? T(0) : x;
  return detail::activated_otherwise(x, function.kind, static_cast<T>(function.parameter));
}

/// f'(x) g of one point.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T passed_back(T g, T x, Nonlinearity function) {
  if (only_clips(function)) return function && x <= T(0) ? T(0) : g;
  return detail::passed_back_otherwise(g, x, function.kind, static_cast<T>(function.parameter));
}

}  // namespace halogen::kernels
