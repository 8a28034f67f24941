// optimise: 0
// program: layers
// Attention to a neighbourhood: PyTorch's stored tensors on every mesh (make_layer_references.py), finite differences
// of networks around it, messages.
#include "support/composition.hpp"
#include "support/stored.hpp"

namespace test_neighborhood_attention {

namespace {

using hg::Boundary, hg::Causal, hg::Dilation, hg::Kernel, hg::Periodic, hg::Zero;

const char* const file = "neighborhood_attention";

/// Output and input gradient of attention alone, on every mesh.
template <class Layer, int In, std::size_t Rank = 3>
void check(const std::string& name) {
  using Model = hg::Sequential<support::Takes<In>, Layer>;
  const support::StoredCase<Rank> stored(file, name);
  CAPTURE(name);
  REQUIRE(stored.channels("input") == In);
  const int ran = support::on_meshes<Model, In>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.template run<Model, In, In / 3>(mesh);
    CHECK(support::relative_error(result.output, stored["output"]) < 1e-12);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-12);
  });
  if (support::world().size() <= 2) CHECK(ran > 0);
}

}  // namespace

TEST_CASE("planes: kernels, dilations, causal heights, date lines") {
  check<hg::NeighborhoodAttend2d<1, Kernel<3>>, 6>("three");
  check<hg::NeighborhoodAttend2d<2, Kernel<5, 3>>, 12>("rectangle");
  check<hg::NeighborhoodAttend2d<2, Kernel<4>>, 6>("even");
  check<hg::NeighborhoodAttend2d<1, Kernel<3>, Dilation<2, 3>>, 6>("dilated");
  check<hg::NeighborhoodAttend2d<1, Kernel<3, 5>, Causal<true, false>>, 6>("causal");
  check<hg::NeighborhoodAttend2d<2, Kernel<2, 3>, Dilation<3, 2>, Causal<false, true>>, 6>("causal_dilated");
  check<hg::NeighborhoodAttend2d<1, Kernel<5>, Boundary<Zero, Periodic>>, 6>("globe");
  check<hg::NeighborhoodAttend2d<1, Kernel<3, 4>, Dilation<2>, Causal<true, false>, Boundary<Zero, Periodic>>, 6>(
      "globe_dilated");
}
TEST_CASE("signals and volumes") {
  check<hg::NeighborhoodAttend1d<1, Kernel<5>, Dilation<2>>, 6, 2>("signal");
  check<hg::NeighborhoodAttend1d<2, Kernel<4>, Causal<true>>, 6, 2>("signal_even");
  check<hg::NeighborhoodAttend1d<1, Kernel<6>, Dilation<2>, Boundary<Periodic>>, 6, 2>("ring");
  check<hg::NeighborhoodAttend3d<1, Kernel<3, 2, 5>>, 6, 4>("volume");
  check<hg::NeighborhoodAttend3d<1, Kernel<2, 3, 3>, Dilation<2, 1, 1>, Causal<true, false, false>,
                                 Boundary<Zero, Zero, Periodic>>,
        6, 4>("volume_causal");
}
TEST_CASE("with its projections, as a checkpoint names them") {
  using Layer = hg::NeighborhoodAttention2d<4, 2, Kernel<5, 3>, Boundary<Zero, Periodic>>;
  const support::Reference reference(file);
  CHECK(hg::parameter_names<Layer>() == std::vector<std::string>{"qkv.weight", "qkv.bias", "proj.weight", "proj.bias"});
  const auto parameters = support::all_parameters<Layer>(reference, "layer.");
  const auto gradient = support::all_parameters<Layer>(reference, "layer.grad.");
  const support::StoredCase<3> stored(file, "layer");
  support::on_meshes<Layer, 4>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.template run<Layer, 4, 4>(mesh, parameters);
    CHECK(support::relative_error(result.output, stored["output"]) < 1e-12);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-12);
    CHECK(support::relative_error(result.parameter_gradient, gradient) < 1e-12);
  });
}

}  // namespace test_neighborhood_attention
