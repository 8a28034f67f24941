// Stencil<F, Options...>: y[n, c, p] = f(x[n, c, p + o_1], ..., x[n, c, p + o_k], scale[c]...), f a functor that names
// its neighbours and parameters, as in the array language (array/expression/stencil.hpp) and
// layers/functions/functor.hpp:
//
//   struct Diffusion {
//     using footprint = hg::Footprint<hg::At<0, 0>, hg::At<-1, 0>, hg::At<1, 0>, hg::At<0, -1>, hg::At<0, 1>>;
//     static constexpr hg::ChannelParameter parameters[] = {{"rate"}};
//     template <class T>
//     KOKKOS_FUNCTION T operator()(T u, T north, T south, T west, T east, T rate) const { ... }
//   };
//
//   (N, C, H, W) -> the same; parameters: (C), as many as F names
//
//   placements of x       placements of y   forward             backward
//   Shard<2>, Shard<3>    the same          halo exchange of x  halo exchange of y's gradient; the bucket
//   Shard<0>, Replicate   the same          nothing             nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: the largest distance of a neighbour, on all sides. If x needs a gradient the halo of x is twice as wide,
// because each point gathers its gradient from the points that read it (no halo_reduce). Options: Boundary<Height,
// Width> (Zero, Zero), Channels<C> if it is a model's first layer. Accumulation: the input's gradient in the order of
// the neighbours; a parameter's gradient as Map's.
#pragma once

#include <algorithm>
#include <tuple>

#include "halogen/layers/functions/functor.hpp"
#include "halogen/layers/read_padded.hpp"
#include "halogen/stencil/footprint.hpp"

namespace halogen {
namespace detail {

/// The distance in dimension d, 0 down and 1 across.
template <int Down, int Across>
constexpr int distance(std::integer_sequence<int, Down, Across>, int d) {
  return d == 0 ? Down : Across;
}

template <int Down, int Across>
constexpr int farthest(std::integer_sequence<int, Down, Across>) {
  return std::max({Down, -Down, Across, -Across});
}

template <class Footprint>
struct StencilShape;
template <class... Neighbours>
struct StencilShape<Footprint<Neighbours...>> {
  static constexpr int count = static_cast<int>(sizeof...(Neighbours));
  template <int I>
  static constexpr int down = distance(std::tuple_element_t<I, std::tuple<Neighbours...>>{}, 0);
  template <int I>
  static constexpr int across = distance(std::tuple_element_t<I, std::tuple<Neighbours...>>{}, 1);
  static constexpr int radius = std::max({0, farthest(Neighbours{})...});
};

template <class F>
struct StencilOf {
  static constexpr int parameters = channel_parameters<F>;
  using Shape = StencilShape<typename F::footprint>;

  /// G: F or a partial derivative of it.
  template <class G, class S>
  static auto reader(const LaunchAt<S>& at, int operand) {
    kernels::StencilReader<S, G, parameters, Shape> reader;
    reader.input = at.windowed_value(operand);
    reader.parameters = channel_values<F>(at);
    reader.frame = reader.input.frame;
    for (int d = 0; d < spatial_dimensions; ++d) reader.frame.extent[d] = at.layout().level(at.node().level).extent(d);
    for (int d = 0; d < 2; ++d) reader.shift[d] = Shape::radius - at.node().window[1 + d].padding;
    return reader;
  }

  struct Forward {
    static constexpr const char* label = label_of<F>("halogen::stencil");
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      const auto stencil = reader<F>(at, 0);
      return kernels::CopyRows<S, std::decay_t<decltype(stencil)>>{stencil, 0};
    }
  };

  struct Backward {
    static constexpr const char *label = label_of<F>("halogen::stencil_backward"), *suffix = " backward";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      return kernels::StencilBackwardRows<S, F, parameters, Shape>{at.windowed_gradient(0), reader<F>(at, 1),
                                                                   at.first_channel()};
    }
  };

  template <int Index>
  struct ParameterGradient : ChannelSumLaunch<> {
    static constexpr const char *label = label_of<F>("halogen::stencil_parameter"), *suffix = " parameter gradient";
    template <class S, Form>
    static void run(const LaunchAt<S>& at) {
      const auto partial = reader<PartialOf<F, Shape::count + Index>>(at, 1);
      const kernels::SlopeReader<S, std::decay_t<decltype(partial)>> slope{at.gradient(0), partial};
      sum_parameter<F, Index>(at, label, slope, at.parameter_gradient(parameters));
    }
  };

  static constexpr void forward(Planner& planner, const Node& node) {
    Launch launch = planner.launch<Forward>(node);
    launch.read(planner.read(node, Pattern::window()));
    planner.emit_forward(node, use_channel_parameters<F>(launch, node));
  }

  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    [&]<int... P>(std::integer_sequence<int, P...>) {
      [[maybe_unused]] const auto emit = [&](Launch launch, int parameter) {
        launch.read(planner.gradient(reads, Pattern::point())).read(planner.read_again(node, Pattern::window()));
        launch.level = node.level;
        planner.emit(use_channel_parameters<F>(launch, node).sum_gradient_of(node.parameter + parameter));
      };
      (emit(planner.launch<ParameterGradient<P>>(node), P), ...);
    }(std::make_integer_sequence<int, parameters>{});
    Launch launch = planner.launch<Backward>(node);
    launch.read(planner.gradient(reads, Pattern::adjoint())).read(planner.read_again(node, Pattern::neighbours()));
    planner.emit_input_gradients(use_channel_parameters<F>(launch, node));
  }

  static constexpr Operation operation{"stencil", forward, vjp};
};

}  // namespace detail

template <class F, class... Options>
struct Stencil : Module<Stencil<F, Options...>> {
  using Shape = detail::StencilShape<typename F::footprint>;
  static constexpr auto options =
      detail::window_options<2, Kernel<2 * Shape::radius + 1>, Padding<Shape::radius>, Options...>();
  static_assert(
      detail::can_be_called<F, Shape::count>,
      "a stencil's functor is called with a value for each neighbour of its footprint, then a number for each "
      "of its parameters");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node;
    node.operation = &detail::StencilOf<F>::operation;
    node.layer = graph.next_layer();
    graph.slide(2, node.layer);
    detail::check_channels(graph, node.layer, detail::channels_named<Options...>, (*x).channels);
    for (int d = 0; d < spatial_dimensions; ++d) node.window[d] = options.window[d];
    detail::read_padded(x, node, options);
    node.channels = (*x).channels;
    node.parameter = detail::add_channel_parameters<F>(graph, node.channels);
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
