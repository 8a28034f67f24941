// Frozen<Layer>: Layer, but its parameters are not trained, as after torch.nn.Module.requires_grad_(False). The
// parameters keep their names, and files contain them like all others. Frozen<Layer, Chosen> freezes only the
// parameters for whose names within Layer Chosen returns true. Chosen is a lambda without captures (or a constexpr
// functor) that is evaluated when the program is compiled:
//
//   inline constexpr auto body = [](std::string_view name) { return !name.starts_with("fc."); };
//   using Classifier = hg::Frozen<hg::ResNet<18>, body>;
//
// why::nothing_is_frozen: Chosen returns true for no name.
//
//   x -> the output of Layer with its placements; collectives: Layer's forward, and backward if something before it is
//   trained
//
// Frozen parameters cost nothing in training. No launch sums their gradient, no message sends it, and no optimiser
// holds moments for them. If no parameter before them is trained, no gradient is computed for the tensors that they
// read. A BatchNorm in Layer still updates its running statistics, as in PyTorch in training mode. In
// Frozen<InEvaluation<Layer>> it uses them and leaves them as they are.
#pragma once

#include <string_view>
#include <type_traits>

#include "halogen/layers/module.hpp"

namespace halogen {

namespace why {

/// Frozen<Layer, Chosen>, whose last layer is Layer, holds no parameter with a name that Chosen takes. Fix: the names
/// are those of hg::parameter_names<Layer>().
template <int Layer, class Written, class Path>
struct nothing_is_frozen {};

}  // namespace why

/// Returns true for all names.
struct AnyName {
  constexpr bool operator()(std::string_view) const { return true; }
};

template <class Layer, auto Chosen = AnyName{}>
struct Frozen : Module<Frozen<Layer, Chosen>> {
  static constexpr std::string_view module_name() { return Layer::module_name(); }
  template <class... Inputs>
  constexpr auto forward(Traced x, Inputs... more) const {
    GraphDraft& graph = *x.graph;
    graph.frozen.push({[](std::string_view name) -> bool { return Chosen(name); }, graph.path.size()});
    const auto y = Layer{}.forward(x, more...);
    if (!std::is_same_v<std::remove_cv_t<decltype(Chosen)>, AnyName> && !graph.frozen.back().holds)
      graph.refuse<why::nothing_is_frozen>(graph.layers - 1);
    graph.frozen.pop();
    return y;
  }
};

}  // namespace halogen
