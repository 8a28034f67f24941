// What transformers of fields are made of. neighborhood_attention_{forward,backward}: attention of each point to the
// 7 x 7 points around it, 8 heads of 32, 64 x 64 points (or --size); query, key and value are the 768 channels of the
// input. vit_block_train: one pre-norm block of 384 channels, 6 heads and an MLP of four times as many channels, 32 x
// 32 points (or --size), MSE and AdamW.
#include "protocol.hpp"

namespace {

using Neighborhoods = hg::Sequential<hg::NeighborhoodAttend2d<8, hg::Kernel<7>>>;
using Block = hg::TransformerBlock<384, hg::MultiheadAttention<384, 6>>;
using Tokens = bench::Field<384>;

bool train(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  if (options.name != "vit_block_train") return false;
  hg::Trainer trainer(hg::Sequential<Block>{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 1});
  if (bench::writes_parameters(options, trainer.parameters())) return true;
  const auto extents = bench::square(options, 384, 32);
  const auto image = bench::numbers<Tokens>(mesh, extents);
  const auto label = bench::numbers<Tokens>(mesh, extents, static_cast<std::uint32_t>(384 * extents[2] * extents[3]));
  bench::measure_training(options, mesh.world(), [&] { return trainer.step(hg::mse, image, label).item(); });
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
    return bench::both<Neighborhoods, bench::Field<768>>(options, mesh, "neighborhood_attention",
                                                         bench::square(options, 768, 64)) ||
           train(options, mesh);
  });
}
