// The rest of torch.nn's activations, under its names: maps of each point (layers/functions/map.hpp). Parameters of a
// formula are std::ratio.
//
//   Shapes, placements, cost and vjp: Map<F>. Where a formula has a kink, the derivative there is PyTorch's.
//
// Functions that readers compute in vectors, such as ReLU, GELU and SiLU, have their own files.
#pragma once

#include <ratio>

#include "halogen/layers/functions/map.hpp"

namespace halogen {
namespace detail {

template <class T, class Ratio>
KOKKOS_FUNCTION T ratio_as() {
  return T(static_cast<double>(Ratio::num) / Ratio::den);
}

/// log(1 + e^x), which neither overflows nor loses small values.
template <class T>
KOKKOS_FUNCTION T log_one_plus_exp(T x) {
  using Kokkos::exp;
  using Kokkos::log1p;
  return x > T(0) ? x + log1p(exp(-x)) : log1p(exp(x));
}

template <class Beta, class Threshold>
struct SoftplusOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    const T beta = ratio_as<T, Beta>();
    return beta * x > ratio_as<T, Threshold>() ? x : log_one_plus_exp(beta * x) / beta;
  }
};

struct LogSigmoidOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    return -log_one_plus_exp(-x);
  }
};

struct SoftsignOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    return x > T(0) ? x / (T(1) + x) : x / (T(1) - x);
  }
};

struct MishOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::tanh;
    return x * tanh(log_one_plus_exp(x));
  }
};

template <class Low, class High>
struct HardtanhOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    const T low = ratio_as<T, Low>(), high = ratio_as<T, High>();
    return x <= low ? low : x >= high ? high : x;
  }
};

struct HardsigmoidOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? T(1) : x / T(6) + T(0.5);
  }
};

struct HardswishOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? x : x * (x + T(3)) / T(6);
  }
};

template <class Alpha>
struct CELUOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::expm1;
    const T alpha = ratio_as<T, Alpha>();
    return x > T(0) ? x : alpha * expm1(x / alpha);
  }
};

struct SELUOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::expm1;
    const T scale(1.0507009873554804934193349852946), alpha(1.6732632423543772848170429916717);
    return x > T(0) ? scale * x : scale * (alpha * expm1(x));
  }
};

struct GELUTanhOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::tanh;
    const T root(0.79788456080286535587989211986876);  // sqrt(2 / pi)
    return T(0.5) * x * (T(1) + tanh(root * (x + T(0.044715) * x * x * x)));
  }
};

template <class Lambda>
struct HardshrinkOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    const T lambda = ratio_as<T, Lambda>();
    return x > lambda || x < -lambda ? x : T(0);
  }
};

template <class Lambda>
struct SoftshrinkOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    const T lambda = ratio_as<T, Lambda>();
    return x > lambda ? x - lambda : x < -lambda ? x + lambda : T(0);
  }
};

struct TanhshrinkOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    using Kokkos::tanh;
    return x - tanh(x);
  }
};

template <class Limit, class Otherwise>
struct ThresholdOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x) const {
    return x > ratio_as<T, Limit>() ? x : ratio_as<T, Otherwise>();
  }
};

template <bool Shared>
struct PReLUOf {
  static constexpr ChannelParameter parameters[] = {
      {.name = "weight", .start = ParameterShape::Start::constant, .value = 0.25, .shared = Shared}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T weight) const {
    return x > T(0) ? x : weight * x;
  }
};

}  // namespace detail

/// log(1 + e^(Beta x)) / Beta; x where Beta x > Threshold.
template <class Beta = std::ratio<1>, class Threshold = std::ratio<20>>
struct Softplus : Map<detail::SoftplusOf<Beta, Threshold>> {};
/// log(1 / (1 + e^-x))
struct LogSigmoid : Map<detail::LogSigmoidOf> {};
/// x / (1 + |x|)
struct Softsign : Map<detail::SoftsignOf> {};
/// x tanh(log(1 + e^x))
struct Mish : Map<detail::MishOf> {};
/// x, at least Low and at most High.
template <class Low = std::ratio<-1>, class High = std::ratio<1>>
struct Hardtanh : Map<detail::HardtanhOf<Low, High>> {};
struct ReLU6 : Map<detail::HardtanhOf<std::ratio<0>, std::ratio<6>>> {};
/// x / 6 + 1 / 2, at least 0 and at most 1.
struct Hardsigmoid : Map<detail::HardsigmoidOf> {};
/// x hardsigmoid(x)
struct Hardswish : Map<detail::HardswishOf> {};
/// x where it is positive, else Alpha (e^(x / Alpha) - 1).
template <class Alpha = std::ratio<1>>
struct CELU : Map<detail::CELUOf<Alpha>> {};
struct SELU : Map<detail::SELUOf> {};
/// torch.nn.GELU(approximate='tanh').
struct GELUTanh : Map<detail::GELUTanhOf> {};
/// x where |x| > Lambda, else 0.
template <class Lambda = std::ratio<1, 2>>
struct Hardshrink : Map<detail::HardshrinkOf<Lambda>> {};
/// x less Lambda towards 0.
template <class Lambda = std::ratio<1, 2>>
struct Softshrink : Map<detail::SoftshrinkOf<Lambda>> {};
/// x - tanh(x)
struct Tanhshrink : Map<detail::TanhshrinkOf> {};
/// x where x > Limit, else Otherwise.
template <class Limit, class Otherwise>
struct Threshold : Map<detail::ThresholdOf<Limit, Otherwise>> {};
/// x where it is positive, else weight[c] x: torch.nn.PReLU(C). weight: (C), at first 1/4. PReLU<> has one weight, (1),
/// for all channels, however many there are: torch.nn.PReLU().
template <int C = 1>
struct PReLU : Map<detail::PReLUOf<false>, Channels<C>> {};
template <>
struct PReLU<1> : Map<detail::PReLUOf<true>> {};

}  // namespace halogen
