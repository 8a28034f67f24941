// ClassToken<C>: y[n, c] = cls_token[0, 0, c], a learned vector that is the same for each sample. In a vision
// transformer it attends together with the patches and is classified (Dosovitskiy et al. 2021). The parameter has
// timm's name.
//
//   x: any value; only its number of samples is used -> y: a vector (N, C); cls_token: (1, 1, C)
//
//   placements of x             placements of y    forward   backward
//   Shard<0>                    the same           nothing   cls_token's gradient in the bucket
//   Shard<2> and beyond, other  Replicate          nothing   the same; only one of the ranks that hold y counts
//
// Start: normal, of deviation 1e-6, as timm's. add_vector_row does the work, also for parameters of several rows.
#pragma once

#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

/// Which row of a parameter all samples get.
struct VectorRowConstants : Constants {
  int row = 0;
};

struct VectorRow {
  static index_t begin(const Node& node) { return index_t{node.as<VectorRowConstants>().row} * node.channels; }

  struct Forward {
    static constexpr const char* label = "halogen::vector_row";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return kernels::SameVectorRows<S>{at.parameter(0) + begin(at.node())};
    }
  };
  struct Sums {
    static constexpr const char *label = "halogen::vector_row_gradient", *suffix = " weight gradient";
    template <class S, Form>
    static void run(const LaunchAt<S>& at) {
      using T = compute_type<S>;
      const Node& node = at.node();
      T* const gradient = at.parameter_gradient(0);
      launch_range(at.space(), label, at.values_of_parameter(0), kernels::SetZero<T>{gradient});
      launch_range(at.space(), label, node.channels,
                   kernels::SumSamples<kernels::GradientReader<S>>{at.gradient(0), at.layout().samples(),
                                                                   gradient + begin(node)});
    }
  };

  static constexpr void forward(Planner& planner, const Node& node) {
    planner.emit_forward(node, planner.launch<Forward>(node).use(node.parameter));
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    Launch sums = planner.launch<Sums>(node);
    sums.level = node.level;
    planner.emit(sums.read(planner.gradient(reads, Pattern::point())).sum_gradient_of(node.parameter));
  }
  static constexpr Operation operation{"vector_row", forward, vjp};
};

/// A row of the calling layer's parameter `role`, whose last extent is its channels, as a vector of each of x's
/// samples. `constants` must outlive the graph.
constexpr Traced add_vector_row(Traced x, const char* role, const ParameterShape& shape,
                                const VectorRowConstants& constants) {
  GraphDraft& graph = *x.graph;
  Node node;
  node.operation = &VectorRow::operation;
  node.constants = &constants;
  node.layer = graph.next_layer();
  node.channels = shape.shape[shape.rank - 1];
  node.level = graph.vectors();
  node.parameter = graph.add_parameter(role, shape);
  return {&graph, graph.add(node)};
}

template <int Row>
inline constexpr VectorRowConstants vector_row{{}, Row};

}  // namespace detail

template <int C>
struct ClassToken : Module<ClassToken<C>> {
  static_assert(C > 0, "a token has channels");
  constexpr Traced forward(Traced x) const { return part(x); }

  /// The same as a part of the layer that calls it. The parameter cls_token belongs to that layer.
  static constexpr Traced part(Traced x) {
    const ParameterShape shape{
        .shape = {1, 1, C}, .rank = 3, .start = ParameterShape::Start::normal, .deviation = 1e-6};
    return detail::add_vector_row(x, "cls_token", shape, detail::vector_row<0>);
  }
};

}  // namespace halogen
