// Frozen<Layer>: Layer, whose parameters are not trained, as torch.nn.Module.requires_grad_(False). Their names are
// those of Layer, and files hold them as they do others. Frozen<Layer, Chosen>: those alone whose names within Layer
// Chosen takes, a lambda without captures (or a constexpr functor) that is evaluated while the program is compiled:
//
//   inline constexpr auto body = [](std::string_view name) { return !name.starts_with("fc."); };
//   using Classifier = hg::Frozen<hg::ResNet<18>, body>;
//
// why::nothing_is_frozen where it takes none.
//
//   x -> what Layer makes of it, placed as by Layer; collectives: Layer's forward, and backward where something before
//   it is trained
//
// They cost nothing in training: no launch sums their gradient, no message carries it, no optimiser holds moments of
// them, and where no parameter before them is trained no gradient is computed for what they read. A BatchNorm in it
// goes on with its running statistics, as PyTorch's does in training.
#pragma once

#include <string_view>
#include <type_traits>

#include "halogen/layers/module.hpp"

namespace halogen {

/// Takes all names.
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
      graph.refuse(Misfit::Kind::nothing_is_frozen, graph.layers - 1);
    graph.frozen.pop();
    return y;
  }
};

}  // namespace halogen
