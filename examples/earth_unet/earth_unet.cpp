// The whole Earth in one sample: a U-Net learns to downscale it, cut over a mesh of ranks, periodic in longitude.
//
//   mpirun -n 4 earth_unet --mesh 2x2          # ./dev demo does this, data included
//
// Coarse field and fine topography in, fine field out; the sector 60 E - 150 E is never trained on, and scored.
#include "program.hpp"
#include "training.hpp"

int main(int argc, char** argv) {
  return earth::run_program(argc, argv, {}, [](const hg::Environment& env, const earth::Options& options) {
    options.precision == earth::Precision::single ? earth_unet::run<float>(env, options)
                                                  : earth_unet::run<double>(env, options);
  });
}
