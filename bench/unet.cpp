// The U-Net of three levels, base 16, on 1 x 3 x size, cut over the ranks: unet_forward; unet_train, a step with MSE
// and AdamW; unet_memory, what that step takes; unet_exchange, what it waits for (see exchange.hpp).
#include "exchange.hpp"
#include "memory.hpp"
#include "protocol.hpp"

namespace {

using Model = hg::UNet<3, 3, 16>;
using Image = bench::Field<3>;

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
    const hg::index_t height = options.size[0] == 0 ? 512 : options.size[0];
    const hg::index_t width = options.size[1] == 0 ? 512 : options.size[1];
    const Image::Extents extents{1, 3, height, width};
    hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-3}, mesh, {.seed = 1});
    if (bench::writes_parameters(options, trainer.parameters())) return true;
    const auto image = bench::numbers<Image>(mesh, extents);
    const auto label = bench::numbers<Image>(mesh, extents, static_cast<std::uint32_t>(3 * height * width));
    double loss = 0;  // of the second step: it holds forward, backward and update; later ones drift with the rounding
    int count = 0;
    const auto note = [&](double now) {
      if (++count <= 2) loss = now;
    };
    const auto train = [&] { note(trainer.step(hg::mse, image, label).item()); };
    if (options.name == "unet_train" && mesh.size() == 1) {
      auto step = trainer.capture(hg::mse, image, label);  // on a device one launch
      bench::measure(
          options, mesh.world(), [&] { note(step().item()); }, [&] { return std::vector{loss}; });
    } else if (options.name == "unet_train")
      bench::measure(options, mesh.world(), train, [&] { return std::vector{loss}; });
    else if (options.name == "unet_forward")
      bench::measure(
          options, mesh.world(), [&] { trainer.predict(image); },
          [&] { return std::vector{bench::root_mean_square(mesh.world(), trainer.predict(image).to_host())}; });
    else if (options.name == "unet_memory")
      bench::print_memory(options, mesh.world(), train, trainer, image);
    else if (options.name == "unet_exchange")
      bench::print_exchange(options, mesh, train, trainer, image);
    else
      return false;
    return true;
  });
}
