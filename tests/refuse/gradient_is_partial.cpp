// A gradient whose sum over the ranks is still due: by OptimizerState::step.
// expect: why::gradient_is_partial
#include <halogen/halogen.hpp>

using Model = hg::Conv2d<3, 1>;

void run(const hg::Parameters<Model, float>& parameters,
         const hg::Parameters<Model, float, hg::Partial<hg::Sum>>& gradient) {
  hg::OptimizerState<Model, float> state(hg::AdamW{});
#ifdef REFUSE
  state.step(parameters, gradient);
#else
  state.step(parameters, hg::redistribute<hg::Replicate>(gradient));
#endif
}
