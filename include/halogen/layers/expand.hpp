// expand(v, x): y[n, c, p] = v[n, c], the vector of a sample at every point of x, as torch's v[..., None, None].expand.
//
//   v: (N, C); x: (N, any, H, W) or (N, any, D, H, W) -> y: (N, C, H, W) or (N, C, D, H, W)
//
//   placements of v and x                    placements of y   forward   backward
//   Replicate and Shard<2> or beyond         as x              nothing   all_reduce of N C doubles
//   Shard<0>, Replicate                      the same          nothing   nothing
//
// Nothing is stored: a layer that reads y reads v. To scale a map by a vector: Map<Product>{}(x, expand(v, x)). To give
// a convolution a vector as additional channels: concat(x, expand(v, x)).
// Accumulation of v's gradient: in double, over rows in their order, then over ranks.
#pragma once

#include "halogen/layers/upsample.hpp"

namespace halogen {
namespace detail {
inline constexpr Operation expand_operation{"expand", upsample_forward<false>, no_vjp};
}

constexpr Traced expand(Traced vector, Traced like) {
  GraphDraft& graph = *vector.graph;
  Node node;
  node.operation = &detail::expand_operation;
  node.inputs[0] = vector.node;
  node.channels = (*vector).channels;
  node.level = (*like).level;
  node.layer = graph.layers - 1;
  if (!graph.levels[(*vector).level].whole)
    graph.refuse<why::levels_differ>(node.layer, (*vector).level, (*like).level);
  return {&graph, graph.add(node)};
}

}  // namespace halogen
