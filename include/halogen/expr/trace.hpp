// From a model's type to its graph and plans, once per type and number of input channels.
#pragma once

#include "halogen/core/type_of.hpp"
#include "halogen/expr/planner.hpp"

namespace halogen {

template <class ModelType>
constexpr Graph trace(int input_channels, std::vector<std::string>* names = nullptr) {
  Graph graph(input_channels);
  graph.names = names;
  graph.path.back().written = detail::address_of_type<ModelType>;
  const Traced output = ModelType{}.forward(Traced{&graph, 0});
  graph.output = output.node;
  graph.names = nullptr;
  return graph;
}

/// The graph of a model applied to a field of InputChannels channels.
template <class ModelType, int InputChannels>
inline constexpr Graph graph_of = trace<ModelType>(InputChannels);

/// The channels that a model takes: those that its first layer with weights asks for, less where what comes before it
/// makes more of them; 1 for a model that takes any number.
template <class ModelType>
inline constexpr int input_channels = [] {
  constexpr int asked = [] {
    const Graph graph = trace<ModelType>(0);
    return graph.misfit.kind == Misfit::Kind::channels_differ ? graph.misfit.first : 1;
  }();
  if constexpr (graph_of<ModelType, asked>.misfit.kind != Misfit::Kind::none)
    for (int channels = 1; channels < asked; ++channels)
      if (trace<ModelType>(channels).misfit.kind == Misfit::Kind::none) return channels;
  return asked;
}();

/// The channels of its output.
template <class ModelType, int InputChannels>
inline constexpr int output_channels =
    graph_of<ModelType, InputChannels>.nodes[graph_of<ModelType, InputChannels>.output].channels;

/// The plan that training or inference runs, and that explain() prints.
template <class ModelType, int InputChannels, PlanKind Kind>
inline constexpr Plan plan_of = make_plan(graph_of<ModelType, InputChannels>, Kind);

/// The same, as a type.
template <class ModelType, int InputChannels, PlanKind Kind>
struct PlanOf {
  static constexpr const Plan& plan() { return plan_of<ModelType, InputChannels, Kind>; }
};

/// Names of a model's parameters in the order of their offsets, as PyTorch's state_dict.
template <class ModelType>
std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  trace<ModelType>(input_channels<ModelType>, &names);
  return names;
}

}  // namespace halogen
