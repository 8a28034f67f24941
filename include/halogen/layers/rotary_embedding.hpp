// RotaryEmbedding1d, 2d, 3d<Heads>: turns pairs of a head's channels by angles that grow along the field, so that the
// product of a query and a key depends on how far apart they are (Su et al. 2021).
//
//   a head has E = C / Heads channels, and each dimension d turns E / D of them; pair k of these, at index p_d:
//   (a, b) -> (a cos t - b sin t, b cos t + a sin t),  t = p_d Base^(-2 k D / E)
//
//   x: (N, C, W), (N, C, H, W) or (N, C, D, H, W) -> y: the same; p_d: the index in the whole field, starting at 0
//
//   placements of x                          placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond, Replicate the same          nothing   nothing
//   Shard<1>, Partial                        does not compile: why::channels_are_cut, why::input_is_partial
//
// Pairs are neighbours (2 k, 2 k + 1), as in torchtune's RotaryPositionalEmbeddings and timm's RotaryEmbeddingCat (with
// in_pixels=False and grid indices); the first part belongs to depth or rows, the last to columns. Halo: none. y is
// stored. vjp: y's gradient turned back. Angles are double; bits do not depend on the mesh. Errors:
// why::groups_do_not_divide if 2 D Heads does not divide the channels, why::rank_differs if the field has another
// number of dimensions.
#pragma once

#include "halogen/kernels/pointwise/rotary_embedding.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct RotaryConstants : Constants {
  int heads = 1, turned = 1;  ///< heads of all channels, and how many of them turn
  int dimensions = 1;
  double base = 10000;
};

struct RotaryOf {
  template <class S, class Reader>
  static kernels::RotaryRows<S, Reader> rows_of(const LaunchAt<S>& at, const Reader& reader, double sign, int first) {
    const auto& of = at.node().template as<RotaryConstants>();
    const int head = at.node().channels / of.heads;
    return {reader, {at.whole_field(), of.turned * head, head, of.dimensions, of.base, sign}, first};
  }

  struct Forward {
    static constexpr const char* label = "halogen::rotary_embedding";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return rows_of(at, at.value(0), 1, 0);
    }
  };
  struct Backward {
    static constexpr const char *label = "halogen::rotary_embedding_backward", *suffix = " backward";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return rows_of(at, at.gradient(0), -1, at.first_channel());
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
  static constexpr Operation operation{"rotary_embedding", forward, vjp};
};

constexpr Traced add_rotary(Traced x, const RotaryConstants& of) {
  const Traced y = add_layer(x, RotaryOf::operation, &of);
  GraphDraft& graph = *x.graph;
  const Node& node = graph.nodes[y.node];
  graph.need_points(x, node.layer);
  graph.slide(of.dimensions, node.layer);
  const int pairs = 2 * of.dimensions * of.heads;
  if (node.channels % pairs != 0) graph.refuse<why::groups_do_not_divide>(node.layer, pairs, node.channels);
  return y;
}

namespace types {
template <class Self, int Dimensions, int Heads, int Base>
struct RotaryLayer : Module<Self> {
  static_assert(Heads > 0 && Base > 1, "a rotary embedding has heads, and a base above 1");
  static constexpr RotaryConstants constants{{}, Heads, Heads, Dimensions, Base};

  constexpr Traced forward(Traced x) const { return add_rotary(x, constants); }
};
}  // namespace types

}  // namespace detail

template <int Heads, int Base = 10000>
struct RotaryEmbedding1d : detail::types::RotaryLayer<RotaryEmbedding1d<Heads, Base>, 1, Heads, Base> {};
template <int Heads, int Base = 10000>
struct RotaryEmbedding2d : detail::types::RotaryLayer<RotaryEmbedding2d<Heads, Base>, 2, Heads, Base> {};
template <int Heads, int Base = 10000>
struct RotaryEmbedding3d : detail::types::RotaryLayer<RotaryEmbedding3d<Heads, Base>, 3, Heads, Base> {};

}  // namespace halogen
