// What PositionEmbedding and LayerNormOver share: a learned number for each point of the whole field and each channel.
//
// Each rank holds the whole tables, as for any parameter, unless parameters are sharded (shard_parameters<...>): then
// it keeps its share of each table and, while it computes, the numbers of its own points. No rank ever has the whole
// table. For the gradients a rank sums over its samples, in double, at its own points. Its entries for other points are
// 0. So a cut of the field changes no bit of the gradients.
#pragma once

#include <string>

#include "halogen/kernels/pointwise/point_parameters.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct PointConstants : Constants {
  const char* layer;
  index_t extent[spatial_dimensions] = {1, 1, 1};
  int before = 0;  ///< rows of the table for tokens, before the rows of the points
};

/// With Scales y = w x + b, weight and bias (C, D, H, W); else y = x + b, b (1, before + D H W, C).
template <bool Scales>
struct PointParametersOf {
  template <class S>
  static kernels::PointTable<Scales> table(const LaunchAt<S>& at, int use) {
    const auto box = at.points_of_parameter(use).side;
    const kernels::WholeField field = at.whole_field();
    kernels::PointTable<Scales> table{at.node().channels, {}, {}, field.first_plane, field.planes};
    for (std::size_t d = 0; d < spatial_dimensions; ++d) table.first[d] = box[d].begin, table.extent[d] = box[d].size();
    return table;
  }
  /// How many values of a table come before those of the points.
  static index_t before(const Node& node) { return index_t{node.as<PointConstants>().before} * node.channels; }

  struct Forward {
    static constexpr const char* label = "halogen::point_parameters";
    static void check(const Node& node, int d, index_t input, index_t) {
      const auto& of = node.as<PointConstants>();
      if (input != of.extent[d])
        throw CollectiveError(std::string(of.layer) + " has numbers for " + std::to_string(of.extent[d]) +
                              " points in " + spatial_names[d] + ", but the field has " + std::to_string(input) +
                              ": give a field of its extents, or a layer of the field's");
    }
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return kernels::PointParameterRows<S, Scales, kernels::ValueReader<S>>{
          at.value(0),
          0,
          Scales ? at.parameter(0) : nullptr,
          at.parameter(Scales ? 1 : 0) + before(at.node()),
          table(at, 0),
          table(at, Scales ? 1 : 0)};
    }
  };
  struct Sums {
    static constexpr const char *label = "halogen::point_parameter_gradients", *suffix = " weight gradient";
    template <class S, Form>
    static void run(const LaunchAt<S>& at) {
      const index_t others = before(at.node());
      launch_range(at.space(), label, others, kernels::SetZero<compute_type<S>>{at.parameter_gradient(Scales ? 1 : 0)});
      at.wait_for_halos();
      if constexpr (Scales) sum<true>(at, 0, at.value(1), at.parameter_gradient(0));
      sum<false>(at, Scales ? 1 : 0, {}, at.parameter_gradient(Scales ? 1 : 0) + others);
    }
    template <bool OfWeights, class S>
    static void sum(const LaunchAt<S>& at, int use, const kernels::ValueReader<S>& input, compute_type<S>* sums) {
      const LaunchPlace place = at.place();
      const kernels::PointParameterSums<S, Scales, OfWeights> kernel{
          at.gradient(0), input, table(at, use), place.samples, place.rows, place.columns, sums};
      launch_range(at.space(), label, kernel.table.values(), kernel);
    }
  };
  struct Backward {
    static constexpr const char *label = "halogen::point_parameters_backward", *suffix = " backward";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return kernels::PointParameterRows<S, Scales, kernels::GradientReader<S>>{
          at.gradient(0), at.first_channel(), Scales ? at.parameter(0) : nullptr, nullptr, table(at, 0)};
    }
  };

  static constexpr void forward(Planner& planner, const Node& node) {
    Launch launch = planner.launch<Forward>(node);
    launch.read(planner.read(node, Pattern::point())).use(node.parameter);
    if (Scales) launch.use(node.parameter + 1);
    planner.emit_forward(node, launch);
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    Launch sums = planner.launch<Sums>(node);
    sums.level = node.level;
    sums.read(planner.gradient(reads, Pattern::point())).sum_gradient_of(node.parameter);
    if (Scales) sums.read(planner.read_again(node, Pattern::point())).sum_gradient_of(node.parameter + 1);
    planner.emit(sums);
    Launch launch = planner.launch<Backward>(node);
    launch.read(planner.gradient(reads, Pattern::point()));
    if (Scales) launch.use(node.parameter);
    planner.emit_input_gradients(launch);
  }
  static constexpr Operation operation{Scales ? "point_scales" : "position_embedding", forward, vjp};
};

/// The constants of a layer for a field of Extents points.
template <int... Extents>
constexpr PointConstants points_of(const char* layer, int before = 0) {
  static_assert(((Extents > 0) && ...), "numbers for each point: each dimension has points");
  PointConstants of{{}, layer};
  of.before = before;
  int d = spatial_dimensions - static_cast<int>(sizeof...(Extents));
  ((of.extent[d++] = Extents), ...);
  return of;
}

/// pos_embed for this number of points, with rows for tokens before them.
template <int Channels, int... Extents>
constexpr ParameterShape point_table(int before) {
  return {.shape = {1, before + (Extents * ...), Channels},
          .rank = 3,
          .start = ParameterShape::Start::normal,
          .deviation = 0.02};
}

/// Says that a table lies on a level.
constexpr ParameterShape lies_on(int level, const PointConstants& of, int channels, bool channels_first,
                                 ParameterShape shape) {
  PointNumbers& points = shape.points;
  points.level = level, points.channels = channels, points.channels_first = channels_first;
  points.before = index_t{of.before} * channels;
  std::ranges::copy(of.extent, points.extent);
  return shape;
}

/// Scales as in PointParametersOf. Extents: of the field's dimensions.
template <bool Scales, int Channels, int... Extents>
constexpr Traced add_point_parameters(Traced x, const PointConstants& constants) {
  const Traced y = add_layer(x, PointParametersOf<Scales>::operation, &constants);
  GraphDraft& graph = *x.graph;
  Node& node = graph.nodes[y.node];
  graph.slide(sizeof...(Extents), node.layer);
  if (node.channels != Channels) graph.refuse<why::channels_differ>(node.layer, Channels, node.channels);
  using Start = ParameterShape::Start;
  if (Scales) {
    ParameterShape shape =
        lies_on(node.level, constants, Channels, true,
                {.shape = {Channels, Extents...}, .rank = 1 + sizeof...(Extents), .start = Start::ones});
    node.parameter = graph.add_parameter("weight", shape);
    shape.start = Start::zeros;
    graph.add_parameter("bias", shape);
  } else {
    node.parameter = graph.add_parameter("pos_embed", lies_on(node.level, constants, Channels, false,
                                                              point_table<Channels, Extents...>(constants.before)));
  }
  return y;
}

}  // namespace detail
}  // namespace halogen
