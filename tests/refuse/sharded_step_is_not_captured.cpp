// A captured step of a trainer whose parameters are gathered by the host: by Trainer::capture.
// expect: why::sharded_step_is_not_captured
#include <halogen/halogen.hpp>

using Mesh = hg::Mesh<"data">;
using Model = hg::Conv2d<3, 1>;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>>;

void run(const hg::DeviceMesh<Mesh>& mesh, const Field<3>& image, const Field<1>& label) {
#ifdef REFUSE
  hg::Trainer trainer(Model{}, hg::AdamW{}, mesh, {}, hg::shard_parameters<"data">);
#else
  hg::Trainer trainer(Model{}, hg::AdamW{}, mesh);
#endif
  trainer.capture(hg::mse, image, label);
}
