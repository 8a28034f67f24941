// From a model's type to its graph and plans, once per type and number of input channels.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "halogen/core/type_of.hpp"
#include "halogen/graph/traced_inputs.hpp"
#include "halogen/plan/planner.hpp"

namespace halogen {

namespace detail {

/// Whether a model's forward takes such values. (nvcc refuses the same requirement where a lambda unfolds the values.)
template <class ModelType, class... Values>
inline constexpr bool forward_takes = requires(const ModelType& model, Values... values) { model.forward(values...); };

/// The model applied to its inputs: a Traced, or a tuple of them.
template <class ModelType>
constexpr auto traced(GraphDraft& graph) {
  using Inputs = typename inputs_of<ModelType>::type;
  constexpr std::size_t count = std::tuple_size_v<Inputs>;
  constexpr bool is_called = [] {
    if constexpr (count < 2)
      return forward_takes<ModelType, Traced>;
    else
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return forward_takes<ModelType, typename std::tuple_element_t<I, Inputs>::traced...>;
      }(std::make_index_sequence<count>{});
  }();
  static_assert(is_called,
                "forward_takes_other_values: a model has `constexpr ... forward(Traced x) const`, or takes as many "
                "values as its `inputs` name: using inputs = std::tuple<hg::FieldInput<3>, hg::VectorInput<1>>");
  if constexpr (!is_called) {
    return Traced{&graph, 0};
  } else if constexpr (count < 2) {
    return ModelType{}.forward(Traced{&graph, 0});
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const InputShape shapes[] = {std::tuple_element_t<I, Inputs>::shape...};
      for (std::size_t i = 1; i < count; ++i) graph.add_input(shapes[i]);
      return ModelType{}.forward(typename std::tuple_element_t<I, Inputs>::traced{&graph, static_cast<int>(I)}...);
    }(std::make_index_sequence<count>{});
  }
}

constexpr void take_outputs(GraphDraft& graph, Traced only) { graph.output[0] = only.node; }
/// `all`: a std::tuple, std::array or std::pair of Traced.
template <class Outputs>
constexpr void take_outputs(GraphDraft& graph, const Outputs& all) {
  if constexpr (requires { std::tuple_size<Outputs>::value; }) {
    constexpr std::size_t count = std::tuple_size_v<Outputs>;
    static_assert(count >= 1 && count <= most_outputs, "a model returns 1 to 4 values");
    graph.outputs = 0;
    std::apply([&](const auto&... one) { ((graph.output[graph.outputs++] = one.node), ...); }, all);
  } else {
    static_assert(sizeof(Outputs) == 0,
                  "forward_returns_no_value: a model's forward returns a Traced, or a std::tuple of several");
  }
}

}  // namespace detail

template <class ModelType>
constexpr GraphDraft trace(int input_channels, ParameterNames* names = nullptr) {
  GraphDraft graph(input_channels);
  graph.names = names;
  graph.path.back().written = detail::address_of_type<ModelType>;
  if constexpr (std::is_void_v<decltype(detail::traced<ModelType>(graph))>)
    static_assert(sizeof(ModelType) == 0, "forward_returns_no_value: a model's forward returns a Traced, or several");
  else
    detail::take_outputs(graph, detail::traced<ModelType>(graph));
  graph.place_buffers();
  graph.names = nullptr;
  return graph;
}

namespace detail {

/// The tables of graph_of with their exact sizes. A draft lives only while the compiler evaluates, so the model is
/// traced twice: for the sizes, then for the tables.
template <class ModelType, int InputChannels>
struct GraphTables {
  static constexpr auto sizes = [] {
    const GraphDraft draft = trace<ModelType>(InputChannels);
    return std::array{draft.nodes.size(), draft.levels.size(), draft.parameters.size()};
  }();

  std::array<Node, sizes[0]> nodes;
  std::array<Level, sizes[1]> levels;
  std::array<ParameterShape, sizes[2]> parameters;
  GraphNumbers numbers;

  constexpr explicit GraphTables(const GraphDraft& draft)
      : nodes(exact<sizes[0]>(draft.nodes)),
        levels(exact<sizes[1]>(draft.levels)),
        parameters(exact<sizes[2]>(draft.parameters)),
        numbers(draft) {}
};

template <class ModelType, int InputChannels>
inline constexpr GraphTables<ModelType, InputChannels> graph_tables(trace<ModelType>(InputChannels));

}  // namespace detail

/// The graph of a model applied to a field of InputChannels channels.
template <class ModelType, int InputChannels>
inline constexpr Graph graph_of = {
    detail::graph_tables<ModelType, InputChannels>.numbers, detail::graph_tables<ModelType, InputChannels>.nodes,
    detail::graph_tables<ModelType, InputChannels>.levels, detail::graph_tables<ModelType, InputChannels>.parameters};

/// The number of channels that a model takes. It is what the first layer with weights asks for, or fewer if what comes
/// before that layer makes more of them. It is 1 for a model that takes any number.
template <class ModelType>
inline constexpr int input_channels = [] {
  if constexpr (std::tuple_size_v<typename detail::inputs_of<ModelType>::type> > 0) {
    return std::tuple_element_t<0, typename detail::inputs_of<ModelType>::type>::shape.channels;
  } else {
    constexpr int asked = [] {
      const GraphDraft graph = trace<ModelType>(0);
      return graph.misfit.why == refusal<why::channels_differ>() ? graph.misfit.first : 1;
    }();
    if constexpr (graph_of<ModelType, asked>.misfit.why != nullptr)
      for (int channels = 1; channels < asked; ++channels)
        if (trace<ModelType>(channels).misfit.why == nullptr) return channels;
    return asked;
  }
}();

/// How many values a model returns.
template <class ModelType>
inline constexpr int outputs_of = graph_of<ModelType, input_channels<ModelType>>.outputs;

/// The number of channels of a model's output of this number.
template <class ModelType, int InputChannels, int Number = 0>
inline constexpr int output_channels =
    graph_of<ModelType, InputChannels>.nodes[graph_of<ModelType, InputChannels>.output[Number]].channels;

namespace detail {

/// The tables of plan_of, like GraphTables.
template <class ModelType, int InputChannels, PlanKind Kind>
struct PlanTables {
  static constexpr PlanDraft draft() { return make_plan(graph_of<ModelType, InputChannels>, Kind); }
  static constexpr auto sizes = [] {
    const PlanDraft plan = draft();
    return std::array{plan.tensors.size(), plan.affines.size(), plan.activations.size(),
                      plan.maps.size(),    plan.values.size(),  plan.launches.size()};
  }();

  std::array<StoredTensor, sizes[0]> tensors;
  std::array<AffineTable, sizes[1]> affines;
  std::array<Activation, sizes[2]> activations;
  std::array<PointMap, sizes[3]> maps;
  std::array<Value, sizes[4]> values;
  std::array<Launch, sizes[5]> launches;
  PlanNumbers numbers;

  constexpr explicit PlanTables(const PlanDraft& plan)
      : tensors(exact<sizes[0]>(plan.tensors)),
        affines(exact<sizes[1]>(plan.affines)),
        activations(exact<sizes[2]>(plan.activations)),
        maps(exact<sizes[3]>(plan.maps)),
        values(exact<sizes[4]>(plan.values)),
        launches(exact<sizes[5]>(plan.launches)),
        numbers(plan) {}
};

template <class ModelType, int InputChannels, PlanKind Kind, class Tables = PlanTables<ModelType, InputChannels, Kind>>
inline constexpr Tables plan_tables(Tables::draft());

}  // namespace detail

/// The plan that training or inference runs, and that explain() prints.
template <class ModelType, int InputChannels, PlanKind Kind>
inline constexpr Plan plan_of = {{detail::plan_tables<ModelType, InputChannels, Kind>.numbers,
                                  graph_of<ModelType, InputChannels>,
                                  detail::plan_tables<ModelType, InputChannels, Kind>.tensors,
                                  detail::plan_tables<ModelType, InputChannels, Kind>.affines,
                                  detail::plan_tables<ModelType, InputChannels, Kind>.activations,
                                  detail::plan_tables<ModelType, InputChannels, Kind>.maps,
                                  detail::plan_tables<ModelType, InputChannels, Kind>.values,
                                  detail::plan_tables<ModelType, InputChannels, Kind>.launches}};

/// The same plan as a type.
template <class ModelType, int InputChannels, PlanKind Kind>
struct PlanOf {
  static constexpr const Plan& plan() { return plan_of<ModelType, InputChannels, Kind>; }
};

namespace detail {

/// All names of parameters. They come from a trace when the program compiles, as the graph does: at run time a compiler
/// may make the two calls of `a(x) + b(x)` in another order.
template <class ModelType>
inline constexpr auto parameter_names_text = [] {
  constexpr std::size_t size = [] {
    ParameterNames names;
    trace<ModelType>(input_channels<ModelType>, &names);
    return names.size;
  }();
  std::array<char, size + 1> text{};
  ParameterNames names{text.data()};
  trace<ModelType>(input_channels<ModelType>, &names);
  return text;
}();

}  // namespace detail

/// Calls f(std::string_view name) for all parameters of a model, in the order of their offsets. The names are those of
/// PyTorch's state_dict.
template <class ModelType, class F>
constexpr void for_each_parameter_name(F f) {
  constexpr const auto& text = detail::parameter_names_text<ModelType>;
  for (std::string_view rest(text.data(), text.size() - 1); !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('\0'));
    f(name);
    rest.remove_prefix(name.size() + 1);
  }
}

/// The same as a list.
template <class ModelType>
std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  for_each_parameter_name<ModelType>([&](std::string_view name) { names.emplace_back(name); });
  return names;
}

}  // namespace halogen
