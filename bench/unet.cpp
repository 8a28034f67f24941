// unet_train, unet_forward: the U-Net of three levels, base 16, on 1 x 3 x 512 x 512.
#include "protocol.hpp"

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](const bench::Options& options, const auto& mesh) {
    const bool training = options.name == "unet_train";
    if (!training && options.name != "unet_forward") return false;
    bench::measure_model<hg::UNet<3, 3, 16>, 3, 3>(options, mesh, 512, training);
    return true;
  });
}
