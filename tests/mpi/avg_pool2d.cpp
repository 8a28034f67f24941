// optimise: 0
// AvgPool2d: PyTorch's stored tensors, a composition on every mesh.
#include "support/composition.hpp"
#include "support/reference.hpp"

namespace {

/// Passes its input on and says how many channels it takes.
template <int Channels>
struct Takes : hg::Module<Takes<Channels>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    if ((*x).channels != Channels) x.graph->refuse(hg::Misfit::Kind::channels_differ, 0, Channels, (*x).channels);
    return x;
  }
};

template <int Channels, class Pool>
void check_case(int number) {
  using Model = hg::Sequential<Takes<Channels>, Pool>;
  const support::Reference reference("avgpool");
  const std::string name = "case" + std::to_string(number) + ".";
  const auto in = reference.shape(name + "input"), out = reference.shape(name + "output");
  REQUIRE(in[1] == Channels);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    CAPTURE(number);
    try {
      auto result = support::train_once<Model, Channels, Channels, support::InnerProduct>(
          mesh, {in[0], in[2], in[3]}, {}, reference.values(name + "input"), {out[2], out[3]},
          reference.values(name + "grad_output"));
      for (double& g : result.input_gradient) g *= static_cast<double>(result.output.size());
      CHECK(support::relative_error(result.output, reference.values(name + "output")) < 1e-14);
      CHECK(support::relative_error(result.input_gradient, reference.values(name + "grad_input")) < 1e-14);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

using Net = hg::Sequential<
    hg::Conv2d<2, 3>,
    hg::SkipConcat<hg::Sequential<hg::AvgPool2d<3, hg::Stride<2>>, hg::ReLU, hg::UpsampleToSkip<hg::Bilinear>>>>;

}  // namespace

TEST_CASE("PyTorch's: whole windows, overlaps, gaps") {
  check_case<2, hg::AvgPool2d<2>>(0);
  check_case<1, hg::AvgPool2d<3, hg::Stride<2>>>(1);
  check_case<1, hg::AvgPool2d<1, hg::Kernel<3, 2>, hg::Stride<1>>>(2);
  check_case<1, hg::AvgPool2d<2, hg::Stride<3>>>(3);
}
TEST_CASE("overlapping windows: to the bit") { support::check_composition<Net, 2, 6, true>(); }
