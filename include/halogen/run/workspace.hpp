// What launches need beside stored tensors: tilings, packed weights, partial sums, norm tables. Sizes and offsets.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/run/convolution_form.hpp"
#include "halogen/run/needs.hpp"
#include "halogen/kernels/tap_convolution.hpp"
#include "halogen/kernels/weight_gradient.hpp"
#include "halogen/kernels/winograd_rows.hpp"
#include "halogen/kernels/winograd_weight_gradient.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// Offsets in bytes behind the stored tensors of the arena; one set shared by all launches, tables one per norm.
class Workspace {
 public:
  static constexpr index_t tile_rows = 8;
  static constexpr int gradient_blocks =
      8;  ///< partial weight gradients, however many threads: sums do not depend on them

  Workspace() = default;

  template <class Owned>
  Workspace(const Plan& plan, Owned owned, int samples, ValueBytes value_bytes);

  const kernels::Tiling& tiling(int launch) const { return tilings_[static_cast<std::size_t>(launch)]; }

  /// Blocks of tiles whose sums a weight gradient adds in the end: never more than tiles.
  int blocks(const Plan& plan, int launch) const;
  /// The same where only the points of `tiles` are summed.
  static int blocks(const kernels::Tiling& tiles) {
    return static_cast<int>(std::min<index_t>(on_device ? channel_sum_blocks : gradient_blocks, tiles.count()));
  }
  /// Tiles of a sum over all points of a field.
  static kernels::Tiling summed(Interval rows, Interval columns, int planes);
  std::size_t table(int norm) const { return tables_[static_cast<std::size_t>(norm)]; }
  std::size_t vjp_table(int activation) const { return vjp_tables_[static_cast<std::size_t>(activation)]; }
  std::size_t bytes() const { return bytes_; }

  std::size_t packed = 0, row_sums = 0, gradient_partials = 0, loss_partials = 0;  ///< offsets

 private:
  static constexpr bool on_device = kernels::device::runs_on<execution_space>;
  static constexpr index_t device_tile = 32;                       ///< rows and columns, where points are summed
  static constexpr index_t device_rows = 8, device_columns = 128;  ///< where rows are computed from rows
  static constexpr int channel_sum_blocks = 264;

  std::size_t take(std::size_t bytes);

  index_t packed_size(const Plan& plan, const Launch& launch, int taps) const;

  /// Of one block: weights, then a sum for each of their first channels or of the outputs.
  static index_t weight_gradient_values(const Graph& graph, const Node& node);

  /// Of one tile of an input gradient, where it sums the weights' as well.
  static index_t beside_values(const Plan& plan, const Launch& launch);

  static kernels::ChannelGroups groups_of(const Plan& plan, const Launch& launch);

  index_t gradient_values(const Plan& plan, const Launch& launch, int i) const;

  /// Tiles of device teams; sizes are the kernels' (kernels/device).
  kernels::Tiling device_tiling(const Plan& plan, const Launch& launch, Interval rows, Interval columns,
                                int planes) const;

  template <class Owned>
  kernels::Tiling make_tiling(const Plan& plan, const Launch& launch, Owned owned) const;

  /// Rings hold one group; where they are small, more rows share what they read twice.
  kernels::Tiling tap_tiling(const Plan& plan, const Launch& launch, Interval rows, Interval columns, int planes) const;

  int samples_ = 0;
  ValueBytes value_bytes_;
  std::size_t value_size_ = 0;  ///< of what is computed: scratch, tables, packed weights
  std::size_t bytes_ = 0;
  std::vector<kernels::Tiling> tilings_;
  std::vector<std::size_t> tables_, vjp_tables_;
};

template <class Owned>
Workspace::Workspace(const Plan& plan, Owned owned, int samples, ValueBytes value_bytes)
    : samples_(samples), value_bytes_(value_bytes), value_size_(value_bytes.computed) {
  for (const Launch& launch : plan.launches) tilings_.push_back(make_tiling(plan, launch, owned));
  std::size_t packed_values = 0, sums = 0, gradients = 0, loss = 0;
  for (int i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    const Node& node = plan.node_of(launch);
    const int taps = node.window[1].kernel * node.window[2].kernel;
    const std::size_t tiles = static_cast<std::size_t>(tiling(i).count());
    if (launch.kind == LaunchKind::conv_forward || launch.kind == LaunchKind::conv_input_gradient)
      packed_values = std::max<std::size_t>(packed_values, packed_size(plan, launch, taps));
    if (launch.kind == LaunchKind::conv_weight_gradient)
      gradients = std::max(gradients, sizeof(double) * static_cast<std::size_t>(gradient_values(plan, launch, i)));
    if (launch.weights)
      gradients = std::max(gradients, value_size_ * tiles * static_cast<std::size_t>(beside_values(plan, launch)));
    if (launch.kind == LaunchKind::loss) loss = tiles;
    if (launch.statistics >= 0 || launch.sums >= 0 || launch.mask >= 0)
      sums = std::max(sums, tiles * static_cast<std::size_t>(plan.tensors[launch.output].channels));
  }
  packed = take(packed_values * value_size_);
  row_sums = take(sums * sizeof(kernels::RowSums));
  gradient_partials = take(gradients);
  loss_partials = take(loss * sizeof(double));
  for (const Norm& norm : plan.norms) {
    const std::size_t entries = static_cast<std::size_t>(samples) * norm.channels;
    tables_.push_back(take(entries * (2 * sizeof(double) + 2 * value_size_)));
  }
  for (const Activation& activation : plan.activations) {
    const std::size_t entries =
        activation.norm < 0 ? 0 : static_cast<std::size_t>(samples) * plan.norms[activation.norm].channels;
    vjp_tables_.push_back(take(entries * 2 * value_size_));
  }
}

template <class Owned>
kernels::Tiling Workspace::make_tiling(const Plan& plan, const Launch& launch, Owned owned) const {
  const int level = output_level(plan, launch);
  const Interval rows = owned(level, 1), columns = owned(level, 2);
  const int planes = samples_ * static_cast<int>(owned(level, 0).size());
  const Node& node = plan.node_of(launch);
  const kernels::WindowShape shape = window_shape(node, launch.kind);
  index_t wide = columns.size();
  if constexpr (on_device) return device_tiling(plan, launch, rows, columns, planes);
  if (by_taps(node, launch.kind)) return tap_tiling(plan, launch, rows, columns, planes);
  if (const int window = plan.winograd(launch); window > 0) {
    const int tile = winograd_tile(window);
    const int inputs = plan.channels_in(launch), outputs = plan.channels_out(launch);
    if (launch.kind == LaunchKind::conv_weight_gradient) {  // holds rows of both
      wide =
          kernels::winograd_tile_columns(tile, inputs + outputs, kernels::winograd_gradient_group, wide, value_size_);
      return {rows, columns, planes, kernels::winograd_tile_rows, wide};
    }
    if (plan.winograd_by_rows(launch))
      return {whole_tiles(rows, tile), columns, planes, kernels::winograd_tile_rows,
              kernels::winograd_rows_columns(inputs + (launch.weights ? outputs : 0), wide, value_size_)};
    const Interval whole = whole_tiles(columns, tile);
    wide = kernels::winograd_tile_columns(tile, inputs + (launch.weights ? outputs : 0),
                                          kernels::winograd_group(inputs, outputs, value_size_), whole.size(),
                                          value_size_);
    return {whole_tiles(rows, tile), whole, planes, kernels::winograd_tile_rows, wide};
  }
  if (launch.kind == LaunchKind::conv_forward || launch.kind == LaunchKind::conv_input_gradient)
    wide = kernels::convolution_tile_columns(shape, plan.channels_in(launch), wide, value_size_);
  if (launch.kind == LaunchKind::conv_weight_gradient)
    wide = kernels::weight_gradient_tile_columns(shape, plan.channels_in(launch), plan.channels_out(launch), wide,
                                                 value_size_);
  return {rows, columns, planes, tile_rows, std::max(wide, index_t{1})};
}

#if HALOGEN_BODIES
HALOGEN_INLINE int Workspace::blocks(const Plan& plan, int launch) const {
  const kernels::Tiling& tiles = tiling(launch);
  const Launch& what = plan.launches[launch];
  if constexpr (!on_device) return static_cast<int>(std::min<index_t>(gradient_blocks, tiles.count()));
  return kernels::device::correlation_blocks(window_shape(plan.node_of(what), what.kind), groups_of(plan, what),
                                             value_bytes_, tiles.count());
}

HALOGEN_INLINE kernels::Tiling Workspace::summed(Interval rows, Interval columns, int planes) {
  if constexpr (on_device) return {rows, columns, planes, device_tile, device_tile};
  return {rows, columns, planes, tile_rows, std::max(columns.size(), index_t{1})};
}

HALOGEN_INLINE std::size_t Workspace::take(std::size_t bytes) {
  const std::size_t offset = bytes_;
  bytes_ += (bytes + 63) / 64 * 64;
  return offset;
}

HALOGEN_INLINE index_t Workspace::packed_size(const Plan& plan, const Launch& launch, int taps) const {
  const int inputs = plan.channels_in(launch), outputs = plan.channels_out(launch);
  if (by_taps(plan.node_of(launch), launch.kind))
    return kernels::packed_tap_size(channel_groups(plan.graph, plan.node_of(launch), launch.kind), taps);
  if (plan.winograd_by_rows(launch)) return kernels::winograd_rows_packed_size(outputs, inputs, plan.winograd(launch));
  return plan.winograd(launch) > 0 ? kernels::winograd_packed_size(outputs, inputs, value_size_)
                                   : kernels::packed_size(outputs, inputs, taps);
}

HALOGEN_INLINE index_t Workspace::weight_gradient_values(const Graph& graph, const Node& node) {
  const ParameterShape& weight = graph.parameters[node.parameter];
  return weight.count + std::max(weight.shape[0], node.channels);
}

HALOGEN_INLINE index_t Workspace::beside_values(const Plan& plan, const Launch& launch) {
  const Node& node = plan.node_of(launch);
  const int taps = node.window[1].kernel * node.window[2].kernel;
  return index_t{plan.channels_in(launch)} * plan.channels_out(launch) * taps + node.channels;
}

HALOGEN_INLINE kernels::ChannelGroups Workspace::groups_of(const Plan& plan, const Launch& launch) {
  if (by_taps(plan.node_of(launch), launch.kind)) return channel_groups(plan.graph, plan.node_of(launch), launch.kind);
  return {1, plan.channels_out(launch), plan.channels_in(launch)};
}

HALOGEN_INLINE index_t Workspace::gradient_values(const Plan& plan, const Launch& launch, int i) const {
  const Node& node = plan.node_of(launch);
  return std::max(blocks(plan, i) * weight_gradient_values(plan.graph, node),
                  index_t{on_device ? channel_sum_blocks : gradient_blocks} * node.channels);
}

HALOGEN_INLINE kernels::Tiling Workspace::device_tiling(const Plan& plan, const Launch& launch, Interval rows,
                                                        Interval columns, int planes) const {
  const Node& node = plan.node_of(launch);
  if (launch.kind == LaunchKind::conv_weight_gradient) {
    using Cut = kernels::device::CorrelationShape;
    return {rows, columns, planes, Cut::tile_rows, Cut::tile_columns};
  }
  if (launch.kind != LaunchKind::conv_forward && launch.kind != LaunchKind::conv_input_gradient)
    return {rows, columns, planes, device_rows, device_columns};
  const kernels::TapWindow window{window_shape(node, launch.kind),
                                  by_taps(node, launch.kind) && gathers_transposed(node, launch.kind)};
  const kernels::device::ConvolutionShape cut(window, groups_of(plan, launch), value_size_);
  return {rows, columns, planes, cut.tile_rows, cut.tile_columns};
}

HALOGEN_INLINE kernels::Tiling Workspace::tap_tiling(const Plan& plan, const Launch& launch, Interval rows,
                                                     Interval columns, int planes) const {
  const Node& node = plan.node_of(launch);
  const kernels::ChannelGroups groups = channel_groups(plan.graph, node, launch.kind);
  const kernels::WindowShape shape = window_shape(node, launch.kind);
  index_t wide = columns.size();
  if (launch.kind == LaunchKind::conv_weight_gradient) {
    wide = kernels::weight_gradient_tile_columns(shape, groups.inputs, 1, wide, value_size_);
    return {rows, columns, planes, 2 * tile_rows, std::max(wide, index_t{1})};
  }
  const kernels::TapWindow window{shape, gathers_transposed(node, launch.kind)};
  const index_t phases = window.phases(1);
  wide = phases * kernels::convolution_tile_columns(window.ring(), groups.inputs, ceil_div(wide, phases), value_size_);
  return {rows, columns, planes, 2 * tile_rows, std::max(wide, index_t{1})};
}
#endif

}  // namespace halogen
