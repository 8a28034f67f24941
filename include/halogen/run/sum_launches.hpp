// Bases of launch types that compute sums over points. They say how much memory the sums need.
#pragma once

#include "halogen/run/launch_place.hpp"
#include "halogen/run/workspace.hpp"

namespace halogen {

/// Base of a launch type that computes Sums sums over points for each channel (LaunchAt::sum_channels, over_blocks).
template <int Sums = 1>
struct ChannelSumLaunch {
  static kernels::Tiling tiling(const LaunchPlace& at) { return TileSizes::of_sums(at); }
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling) {
    const int blocks = TileSizes::blocks(tiling);
    return {.partials = sizeof(double) * static_cast<std::size_t>(blocks * Sums * at.node().channels),
            .blocks = blocks};
  }
};

/// Bytes of the sums of blocks, for each sample and channel.
inline std::size_t sample_partials(const LaunchPlace& at, int channels) {
  const int blocks = TileSizes::sample_blocks(TileSizes::of_sums(at), at.samples);
  return sizeof(double) * static_cast<std::size_t>(at.samples) * static_cast<std::size_t>(blocks * channels);
}

/// Base of a launch type that computes Sums sums over all points of each sample (LaunchAt::sum_samples,
/// sum_over_ranks).
template <int Sums>
struct SampleSumLaunch {
  static constexpr bool talks = true;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling&) {
    return {.partials = sample_partials(at, at.node().channels), .rank_sums = Sums * at.samples};
  }
};

/// Base of a launch type that computes a sum over all points for each sample and channel (LaunchAt::sum_points). Its
/// output is a vector, and the launch's level is that of the points.
struct VectorSumLaunch {
  static constexpr bool common_output = false, talks = true;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling&) {
    const int channels = at.plan.tensors[at.launch.output].channels;
    return {.partials = sample_partials(at, channels), .rank_sums = at.samples * channels};
  }
};

}  // namespace halogen
