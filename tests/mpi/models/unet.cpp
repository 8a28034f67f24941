// transports: mpi nccl
// program: networks
// reads: convolutions
// The U-Net of models/ against PyTorch: names, forward, loss, gradients, two AdamW steps, on every mesh.
#include "support/convolutions.hpp"
#include "support/stored.hpp"
#include "support/train_once.hpp"

namespace test_unet {

namespace {

using Net = hg::UNet<2, 2, 2, hg::Boundary<hg::Zero, hg::Periodic>, 1>;
using support::relative_error;

}  // namespace

TEST_CASE("forward, loss and gradients are PyTorch's") {
  const support::Reference net("unet"), training("unet_training");
  const std::vector<double> gradient = support::all_parameters<Net>(training, "gradient.");
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    try {
      const auto result = support::train_once<Net, 2, 2, hg::MeanSquaredError>(
          mesh, {2, 18, 22}, support::all_parameters<Net>(net, ""), net.values("input"), {18, 22}, net.values("target"),
          net.values("weight"));
      CHECK(relative_error(result.output, net.values("output")) < 1e-11);
      CHECK(relative_error(std::vector<double>{result.loss}, net.values("loss")) < 1e-12);
      CHECK(relative_error(result.parameter_gradient, gradient) < 1e-10);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

TEST_CASE("two steps of AdamW end where PyTorch's do") {
  const support::Reference net("unet"), training("unet_training");
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    try {
      auto image = hg::distribute_tensor<support::Field<double, 2>>(mesh, {2, 2, 18, 22}, net.values("input"));
      auto label = hg::distribute_tensor<support::Field<double, 2>>(mesh, {2, 2, 18, 22}, net.values("target"));
      auto weight = hg::distribute_tensor<support::Field<double, 1>>(mesh, {2, 1, 18, 22}, net.values("weight"));
      hg::Trainer<Net, hg::AdamW, support::Mesh, double> trainer(Net{}, hg::AdamW{.lr = 5e-3}, mesh);
      hg::Parameters<Net, double> start = trainer.parameters();
      start.copy_from_host(support::all_parameters<Net>(net, ""));
      for (int step = 0; step < 2; ++step) {
        const double loss = trainer.step(hg::mse, image, label, weight).item();
        CHECK(loss == doctest::Approx(training.values("losses")[static_cast<std::size_t>(step)]).epsilon(1e-9));
      }
      CHECK(relative_error(trainer.parameters().to_host(), support::all_parameters<Net>(training, "after_2_steps.")) <
            1e-8);
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
}

}  // namespace test_unet
