#include "training.hpp"

template void earth_unet::run<double>(const hg::Environment& env, const earth::Options& options);
