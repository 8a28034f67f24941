#include "training.hpp"

template void earth_unet::run<float>(const hg::Environment& env, const earth::Options& options);
