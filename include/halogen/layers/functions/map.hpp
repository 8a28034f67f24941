// Map<F>: y[n, c, p] = f(a[n, c, p], scale[c]...), or f(a, b, scale[c]...) of two or three values of one shape. f is a
// functor (layers/functions/functor.hpp).
//
//   (N, C, H, W) or (N, C, D, H, W), up to three of them -> the same; parameters: (C), or (1) if shared, as many as F
//   names
//
//   placements of a, b...       placements of y   forward   backward
//   Shard<0>, Shard<2> and on   the same          nothing   the parameters' gradients in the bucket
//   Replicate                   the same          nothing   nothing
//   Shard<1>, Partial           does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. If only convolutions read y, nothing is stored and no launch runs: the convolutions compute y while they
// read rows. Otherwise one launch writes y. vjp: one launch for each input, which computes g times the partial
// derivative by dual numbers, and one launch for each parameter. Accumulation of a parameter's gradient: value type
// within a row, double across rows and tiles.
#pragma once

#include "halogen/layers/functions/functor.hpp"

namespace halogen {
namespace detail {

/// The launch types of a map, and the functions that make its readers.
template <class F, int Inputs>
struct MapOf {
  static constexpr int parameters = channel_parameters<F>;

  /// G: F or a partial derivative of it.
  template <class G, class S>
  static auto reader_of(const LaunchAt<S>& at, std::array<ValueId, 3> inputs, int first_use, const Node* windows) {
    kernels::MappedReader<S, G, Inputs, parameters> reader;
    for (int i = 0; i < Inputs; ++i) reader.inputs[i] = at.reader_of(inputs[static_cast<std::size_t>(i)], windows);
    reader.parameters = channel_values<F>(at, first_use);
    reader.frame = reader.inputs[0].frame;
    reader.depth = reader.inputs[0].depth;
    return reader;
  }
  /// The reader for the windows of a launch that computes the map itself.
  template <class S>
  static auto reader(const LaunchAt<S>& at, std::array<ValueId, 3> inputs, int first_use, const Node* windows) {
    return reader_of<F>(at, inputs, first_use, windows);
  }
  /// The reader of single points. The values are the operands starting at `first`.
  template <class G, class S>
  static auto own_reader(const LaunchAt<S>& at, int first) {
    std::array<ValueId, 3> inputs;
    for (int i = 0; i < Inputs; ++i) inputs[static_cast<std::size_t>(i)] = at.launch().reads[first + i].value();
    return reader_of<G>(at, inputs, 0, nullptr);
  }

  struct Forward {
    static constexpr const char* label = label_of<F>("halogen::map");
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      const auto reader = own_reader<F>(at, 0);
      return kernels::CopyRows<S, std::decay_t<decltype(reader)>>{reader, 0};
    }
  };

  /// The derivative with respect to value Index. Indices after those of the values are parameters.
  template <int Index, class S>
  static auto slope(const LaunchAt<S>& at) {
    const auto partial = own_reader<PartialOf<F, Index>>(at, 1);
    return kernels::SlopeReader<S, std::decay_t<decltype(partial)>>{at.gradient(0), partial};
  }

  template <int Index>
  struct Backward {
    static constexpr const char *label = label_of<F>("halogen::map_backward"), *suffix = " backward";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      const auto reader = slope<Index>(at);
      return kernels::CopyRows<S, std::decay_t<decltype(reader)>>{reader, at.first_channel()};
    }
  };

  template <int Index>
  struct ParameterGradient : ChannelSumLaunch<> {
    static constexpr const char *label = label_of<F>("halogen::map_parameter"), *suffix = " parameter gradient";
    template <class S, Form>
    static void run(const LaunchAt<S>& at) {
      sum_parameter<F, Index>(at, label, slope<Inputs + Index>(at), at.parameter_gradient(parameters));
    }
  };

  static constexpr void forward(Planner& planner, const Node& node) {
    Launch launch = planner.launch<Forward>(node);
    for (int i = 0; i < Inputs; ++i) launch.read(planner.read(node, Pattern::point(), i));
    planner.emit_map(node, address_of_type<MapOf>, use_channel_parameters<F>(launch, node));
  }

  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    const auto completed = [&](Launch launch) {
      launch.read(planner.gradient(reads, Pattern::point()));
      for (int i = 0; i < Inputs; ++i) launch.read(planner.read_again(node, Pattern::point(), i));
      return use_channel_parameters<F>(launch, node);
    };
    [&]<int... P>(std::integer_sequence<int, P...>) {
      [[maybe_unused]] const auto emit = [&](Launch launch, int parameter) {
        launch.level = node.level;
        planner.emit(completed(launch).sum_gradient_of(node.parameter + parameter));
      };
      (emit(planner.launch<ParameterGradient<P>>(node), P), ...);
    }(std::make_integer_sequence<int, parameters>{});
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (planner.emit_input_gradients(completed(planner.launch<Backward<I>>(node, I))), ...);
    }(std::make_integer_sequence<int, Inputs>{});
  }

  static constexpr Operation operation{"map", forward, vjp};
};

}  // namespace detail

/// A layer of one value, and a function of two or three: Map<Gate>{}(a, b). Options: Channels<C>, where it is a model's
/// first layer and has parameters.
template <class F, class... Options>
struct Map : Module<Map<F, Options...>> {
  /// All values must have the same channels and resolution: why::channels_differ, why::levels_differ.
  template <std::same_as<Traced>... More>
    requires(sizeof...(More) <= 2)
  constexpr Traced forward(Traced a, More... more) const {
    return add(a.graph->next_layer(), a, more...);
  }
  /// The same as a part of the layer that calls it. The parameters belong to that layer.
  template <std::same_as<Traced>... More>
  static constexpr Traced part(Traced a, More... more) {
    return add(a.graph->next_layer(), a, more...);
  }

 private:
  template <class... Inputs>
  static constexpr Traced add(int layer, Traced a, Inputs... more) {
    constexpr int inputs = 1 + static_cast<int>(sizeof...(more));
    static_assert(detail::can_be_called<F, inputs>,
                  "a map's functor is called with its values, then a number for each of its parameters");
    GraphDraft& graph = *a.graph;
    Node node;
    node.operation = &detail::MapOf<F, inputs>::operation;
    node.layer = layer;
    node.channels = (*a).channels;
    node.level = (*a).level;
    detail::check_channels(graph, layer, detail::channels_named<Options...>, node.channels);
    int i = 0;
    for (const Traced& x : {a, more...}) {
      node.inputs[i++] = x.node;
      if ((*x).channels != node.channels) graph.refuse<why::channels_differ>(layer, node.channels, (*x).channels);
      if ((*x).level != node.level) graph.refuse<why::levels_differ>(layer, node.level, (*x).level);
    }
    node.parameter = detail::add_channel_parameters<F>(graph, node.channels);
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
