// The U-Net of three levels, base 16, on 1 x 3 x size, cut over the ranks: unet_forward; unet_train, a step with MSE
// and AdamW; unet_memory, what that step takes; unet_exchange, what it waits for (see exchange.hpp). On a device
// NAME_bf16: the same with images, and so all activations, of bfloat16.
#include "exchange.hpp"
#include "memory.hpp"
#include "protocol.hpp"

namespace {

using Model = hg::UNet<3, 3, 16>;
using Label = bench::Field<3>;

/// With images of T.
template <class T>
bool run(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  const std::string& what = options.name;
  using Image = bench::FieldOf<T, 3>;
  const hg::index_t height = options.size[0] == 0 ? 512 : options.size[0];
  const hg::index_t width = options.size[1] == 0 ? 512 : options.size[1];
  const Label::Extents extents{1, 3, height, width};
  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 1});
  if (bench::writes_parameters(options, trainer.parameters())) return true;
  const auto image = bench::numbers<Image>(mesh, extents);
  const auto label = bench::numbers<Label>(mesh, extents, static_cast<std::uint32_t>(3 * height * width));
  const auto train = [&] { return trainer.step(hg::mse, image, label).item(); };
  if (what == "unet_train" && mesh.size() == 1) {
    auto step = trainer.capture(hg::mse, image, label);  // on a device one launch
    bench::measure_training(options, mesh.world(), [&] { return step().item(); });
  } else if (what == "unet_train")
    bench::measure_training(options, mesh.world(), train);
  else if (what == "unet_forward")
    bench::measure(
        options, mesh.world(), [&] { trainer.predict(image); },
        [&] {
          const auto output = trainer.predict(image).to_host();
          return std::vector{bench::root_mean_square(mesh.world(), output)};
        });
  else if (what == "unet_memory")
    bench::print_memory(options, mesh.world(), train, trainer, image);
  else if (what == "unet_exchange") {
    // beside it each rank's piece as a field of its own
    const auto self = hg::device_mesh<bench::Mesh>(hg::Communicator(), {1, 1});
    const Label::Extents piece{1, 3, image.owned(2).size(), image.owned(3).size()};
    const auto own_image = bench::numbers<Image>(self, piece);
    const auto own_label = bench::numbers<Label>(self, piece, 12345);
    hg::Trainer own(Model{}, hg::AdamW{.lr = 1e-3}, self, {.seed = 1});
    bench::print_exchange(options, mesh.world(), train, [&] { own.step(hg::mse, own_image, own_label).item(); });
  } else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& all, const hg::DeviceMesh<bench::Mesh>& mesh) {
    return bench::with_value_type(all, [&]<class T>(const bench::Options& options) { return run<T>(options, mesh); });
  });
}
