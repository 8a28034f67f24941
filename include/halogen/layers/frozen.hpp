// Frozen<Layer>: Layer, whose parameters are not trained, as torch.nn.Module.requires_grad_(False). Their names are
// those of Layer, and files hold them as they do others.
//
//   x -> what Layer makes of it, placed as by Layer; collectives: Layer's forward, and backward where something before
//   it is trained
//
// They cost nothing in training: no launch sums their gradient, no message carries it, no optimiser holds moments of
// them, and where no parameter before them is trained no gradient is computed for what they read. A BatchNorm in it
// goes on with its running statistics, as PyTorch's does in training.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {

template <class Layer>
struct Frozen : Module<Frozen<Layer>> {
  static constexpr std::string_view module_name() { return Layer::module_name(); }
  template <class... Inputs>
  constexpr auto forward(Traced x, Inputs... more) const {
    ++x.graph->frozen;
    const auto y = Layer{}.forward(x, more...);
    --x.graph->frozen;
    return y;
  }
};

}  // namespace halogen
