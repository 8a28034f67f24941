// InEvaluation<Layer>: Layer, but in training it computes what it computes in inference, as after
// torch.nn.Module.eval(): BatchNorm normalises by its buffers and does not change them, dropout and other draws do
// nothing. For a body that was trained on other data:
//
//   using Classifier = hg::Sequential<hg::Frozen<hg::InEvaluation<Body>>, Head>;
//
//   x -> the output of Layer with its placements; collectives: Layer's, without those of a norm's statistics
//
// Its parameters keep their names, and are trained if they are not frozen: with gamma and beta of a BatchNorm too.
#pragma once

#include <utility>

#include "halogen/layers/module.hpp"

namespace halogen {

template <class Layer>
struct InEvaluation : Module<InEvaluation<Layer>> {
  static constexpr std::string_view module_name() { return Layer::module_name(); }
  template <class... Inputs>
  constexpr auto forward(Traced x, Inputs... more) const {
    GraphDraft& graph = *x.graph;
    const bool before = std::exchange(graph.in_evaluation, true);
    const auto y = Layer{}.forward(x, more...);
    graph.in_evaluation = before;
    return y;
  }
};

}  // namespace halogen
