// Chunk<I, N>: the I-th of N equal parts of the channels, as torch.chunk(x, N, dim=1)[I]; chunk<N>(x) is all of them.
// GLU: y = a * sigmoid(b) of the two halves a and b, as torch.nn.GLU(dim=1) (Dauphin et al. 2017).
//
//   x: (N, C, W), (N, C, H, W) or (N, C, D, H, W), or a vector (N, C) -> y: the same with C / N channels
//
//   placements of x                          placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond, Replicate the same          nothing   nothing
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. y is stored. The readers of a GLU compute its product (layers/functions/map.hpp). vjp: y's gradient, and
// 0 in the other parts. Nothing is added, so bits do not depend on the mesh. Errors: why::groups_do_not_divide if N
// does not divide the channels.
#pragma once

#include <array>

#include "halogen/kernels/pointwise/split_channels.hpp"
#include "halogen/layers/functions/map.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

/// Consecutive parts of N equal parts of the channels, starting at `Begin`.
template <int Begin, int Count, int N>
struct ChunkOf {
  template <class S>
  static int part(const LaunchAt<S>& at) {
    return at.node().channels / Count;
  }

  struct Forward {
    static constexpr const char* label = "halogen::chunk";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return kernels::ChunkRows<S, kernels::ValueReader<S>>{at.value(0), Begin * part(at), N * part(at)};
    }
  };
  struct Backward {
    static constexpr const char *label = "halogen::chunk_backward", *suffix = " backward";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return kernels::ChunkRows<S, kernels::GradientReader<S>>{at.gradient(0), at.first_channel() - Begin * part(at),
                                                               at.node().channels};
    }
  };
  static constexpr void forward(Planner& planner, const Node& node) {
    planner.emit_forward(node, planner.launch<Forward>(node).read(planner.read(node, Pattern::point())));
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    planner.emit_input_gradients(planner.launch<Backward>(node).read(planner.gradient(reads, Pattern::point())));
  }
  static constexpr Operation operation{"chunk", forward, vjp};
};

template <int Begin, int Count, int N>
constexpr Traced add_chunk(Traced x) {
  static_assert(Begin >= 0 && Count > 0 && Begin + Count <= N, "there are N chunks, from 0 on");
  const Traced y = add_layer(x, ChunkOf<Begin, Count, N>::operation);
  Node& node = x.graph->nodes[y.node];
  if (node.channels % N != 0) x.graph->refuse<why::groups_do_not_divide>(node.layer, N, node.channels);
  node.channels = node.channels / N * Count;
  return y;
}

struct GateOf {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    using Kokkos::exp;
    return a / (T(1) + exp(-b));
  }
};

}  // namespace detail

template <int I, int N>
struct Chunk : Module<Chunk<I, N>> {
  constexpr Traced forward(Traced x) const { return detail::add_chunk<I, 1, N>(x); }
};

/// All N parts in order.
template <int N>
constexpr std::array<Traced, N> chunk(Traced x) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return std::array<Traced, N>{Chunk<I, N>{}(x)...};
  }(std::make_integer_sequence<int, N>{});
}

struct GLU : Module<GLU> {
  constexpr Traced forward(Traced x) const {
    const std::array<Traced, 2> parts = chunk<2>(x);
    return Map<detail::GateOf>{}(parts[0], parts[1]);
  }
};

}  // namespace halogen
