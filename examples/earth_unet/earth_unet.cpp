// The whole Earth in one sample: a U-Net learns to downscale it, cut over a mesh of ranks, periodic in longitude.
//
//   mpirun -n 4 earth_unet --mesh 2x2          # ./dev demo does this, data included
//
// Coarse field and fine topography in, fine field out; the sector 60 E - 150 E is never trained on, and scored.
#include <halogen/halogen.hpp>
#include <iostream>

#include "options.hpp"
#include "training.hpp"

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const earth::CommandLine command = earth::parse_command_line(argc, argv, env.world().size());
  if (!command.options) {
    if (env.is_root()) (command.exit_status == 0 ? std::cout : std::cerr) << command.message << std::endl;
    return command.exit_status;
  }
  try {
    command.options->precision == earth::Precision::single ? earth_unet::run<float>(env, *command.options)
                                                           : earth_unet::run<double>(env, *command.options);
  } catch (const hg::CollectiveError& error) {
    if (env.is_root()) std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
