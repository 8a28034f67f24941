// Embedding<Count, Channels>: y[n, :, p] = weight[i[n, p]], as torch.nn.Embedding: a row of a table for each index.
//
//   i: an input of Indices (graph/traced_inputs.hpp), (N, 1, H, W), (N, 1, D, H, W) or vectors (N, 1), each in [0,
//   Count)
//   -> y: the same with Channels; weight: (Count, Channels)
//
//   placements of i                          placements of y   forward   backward
//   Shard<0>, Shard<2> and beyond, Replicate the same          nothing   weight's gradient in the bucket
//
// Halo: none. An index outside [0, Count) gives NaN, and then the loss of that step is NaN too. Its gradient is not
// added to any row. Ranks that share a vector compute the same, and only one of them counts. Accumulation of the
// gradient: in double, over points in their order, then blocks of tiles, then ranks. Start: normal, of deviation 1.
#pragma once

#include "halogen/kernels/pointwise/embedding.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct EmbeddingConstants : Constants {
  int count = 0;
};

struct EmbeddingForward {
  static constexpr const char* label = "halogen::embedding";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::EmbeddingRows<S>{at.indices(0), at.parameter(0), at.node().template as<EmbeddingConstants>().count,
                                     at.node().channels};
  }
};

struct EmbeddingGradient {
  static constexpr const char *label = "halogen::embedding_gradient", *suffix = " weight gradient";
  static constexpr std::size_t most_bytes = std::size_t{32} << 20;  ///< limit of the blocks' tables; one may need more

  static kernels::Tiling tiling(const LaunchPlace& at) { return TileSizes::of_sums(at); }
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling) {
    const std::size_t table = sizeof(double) * static_cast<std::size_t>(entries(at.node()));
    const int blocks = std::clamp(static_cast<int>(most_bytes / table), 1, TileSizes::blocks(tiling));
    return {.partials = table * static_cast<std::size_t>(blocks), .blocks = blocks};
  }
  template <class S, Form>
  static void run(const LaunchAt<S>& at) {
    using Sums = kernels::EmbeddingSums<S, kernels::GradientReader<S>>;
    const Node& node = at.node();
    const Sums sums{at.indices(1), at.gradient(0), node.as<EmbeddingConstants>().count, node.channels, at.tiling(),
                    at.blocks(),   at.partials()};
    at.wait_for_halos();
    launch_range(at.space(), label, index_t{sums.blocks} * sums.channels, sums);
    at.add_blocks(at.partials(), entries(node), sums.blocks, entries(node), at.parameter_gradient(0));
  }

 private:
  static index_t entries(const Node& node) { return index_t{node.as<EmbeddingConstants>().count} * node.channels; }
};

constexpr void embedding_forward(Planner& planner, const Node& node) {
  Launch launch = planner.launch<EmbeddingForward>(node);
  planner.emit_forward(node, launch.read(planner.read(node, Pattern::point())).use(node.parameter));
}

constexpr void embedding_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<EmbeddingGradient>(node);
  launch.level = node.level;
  launch.read(planner.gradient(reads, Pattern::point())).read(planner.read_again(node, Pattern::point()));
  planner.emit(launch.sum_gradient_of(node.parameter));
}

inline constexpr Operation embedding_operation{"embedding", embedding_forward, embedding_vjp};

}  // namespace detail

template <int Count, int Channels>
struct Embedding : Module<Embedding<Count, Channels>> {
  static_assert(Count > 0 && Channels > 0, "an embedding has rows and channels");

  constexpr Traced forward(TracedIndices indices) const {
    GraphDraft& graph = *indices.graph;
    const Traced y = add_layer({&graph, indices.node}, detail::embedding_operation, &constants);
    Node& node = graph.nodes[y.node];
    node.channels = Channels;
    node.parameter =
        graph.add_parameter("weight", {.shape = {Count, Channels}, .rank = 2, .start = ParameterShape::Start::normal});
    return y;
  }

 private:
  static constexpr detail::EmbeddingConstants constants{{}, Count};
};

}  // namespace halogen
