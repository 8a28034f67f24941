// Checkpoint<Layer>: Layer, but what backward reads of it is not kept from the forward pass. It is computed again where
// backward needs it, from the input of Layer. This is torch.utils.checkpoint.
//
//   using Encoder = hg::Repeat<hg::Checkpoint<Block>, 24>;
//
//   x -> the output of Layer with its placements; collectives: Layer's forward and backward, and one more halo exchange
//   for each tensor that is computed again and read beyond a rank's own points
//
// Results are the same to the bit. These are kept, and not computed again: what layers outside read, statistics of
// norms, and what a layer computes that sends messages of its own (attention, global pools, Function). So no collective
// runs twice and running statistics change once. Layers draw the same random numbers again. In inference it changes
// nothing. Within a Checkpoint, another one changes nothing.
//
// nothing_is_recomputed: Layer computes nothing that could be dropped, so a Checkpoint would save nothing.
//
// Source: T. Chen et al., Training deep nets with sublinear memory cost (2016); how it is planned: plan/recompute.hpp.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {

template <class Layer>
struct Checkpoint : Module<Checkpoint<Layer>> {
  static constexpr std::string_view module_name() { return Layer::module_name(); }
  template <class... Inputs>
  constexpr auto forward(Traced x, Inputs... more) const {
    GraphDraft& graph = *x.graph;
    const int outer = graph.segment;
    if (outer == 0) graph.segment = ++graph.segments;
    const auto y = Layer{}.forward(x, more...);
    graph.segment = outer;
    return y;
  }
};

}  // namespace halogen
