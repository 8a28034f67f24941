// What each launch needs of each stored tensor on each piece: the run-time exact intervals of the halos.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/halo/boxes.hpp"

namespace halogen {

/// Extents and cuts of one level of a planned model.
struct LevelLayout {
  Cut cut[spatial_dimensions];
  index_t extent(int d) const { return cut[d].extent(); }
  index_t points() const { return extent(0) * extent(1) * extent(2); }
};

/// Names of depth, height, width, and of what a piece has of each.
inline constexpr const char* spatial_names[spatial_dimensions] = {"depth", "height", "width"};
inline constexpr const char* spatial_points[spatial_dimensions] = {"plane", "row", "column"};

/// Dimensions of a field (N, C, D, H, W) or (N, C, H, W). The depth of the latter is called 4, a dimension that it does
/// not have and no placement names: one plane, never cut.
constexpr std::array<int, 2 + spatial_dimensions> tensor_dimensions(bool volume) {
  return volume ? std::array{0, 1, 2, 3, 4} : std::array{0, 1, 4, 2, 3};
}

/// Depth, height and width from a field's spatial cuts, with a depth of one plane where it has none.
inline LevelLayout finest_level(std::span<const Cut> space) {
  if (space.size() == 2) return {{Cut::chunk(1, 1), space[0], space[1]}};
  return {{space[0], space[1], space[2]}};
}

/// Of the first layer that leads to level l; the level's own window keeps only what makes its extents.
inline const Window& first_window_to(const Plan& plan, int l, int d) {
  for (const Node& node : plan.graph.nodes)
    if (node.level == l && node.inputs[0] >= 0 && plan.graph.nodes[node.inputs[0]].level == plan.graph.levels[l].parent)
      return node.window[d];
  return plan.graph.levels[l].window[d];
}

/// The cut of what a window makes of a level that is cut so.
inline Cut cut_through(const Window& window, const Cut& parent, index_t extent) {
  if (window.transposed) return parent.spread(window.stride, extent);
  return window.is_pad() ? parent.padded(window.padding, extent) : parent.derived(window.stride, extent);
}

/// Whether all pieces of all levels have points where the input is cut so along d.
inline bool fills_all_levels(const Plan& plan, int d, const Cut& input) {
  std::vector<Cut> cuts{input};
  for (int l = 1; l < plan.graph.levels.size(); ++l) {
    const Level& level = plan.graph.levels[l];
    const Cut& parent = cuts[static_cast<std::size_t>(level.parent)];
    const index_t extent = level.window[d].output_extent(parent.extent());
    if (extent < 1) return false;
    cuts.push_back(cut_through(level.window[d], parent, extent));
  }
  return std::ranges::all_of(cuts, [](const Cut& cut) { return cut.first_empty_piece() < 0; });
}

/// "cut the height with Cut::balanced(9, 4), ", or by sizes that keep level l balanced, where that fills all pieces.
inline std::string cut_that_fits(const Plan& plan, int d, const Cut& input, int l, index_t coarse_extent) {
  const int parts = input.parts();
  const std::string cut = "cut the " + std::string(spatial_names[d]) + " with Cut::";
  if (fills_all_levels(plan, d, Cut::balanced(input.extent(), parts)))
    return cut + "balanced(" + std::to_string(input.extent()) + ", " + std::to_string(parts) + "), ";
  index_t stride = 1;
  for (; l > 0; l = plan.graph.levels[l].parent)
    if (!plan.graph.levels[l].window[d].transposed) stride *= plan.graph.levels[l].window[d].stride;
  std::vector<index_t> sizes;
  index_t begin = 0;
  for (int p = 1; p <= parts; ++p) {
    const index_t end = p == parts ? input.extent() : stride * balanced_offset(coarse_extent, parts, p);
    sizes.push_back(end - begin);
    begin = end;
  }
  if (parts > 16 || std::ranges::min(sizes) < 1 || !fills_all_levels(plan, d, Cut::of_sizes(sizes))) return "";
  std::string list;
  for (const index_t size : sizes) list += (list.empty() ? "" : ", ") + std::to_string(size);
  return cut + "of_sizes({" + list + "}), ";
}

/// Levels of a plan over an input with the given cuts of height and width, or of depth too. Throws CollectiveError,
/// alike on all ranks, where a window does not fit or a piece of some level is left without a row or column.
std::vector<LevelLayout> layout_levels(const Plan& plan, std::span<const Cut> space, const std::string& mesh_text);
#if HALOGEN_BODIES
HALOGEN_INLINE std::vector<LevelLayout> layout_levels(const Plan& plan, std::span<const Cut> space,
                                                      const std::string& mesh_text) {
  std::vector<LevelLayout> levels{finest_level(space)};
  const int first = spatial_dimensions - static_cast<int>(space.size());
  for (int l = 0; l < plan.graph.levels.size(); ++l) {
    const Level& level = plan.graph.levels[l];
    if (l > 0) {
      LevelLayout layout;
      const LevelLayout& parent = levels[static_cast<std::size_t>(level.parent)];
      for (int d = 0; d < spatial_dimensions; ++d) {
        const Window& window = level.window[d];
        const index_t extent = window.output_extent(parent.extent(d));
        if (extent < 1) {
          const Window& of_layer = first_window_to(plan, l, d);
          throw CollectiveError("a window of " + std::to_string(of_layer.footprint()) + " points does not fit a " +
                                spatial_names[d] + " of " + std::to_string(parent.extent(d)) + " with padding " +
                                std::to_string(of_layer.padding) + ": use a larger field or fewer levels");
        }
        layout.cut[d] = cut_through(window, parent.cut[d], extent);
      }
      levels.push_back(layout);
    }
    const LevelLayout& layout = levels.back();
    for (int d = first; d < spatial_dimensions; ++d) {
      const int empty = layout.cut[d].first_empty_piece();
      if (empty < 0) continue;
      std::string extents;
      for (int e = first; e < spatial_dimensions; ++e)
        extents += (e > first ? " x " : "") + std::to_string(layout.extent(e));
      throw CollectiveError("mesh " + mesh_text + " leaves piece " + std::to_string(empty) + " of " +
                            std::to_string(layout.cut[d].parts()) + " without any " + spatial_points[d] + " on level " +
                            std::to_string(l) + " of " + extents + ": " +
                            cut_that_fits(plan, d, levels.front().cut[d], l, layout.extent(d)) + "use fewer ranks in " +
                            spatial_names[d] + ", a larger field, or fewer levels");
    }
  }
  for (const Node& node : plan.graph.nodes)
    for (int d = 0; d < spatial_dimensions; ++d) {
      const Window& window = node.window[d];
      if (window.pads != Edge::reflect) continue;
      const index_t extent = levels[static_cast<std::size_t>(plan.graph.nodes[node.inputs[0]].level)].extent(d);
      if (window.padding >= extent)
        throw CollectiveError("layer " + std::to_string(node.layer) + " reflects " + std::to_string(window.padding) +
                              " points at the ends of a " + spatial_names[d] + " of " + std::to_string(extent) +
                              ": a mirror image has at most " + std::to_string(extent - 1) +
                              "; pad less, or use ReplicateEdge");
    }
  return levels;
}
#endif

/// Resampling from a stored tensor's level to a reader's, in dimension d.
inline Resample resample(const std::vector<LevelLayout>& levels, const Source& source, int from, int to, int d) {
  return {levels[static_cast<std::size_t>(from)].extent(d), levels[static_cast<std::size_t>(to)].extent(d),
          source.linear, source.pads[d]};
}

/// Depth, height and width of one stored tensor.
using SpaceNeeds = HaloNeeds<spatial_dimensions>;

/// Level of the points that a launch computes, one by one.
inline int output_level(const Plan& plan, const Launch& launch) {
  const Node& node = plan.node_of(launch);
  if (launch.kind == LaunchKind::conv_weight_gradient)
    return node.window[0].transposed ? launch.input.level : node.level;
  return plan.tensors[launch.output].level;
}

/// Which points of stored tensors a launch reads for the points that it computes, one dimension at a time.
class LaunchReads {
 public:
  LaunchReads(const Plan& plan, const std::vector<LevelLayout>& levels) : plan_(plan), levels_(levels) {}

  /// Calls need(tensor, interval) for each stored tensor that is read through a window, a resampling or their adjoints:
  /// what is read point by point lies on the rank's own piece.
  template <class Need>
  void for_each(const Launch& launch, int d, const Interval& computed, Need need) const;

 private:
  index_t extent(int level, int d) const { return levels_[static_cast<std::size_t>(level)].extent(d); }

  static Interval inside(Interval interval, index_t extent, bool periodic) {
    return periodic ? interval : intersect(interval, {0, extent});
  }

  template <class Need>
  void input(const Launch& launch, int d, const Interval& interval, Need& need) const {
    for (const Source& source : launch.input.sources) input_of(launch, source, d, interval, need);
  }

  template <class Need>
  void input_of(const Launch& launch, const Source& source, int d, const Interval& interval, Need& need) const;

  template <class Need>
  void gradient(const Launch& launch, const Interval& interval, Need& need) const;

  const Plan& plan_;
  const std::vector<LevelLayout>& levels_;
};

template <class Need>
void LaunchReads::for_each(const Launch& launch, int d, const Interval& computed, Need need) const {
  const Node& node = plan_.node_of(launch);
  const Window& window = node.window[d];
  const index_t input_extent = extent(launch.input.level, d), output_extent = extent(node.level, d);
  const index_t tile = plan_.grid(launch, d);
  switch (launch.kind) {
    case LaunchKind::conv_forward:
      input(launch, d, inside(window.input_of_tiles(computed, tile, output_extent), input_extent, window.periodic),
            need);
      break;
    case LaunchKind::conv_weight_gradient:
      if (window.transposed) {  // summed over the inputs
        gradient(launch, inside(window.output_of(computed), output_extent, window.periodic), need);
        input(launch, d, computed, need);  // its own points, which may be resampled
        break;
      }
      [[fallthrough]];
    case LaunchKind::max_pool_forward:
    case LaunchKind::avg_pool_forward:
      input(launch, d, inside(window.input_of(computed), input_extent, window.periodic), need);
      break;
    case LaunchKind::conv_input_gradient:  // goes on at the other end as its reader does
      gradient(launch,
               inside(window.output_of_tiles(computed, tile, input_extent), output_extent,
                      window.periodic && window.commensurate(input_extent, output_extent)),
               need);
      if (launch.weights) input_of(launch, launch.input.sources[launch.source], d, computed, need);
      break;
    case LaunchKind::avg_pool_backward:
      gradient(launch, inside(window.output_of(computed), output_extent, false), need);
      break;
    case LaunchKind::max_pool_backward: {
      const Interval outputs = inside(window.output_of(computed), output_extent, false);
      gradient(launch, outputs, need);
      input(launch, d, inside(window.input_of(outputs), input_extent, false), need);
      break;
    }
    case LaunchKind::upsample_backward: {
      const int coarse = plan_.tensors[launch.output].level;
      const Source& source = launch.input.sources[launch.source];
      gradient(launch, resample(levels_, source, coarse, launch.input.level, d).output_of(computed), need);
      break;
    }
    case LaunchKind::add:
    case LaunchKind::softmax_forward:
    case LaunchKind::store:
      input(launch, d, computed, need);
      break;
    case LaunchKind::store_backward:
    case LaunchKind::softmax_backward:
    case LaunchKind::gradient_store:
    case LaunchKind::moments:
    case LaunchKind::loss:
      break;
  }
}

template <class Need>
void LaunchReads::input_of(const Launch& launch, const Source& source, int d, const Interval& interval,
                           Need& need) const {
  const int own = plan_.tensors[source.tensor].level;
  need(source.tensor,
       source.resampled ? resample(levels_, source, own, launch.input.level, d).input_of(interval) : interval);
}

template <class Need>
void LaunchReads::gradient(const Launch& launch, const Interval& interval, Need& need) const {
  const Activation& activation = plan_.activations[launch.reads];
  need(activation.gradient, interval);
  if (activation.reads_value()) need(activation.tensor, interval);
}

/// For every stored tensor the hull of what its readers, forward and backward, need beside the owned points.
class SpaceNeedsOf {
 public:
  SpaceNeedsOf(const Plan& plan, const std::vector<LevelLayout>& levels);

  const std::vector<SpaceNeeds>& spaces() const { return spaces_; }

 private:
  const LevelLayout& level(int l) const { return levels_[static_cast<std::size_t>(l)]; }

  void add(const Launch& launch, int d, int p);

  /// Gathering a gradient through a periodic window shifts outputs by whole fields; that needs extent = stride *
  /// outputs.
  static void check_commensurate(const Node& node, const Window& window, index_t input, index_t output);

  /// PyTorch's condition on output_size, which an extent taken from a skip may miss.
  static void check_transposed(const Node& node, Window window, int d, index_t input, index_t output);

  const Plan& plan_;
  const std::vector<LevelLayout>& levels_;
  std::vector<SpaceNeeds> spaces_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE SpaceNeedsOf::SpaceNeedsOf(const Plan& plan, const std::vector<LevelLayout>& levels)
    : plan_(plan), levels_(levels) {
  for (const StoredTensor& tensor : plan.tensors) {
    SpaceNeeds needs;
    for (std::size_t d = 0; d < spatial_dimensions; ++d) {
      needs.cut[d] = level(tensor.level).cut[d];
      for (int p = 0; p < needs.cut[d].parts(); ++p) needs.needed[d].push_back(needs.cut[d].piece(p));
    }
    spaces_.push_back(needs);
  }
  for (const Launch& launch : plan.launches)
    for (int d = 0; d < spatial_dimensions; ++d)
      for (int p = 0; p < level(0).cut[d].parts(); ++p) add(launch, d, p);
}

HALOGEN_INLINE void SpaceNeedsOf::add(const Launch& launch, int d, int p) {
  const Node& node = plan_.node_of(launch);
  const index_t input = level(launch.input.level).extent(d), output = level(node.level).extent(d);
  if (launch.kind == LaunchKind::conv_input_gradient) check_commensurate(node, node.window[d], input, output);
  if (launch.kind == LaunchKind::conv_forward && node.window[d].transposed)
    check_transposed(node, node.window[d], d, input, output);
  const Interval computed = level(output_level(plan_, launch)).cut[d].piece(p);
  LaunchReads(plan_, levels_).for_each(launch, d, computed, [&](int tensor, const Interval& interval) {
    Interval& hull_so_far =
        spaces_[static_cast<std::size_t>(tensor)].needed[static_cast<std::size_t>(d)][static_cast<std::size_t>(p)];
    hull_so_far = hull(hull_so_far, interval);
  });
}

HALOGEN_INLINE void SpaceNeedsOf::check_commensurate(const Node& node, const Window& window, index_t input,
                                                     index_t output) {
  if (!window.periodic || window.commensurate(input, output)) return;
  if (window.padding == 0 && !window.transposed) return;  // no window crosses the end: nothing is periodic about it
  throw CollectiveError(
      "layer " + std::to_string(node.layer) + " (" + node.operation->name + ") has a periodic window of stride " +
      std::to_string(window.stride) + " over " + std::to_string(input) + " points with " + std::to_string(output) +
      " outputs; " +
      (window.transposed ? "it needs outputs = stride * extent" : "its gradient needs extent = stride * outputs") +
      ": pad to keep the extent, or use Zero");
}

HALOGEN_INLINE void SpaceNeedsOf::check_transposed(const Node& node, Window window, int d, index_t input,
                                                   index_t output) {
  check_commensurate(node, window, input, output);
  window.output_padding = 0;
  const index_t least = window.output_extent(input), room = std::max(window.stride, window.dilation);
  if (output >= least && output < least + room) return;
  throw CollectiveError("layer " + std::to_string(node.layer) + " (" + node.operation->name + ") makes " +
                        std::to_string(least) + " to " + std::to_string(least + room - 1) + " of " +
                        std::to_string(input) + " " + spatial_points[d] + "s, the skip has " + std::to_string(output) +
                        ": give it the stride of what led down");
}
#endif

}  // namespace halogen
