// A model whose forward takes two values and does not name its inputs.
// expect: forward_takes_other_values
#include <halogen/network.hpp>

struct Two : hg::Module<Two> {
#ifndef REFUSE
  using inputs = std::tuple<hg::FieldInput<3>, hg::VectorInput<1>>;
#endif
  constexpr hg::Traced forward(hg::Traced x, hg::Traced time) const {
    return hg::Conv2d<3, 3>{}(x) + hg::expand(hg::Linear<1, 3>{}(time), x);
  }
};

int run() { return hg::graph_of<Two, 3>.nodes.size(); }
