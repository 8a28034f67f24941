// How layers are called and named, and the containers: Sequential, Named, SkipConcat.
#pragma once

#include <concepts>
#include <string_view>
#include <tuple>
#include <utility>

#include "halogen/core/fixed_string.hpp"
#include "halogen/core/type_of.hpp"
#include "halogen/plan/planner.hpp"

namespace halogen {

namespace why {

/// Layer upsamples to the extents of an enclosing layer's input, but no SkipConcat, Residual or SameExtents encloses
/// it.
template <int Layer, class Written, class Path>
struct upsample_without_skip {};

}  // namespace why

/// Base of every layer and model: `layer(x)` appends the layer to the graph that x belongs to, under the next
/// index as its name (torch.nn.Sequential's habit). Layers are empty; parameters live in Parameters<Model, T>.
template <class Derived>
struct Module {
  constexpr auto operator()(Traced x) const { return call(static_cast<const Derived&>(*this), step_below(x), x); }
  /// The call with the values of an array, such as another layer has returned.
  template <std::size_t Count>
  constexpr auto operator()(const std::array<Traced, Count>& all) const {
    return std::apply([&](auto... one) { return static_cast<const Derived&>(*this)(one...); }, all);
  }
  /// The call with several values, or with indices. A layer returns a Traced, or an array or a tuple of them.
  template <class First, class... More>
  constexpr auto operator()(First x, More... more) const {
    return call(static_cast<const Derived&>(*this), step_below(x), x, more...);
  }

  static constexpr std::string_view module_name() { return {}; }

  template <class Layer, class First, class... More>
  static constexpr auto call(const Layer& layer, PathStep step, First x, More... more) {
    step.written = detail::address_of_type<Layer>;
    x.graph->path.push(step);
    const auto y = layer.forward(x, more...);
    x.graph->path.pop();
    return y;
  }

 private:
  template <class X>
  static constexpr PathStep step_below(X x) {
    return {Derived::module_name(), x.graph->path.back().children++};
  }
};

/// A layer or a composition of layers: anything with `constexpr Traced forward(Traced) const`, as a template or not. A
/// struct with layers as members and a templated forward() is one. A model that takes more than an image declares its
/// inputs (graph/traced_inputs.hpp).
template <class Layer>
concept Model = requires(const Layer& layer, Traced x) {
  { layer.forward(x) } -> std::convertible_to<Traced>;
};

/// Appends a layer that keeps channels and resolution and has no parameters. Your own layer can start from this.
constexpr Traced add_layer(Traced x, const Operation& operation, const Constants* constants = nullptr) {
  Node node;
  node.operation = &operation;
  node.constants = constants;
  node.layer = x.graph->next_layer();
  node.inputs[0] = x.node;
  node.channels = (*x).channels;
  node.level = (*x).level;
  return {x.graph, x.graph->add(node)};
}

/// Layers one after the other. Children are named by position, as in PyTorch.
template <class... Layers>
struct Sequential : Module<Sequential<Layers...>> {
  constexpr Traced forward(Traced x) const {
    int index = 0;
    ((x = Module<Sequential>::call(Layers{}, {Layers::module_name(), index++}, x)), ...);
    return x;
  }
};

/// Names a child, and with it its parameters: Named<"head", Conv2d<16, 1, Kernel<1>>> -> head.weight, head.bias. If its
/// parent calls it twice, both calls share the parameters. Children without a name get a new name and new parameters at
/// each call.
template <fixed_string Name, class Layer>
struct Named : Module<Named<Name, Layer>> {
  static constexpr std::string_view module_name() { return Name.view(); }
  constexpr Traced forward(Traced x) const { return Layer{}.forward(x); }
  template <class First, class... More>
  constexpr auto forward(First x, More... more) const {
    return Layer{}.forward(x, more...);
  }
};

namespace detail {

constexpr void concat_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  Value second = planner.value_of(node.inputs[1]);
  if (value.sources.size() + second.sources.size() > 4) value = planner.stored(node, value);
  if (value.sources.size() + second.sources.size() > 4) second = planner.stored(node, second);
  for (const Source& source : second.sources) value.sources.push(source);
  planner.set_value(node, value);
}

constexpr void no_vjp(Planner&, const Node&) {}

inline constexpr Operation concat_operation{"concat", concat_forward, no_vjp};

}  // namespace detail

/// a and b one after the other along the channels, (N, Ca + Cb, H, W) or (N, Ca + Cb, D, H, W). The next layer reads
/// both tensors; there is no copy and no communication. Both must have the same resolution (why::levels_differ).
constexpr Traced concat(Traced a, Traced b) {
  GraphDraft& graph = *a.graph;
  Node node;
  node.operation = &detail::concat_operation;
  node.inputs[0] = a.node;
  node.inputs[1] = b.node;
  node.channels = (*a).channels + (*b).channels;
  node.level = (*a).level;
  node.layer = graph.layers - 1;
  if ((*a).level != (*b).level) graph.refuse<why::levels_differ>(node.layer, (*a).level, (*b).level);
  return {&graph, graph.add(node)};
}

namespace detail {

/// Inner of x, under the name `body`. OutputToSkip and UpsampleToSkip inside return to the points of x.
template <class Outer, class Inner>
constexpr Traced body_with_skip(Traced x) {
  x.graph->skips.push(x.node);
  const Traced y = Module<Outer>::call(Inner{}, {"body", 0}, x);
  x.graph->skips.pop();
  return y;
}
/// The level to which `layer` returns: that of the innermost enclosing skip.
constexpr int level_of_skip(GraphDraft& graph, int layer) {
  if (!graph.skips.empty()) return graph.nodes[graph.skips.back()].level;
  graph.refuse<why::upsample_without_skip>(layer);
  return 0;
}
/// y, which must lie on the points of `to`.
constexpr Traced on_points_of(Traced to, Traced y) {
  GraphDraft& graph = *to.graph;
  if ((*y).level != (*to).level) graph.refuse<why::levels_differ>(graph.layers - 1, (*to).level, (*y).level);
  return y;
}

}  // namespace detail

/// layer(y) with the extents and cuts of `to`: the layer ends with OutputToSkip or UpsampleToSkip, which return to
/// these points. A layer that ends elsewhere is refused (why::levels_differ).
template <class Layer>
constexpr Traced output_to(Traced to, const Layer& layer, Traced y) {
  to.graph->skips.push(to.node);
  const Traced result = layer(y);
  to.graph->skips.pop();
  return detail::on_points_of(to, result);
}

/// Inner(x) with x's extents and cuts, whatever strides are in Inner: it ends with OutputToSkip or UpsampleToSkip. A
/// label of such a model is made as the input is. Other ends are refused (why::levels_differ).
template <class Inner>
struct SameExtents : Module<SameExtents<Inner>> {
  constexpr Traced forward(Traced x) const {
    return detail::on_points_of(x, detail::body_with_skip<SameExtents, Inner>(x));
  }
};

/// concat(x, Inner(x)): (N, C, H, W) -> (N, C + C_inner, H, W), or with depth. UpsampleToSkip inside returns to x's
/// extents and cuts.
template <class Inner>
struct SkipConcat : Module<SkipConcat<Inner>> {
  constexpr Traced forward(Traced x) const { return concat(x, detail::body_with_skip<SkipConcat, Inner>(x)); }
};

}  // namespace halogen
