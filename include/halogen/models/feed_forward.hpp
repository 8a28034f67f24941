// The part of a transformer's block that works at each point: MLP and SwiGLU. Nothing moves.
#pragma once

#include "halogen/layers/activations/gelu.hpp"
#include "halogen/layers/functions/map.hpp"
#include "halogen/layers/linear.hpp"

namespace halogen {
namespace detail {
/// a sigmoid(a) b.
struct SiluGateOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    using Kokkos::exp;
    return a / (T(1) + exp(-a)) * b;
  }
};
}  // namespace detail

/// Two Linear with a GELU between them, at each point. There are Hidden channels in the middle.
template <int Channels, int Hidden = 4 * Channels>
struct MLP : Sequential<Named<"fc1", Linear<Channels, Hidden>>, GELU, Named<"fc2", Linear<Hidden, Channels>>> {};

/// fc2(silu(fc1_g(x)) fc1_x(x)) at each point, as timm's SwiGLU (Shazeer 2020) with its names. There are Hidden
/// channels in the middle.
template <int Channels, int Hidden = 4 * Channels>
struct SwiGLU : Module<SwiGLU<Channels, Hidden>> {
  constexpr Traced forward(Traced x) const {
    constexpr Named<"fc1_g", Linear<Channels, Hidden>> gate;
    constexpr Named<"fc1_x", Linear<Channels, Hidden>> value;
    constexpr Named<"fc2", Linear<Hidden, Channels>> last;
    const Traced gates = gate(x);
    const Traced values = value(x);
    return last(Map<detail::SiluGateOf>{}(gates, values));
  }
};

}  // namespace halogen
