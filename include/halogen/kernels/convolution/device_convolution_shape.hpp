// Device: how a window's convolution is divided into teams, tiles and scratch. Only this file chooses sizes. They
// depend on the window, its channels and the value type alone, so that every rank and mesh computes in the same way.
#pragma once

#include "halogen/kernels/convolution/device_mma.hpp"
#include "halogen/kernels/convolution/device_staging.hpp"

namespace halogen::kernels::device {

inline constexpr int mma_channels = 16;  ///< with so many channels on each side (of a group), tensor cores multiply
inline constexpr int listed_taps = 1024;

/// What a team computes, and by which algorithm.
enum class Multiply {
  by_mma,     ///< outputs x points on the tensor cores, input channels in slabs of 8
  by_points,  ///< each lane has a register block of outputs and rows
  unstaged    ///< each lane has a point and reads memory directly: for windows too wide for scratch
};

/// A team computes `outputs` channels of one group for one tile of points.
struct ConvolutionShape {
  static constexpr int warp_rows = 32, warp_points_down = 2, warp_points_across = 32;  ///< by_mma: of one warp
  static constexpr int lane_rows = 4, lane_outputs = 8;  ///< by_points: of one lane, which may have 1 output instead

  /// by_mma: 16 outputs of 32 points, which a warp writes by rows. Each row begins in another bank.
  static constexpr int result_pitch = warp_points_across + 8, result_size = mma_rows * result_pitch;

  Multiply multiply = Multiply::unstaged;
  int outputs = 1;
  int tile_rows = 8, tile_columns = 32;
  int slab = 0;  ///< how many input channels are in scratch at once
  int taps = 0;  ///< by_mma: for how many taps weights are in scratch at once
  std::size_t value_bytes = 0;

  /// `groups` has the channels of one group. A tile has the same number of steps of each phase.
  KOKKOS_FORCEINLINE_FUNCTION ConvolutionShape(const TapWindow& window, const ChannelGroups& groups,
                                               std::size_t bytes_of_value)
      : value_bytes(bytes_of_value) {
    if (window.taps() <= listed_taps) {
      if (groups.outputs >= mma_channels && groups.inputs >= mma_channels && by_mma(window, groups)) return;
      if (by_points(window, groups)) return;
    }
    multiply = Multiply::unstaged;
    outputs = groups.outputs < lane_outputs ? groups.outputs : lane_outputs;
    tile_rows = 8 * window.phases(0), tile_columns = warp_lanes * window.phases(1);
    slab = taps = 0;
  }

  KOKKOS_FORCEINLINE_FUNCTION int chunks(const ChannelGroups& groups) const {
    return static_cast<int>(ceil_div(groups.outputs, outputs));
  }
  KOKKOS_FORCEINLINE_FUNCTION Region region(const TapWindow& window) const {
    return {window, tile_rows, tile_columns, multiply == Multiply::by_mma ? 8 : 0};
  }
  /// by_mma: values from the weights of one input channel to those of the next, which are in other banks.
  KOKKOS_FORCEINLINE_FUNCTION int weight_pitch() const { return outputs + 8; }

  KOKKOS_FORCEINLINE_FUNCTION std::size_t bytes(const TapWindow& window) const {
    if (multiply == Multiply::unstaged) return 0;
    const std::size_t operands = input_bytes(window) + weight_bytes(window);
    const std::size_t results =
        multiply == Multiply::by_mma ? aligned(static_cast<std::size_t>(team_warps * result_size)) : 0;
    return list_bytes(window) + (operands > results ? operands : results);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION std::size_t list_bytes(const TapWindow& window) const {
    return TeamScratch::bytes_of<Tap>(static_cast<std::size_t>(window.taps())) + TeamScratch::bytes_of<int>(1);
  }
  KOKKOS_FORCEINLINE_FUNCTION std::size_t input_bytes(const TapWindow& window) const {
    return aligned(static_cast<std::size_t>(slab) * static_cast<std::size_t>(region(window).channel));
  }
  KOKKOS_FORCEINLINE_FUNCTION std::size_t weight_bytes(const TapWindow& window) const {
    return multiply == Multiply::by_mma ? aligned(static_cast<std::size_t>(taps * slab * weight_pitch()))
                                        : aligned(static_cast<std::size_t>(slab * window.taps() * outputs));
  }
  KOKKOS_FORCEINLINE_FUNCTION std::size_t aligned(std::size_t values) const {
    return (values * value_bytes + 15) / 16 * 16;
  }
  KOKKOS_FORCEINLINE_FUNCTION bool fits(const TapWindow& window) const {
    return region(window).fits() && bytes(window) <= scratch_limit;
  }

  /// Eight warps of 32 outputs x 64 points, or fewer rows if scratch has no room for more.
  KOKKOS_FORCEINLINE_FUNCTION bool by_mma(const TapWindow& window, const ChannelGroups& groups) {
    multiply = Multiply::by_mma;
    outputs = groups.outputs > warp_rows ? 2 * warp_rows : warp_rows;
    tile_columns = warp_points_across * window.phases(1);
    slab = mma_inner;
    for (int rows = groups.outputs > warp_rows ? 8 : 16; rows >= warp_points_down; rows /= 2) {
      tile_rows = rows * window.phases(0);
      for (taps = window.taps(); taps > 0; taps = taps > 1 ? (taps + 1) / 2 : 0)
        if (fits(window)) return true;
    }
    return false;
  }

  /// Eight warps of `outputs` x 4 rows x 32 columns, with as many input channels as fit, at most eight.
  KOKKOS_FORCEINLINE_FUNCTION bool by_points(const TapWindow& window, const ChannelGroups& groups) {
    multiply = Multiply::by_points;
    outputs = groups.outputs > 1 ? lane_outputs : 1;
    tile_columns = warp_lanes * window.phases(1);
    for (int rows = team_warps * lane_rows; rows >= lane_rows; rows /= 2) {
      tile_rows = rows * window.phases(0);
      for (slab = groups.inputs < 8 ? groups.inputs : 8; slab > 0; --slab)
        if (fits(window)) return true;
    }
    return false;
  }
};

}  // namespace halogen::kernels::device
