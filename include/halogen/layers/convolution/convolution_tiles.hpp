// The tiles of a convolution's launches, and the memory that they need: packed weights, partial sums of gradients.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/kernels/convolution/tap_convolution.hpp"
#include "halogen/kernels/convolution/weight_gradient.hpp"
#include "halogen/kernels/winograd/winograd_rows.hpp"
#include "halogen/kernels/winograd/winograd_weight_gradient.hpp"
#include "halogen/layers/convolution/form.hpp"
#include "halogen/run/launch_place.hpp"

namespace halogen::detail {

/// Sizes of one pass on a rank. Tables and packed weights are in the type that is computed in.
class ConvolutionTiles {
 public:
  ConvolutionTiles(const LaunchPlace& at, Pass pass)
      : at_(at), of_(at.plan, at.launch, pass), size_(at.bytes.computed) {}

  kernels::Tiling tiling() const;
  WorkspaceUse workspace(const kernels::Tiling& tiling) const;

 private:
  kernels::Tiling cut(Interval rows, Interval columns, index_t tile_rows, index_t wide) const {
    return {rows, columns, at_.planes, tile_rows, std::max(wide, index_t{1})};
  }
  /// Tiles of device teams; sizes are the kernels' (kernels/device).
  kernels::Tiling on_device() const;
  /// Rings hold one group; where they are small, more rows share what they read twice.
  kernels::Tiling of_taps() const;
  kernels::Tiling of_winograd() const;

  kernels::ChannelGroups groups() const {
    if (of_.by_taps()) return of_.channel_groups(at_.plan.graph);
    return {1, of_.outputs, of_.inputs};
  }
  int taps() const { return of_.node.window[1].kernel * of_.node.window[2].kernel; }
  index_t packed_values() const;
  int blocks(const kernels::Tiling& tiling) const;
  /// Of one block of a weight gradient: weights, then a sum for each of their first channels or of the outputs.
  index_t block_values() const {
    const ParameterShape& weight = at_.plan.graph.parameters[of_.node.parameter];
    return weight.count + std::max(weight.shape[0], of_.node.channels);
  }
  /// Of one tile of an input gradient that sums the weights' as well.
  index_t beside_values() const { return index_t{of_.inputs} * of_.outputs * taps() + of_.node.channels; }

  const LaunchPlace& at_;
  Convolution of_;
  std::size_t size_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE kernels::Tiling ConvolutionTiles::tiling() const {
  if constexpr (TileSizes::on_device) return on_device();
  if (of_.by_taps()) return of_taps();
  if (of_.winograd() > 0) return of_winograd();
  const index_t wide = at_.columns.size();
  return cut(at_.rows, at_.columns, TileSizes::rows,
             of_.pass == Pass::weight_gradient
                 ? kernels::weight_gradient_tile_columns(of_.shape(), of_.inputs, of_.outputs, wide, size_)
                 : kernels::convolution_tile_columns(of_.shape(), of_.inputs, wide, size_));
}

HALOGEN_INLINE kernels::Tiling ConvolutionTiles::of_winograd() const {
  const int tile = winograd_tile(of_.winograd()), inputs = of_.inputs, outputs = of_.outputs;
  const index_t wide = at_.columns.size();
  if (of_.pass == Pass::weight_gradient)  // holds rows of both
    return {at_.rows, at_.columns, at_.planes, kernels::winograd_tile_rows,
            kernels::winograd_tile_columns(tile, inputs + outputs, kernels::winograd_gradient_group, wide, size_)};
  const int held = inputs + (of_.pass == Pass::both_gradients ? outputs : 0);
  if (of_.winograd_by_rows())
    return {whole_tiles(at_.rows, tile), at_.columns, at_.planes, kernels::winograd_tile_rows,
            kernels::winograd_rows_columns(held, wide, size_)};
  const Interval whole = whole_tiles(at_.columns, tile);
  return {
      whole_tiles(at_.rows, tile), whole, at_.planes, kernels::winograd_tile_rows,
      kernels::winograd_tile_columns(tile, held, kernels::winograd_group(inputs, outputs, size_), whole.size(), size_)};
}

HALOGEN_INLINE kernels::Tiling ConvolutionTiles::of_taps() const {
  const kernels::ChannelGroups channels = groups();
  const index_t wide = at_.columns.size();
  if (of_.pass == Pass::weight_gradient)
    return cut(at_.rows, at_.columns, 2 * TileSizes::rows,
               kernels::weight_gradient_tile_columns(of_.shape(), channels.inputs, 1, wide, size_));
  const kernels::TapWindow window{of_.shape(), of_.gathers_transposed()};
  const index_t phases = window.phases(1);
  return cut(at_.rows, at_.columns, 2 * TileSizes::rows,
             phases * kernels::convolution_tile_columns(window.ring(), channels.inputs, ceil_div(wide, phases), size_));
}

HALOGEN_INLINE kernels::Tiling ConvolutionTiles::on_device() const {
  if (of_.pass == Pass::weight_gradient) {
    using Cut = kernels::device::CorrelationShape;
    return {at_.rows, at_.columns, at_.planes, Cut::tile_rows, Cut::tile_columns};
  }
  const kernels::TapWindow window{of_.shape(), of_.by_taps() && of_.gathers_transposed()};
  const kernels::device::ConvolutionShape cut(window, groups(), size_);
  return {at_.rows, at_.columns, at_.planes, cut.tile_rows, cut.tile_columns};
}

HALOGEN_INLINE WorkspaceUse ConvolutionTiles::workspace(const kernels::Tiling& tiling) const {
  WorkspaceUse use;
  if (of_.pass == Pass::weight_gradient) {
    use.blocks = blocks(tiling);
    const index_t bias = TileSizes::on_device ? TileSizes::channel_sum_blocks : TileSizes::gradient_blocks;
    use.partials =
        sizeof(double) * static_cast<std::size_t>(std::max(use.blocks * block_values(), bias * of_.node.channels));
    return use;
  }
  use.prepared = size_ * static_cast<std::size_t>(packed_values());
  if (of_.pass == Pass::both_gradients)
    use.partials = size_ * static_cast<std::size_t>(tiling.count() * beside_values());
  return use;
}

HALOGEN_INLINE int ConvolutionTiles::blocks(const kernels::Tiling& tiling) const {
  if constexpr (!TileSizes::on_device) return TileSizes::blocks(tiling);
  return kernels::device::correlation_blocks(of_.shape(), groups(), at_.bytes, tiling.count());
}

HALOGEN_INLINE index_t ConvolutionTiles::packed_values() const {
  if (of_.by_taps()) return kernels::packed_tap_size(groups(), taps());
  if (of_.winograd_by_rows()) return kernels::winograd_rows_packed_size(of_.outputs, of_.inputs, of_.winograd());
  return of_.winograd() > 0 ? kernels::winograd_packed_size(of_.outputs, of_.inputs, size_)
                            : kernels::packed_size(of_.outputs, of_.inputs, taps());
}
#endif

}  // namespace halogen::detail
