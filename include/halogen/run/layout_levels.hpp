// The levels of a plan for an input with given cuts. A window that does not fit, and a piece without points, are
// refused by a sentence that says which cut would fit.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/run/level_layout.hpp"

namespace halogen {

/// "layer 3 (add)": as sentences name a layer.
inline std::string layer_text(const Node& node) {
  return "layer " + std::to_string(node.layer) + " (" + node.operation->name + ")";
}
/// The first layer whose window leads to level l, or null. The level's own window has only what decides its extents.
inline const Node* first_layer_to(const Plan& plan, int l) {
  for (const Node& node : plan.graph.nodes)
    if (node.level == l && node.inputs[0] >= 0 && plan.graph.nodes[node.inputs[0]].level == plan.graph.levels[l].parent)
      return &node;
  return nullptr;
}

/// The cut of a window's output, if `parent` is the cut of its input.
inline Cut cut_through(const Window& window, const Cut& parent, index_t extent) {
  if (window.outputs > 0) return parent.resampled(extent);
  if (window.transposed) return parent.spread(window.stride, extent);
  return window.is_pad() ? parent.padded(window.padding, extent) : parent.derived(window.stride, extent);
}

/// Whether all pieces of all levels have points if `input` is the input's cut along d.
inline bool fills_all_levels(const Plan& plan, int d, const Cut& input) {
  std::vector<Cut> cuts{input};
  for (int l = 1; l < plan.graph.levels.size(); ++l) {
    const Level& level = plan.graph.levels[l];
    const Cut& parent = cuts[static_cast<std::size_t>(level.parent)];
    if (level.whole) {
      cuts.push_back(Cut::chunk(1, 1));
      continue;
    }
    const index_t extent = level.window[d].output_extent(parent.extent());
    if (extent < 1) return false;
    cuts.push_back(cut_through(level.window[d], parent, extent));
  }
  return std::ranges::all_of(cuts, [](const Cut& cut) { return cut.first_empty_piece() < 0; });
}

namespace detail {
/// "cut the height with Cut::balanced(9, 4), ", or with sizes that keep level l balanced. Empty if that does not fill
/// all pieces either.
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
}  // namespace detail

/// The levels of a plan for an input with these spatial cuts. Throws the same CollectiveError on all ranks if a window
/// does not fit, or if a piece of some level has no plane, row or column.
std::vector<LevelLayout> layout_levels(const Plan& plan, std::span<const Cut> space, const std::string& mesh_text);
#if HALOGEN_BODIES
namespace detail {

/// Level l as its window makes it of its parent. Throws where the window does not fit the parent.
HALOGEN_INLINE LevelLayout derived_level(const Plan& plan, int l, const LevelLayout& parent) {
  const Level& level = plan.graph.levels[l];
  LevelLayout layout;
  layout.whole = level.whole;
  for (int d = 0; d < spatial_dimensions; ++d) {
    const Window& window = level.window[d];
    const index_t extent = window.output_extent(parent.extent(d));
    if (level.whole) {
      layout.cut[d] = Cut::chunk(1, 1);
      continue;
    }
    if (extent < 1) {
      const Node* const layer = first_layer_to(plan, l);
      const Window& of_layer = layer != nullptr ? layer->window[d] : window;
      throw CollectiveError((layer != nullptr ? layer_text(*layer) + ": a window of " : "a window of ") +
                            std::to_string(of_layer.span()) + " points does not fit a " + spatial_names[d] + " of " +
                            std::to_string(parent.extent(d)) + " with padding " + std::to_string(of_layer.padding) +
                            ": use a larger field, or a model that makes it less coarse before this layer");
    }
    layout.cut[d] = cut_through(window, parent.cut[d], extent);
  }
  return layout;
}

/// Throws where a piece of level l has no point of some dimension, from dimension `first` on.
HALOGEN_INLINE void require_filled_pieces(const Plan& plan, const std::vector<LevelLayout>& levels, int l, int first,
                                          const std::string& mesh_text) {
  const LevelLayout& layout = levels[static_cast<std::size_t>(l)];
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

/// Throws where a layer pads with more images of its input than the input has points to repeat or to reflect.
HALOGEN_INLINE void require_images(const Plan& plan, const std::vector<LevelLayout>& levels) {
  for (const Node& node : plan.graph.nodes)
    for (int d = 0; d < spatial_dimensions; ++d) {
      const Window& window = node.window[d];
      if (window.pads != Edge::reflect && window.pads != Edge::periodic) continue;
      const bool mirrors = window.pads == Edge::reflect;
      const index_t extent = levels[static_cast<std::size_t>(plan.graph.nodes[node.inputs[0]].level)].extent(d);
      const int images = window.padding + std::max(0, window.more_padding);
      if (images > extent - mirrors)
        throw CollectiveError(layer_text(node) + (mirrors ? " reflects " : " repeats ") + std::to_string(images) +
                              " points at the ends of a " + spatial_names[d] + " of " + std::to_string(extent) +
                              (mirrors ? ": a mirror image" : ": the other end") + " has at most " +
                              std::to_string(extent - mirrors) + "; pad less, or use ReplicateEdge");
    }
}

}  // namespace detail

HALOGEN_INLINE std::vector<LevelLayout> layout_levels(const Plan& plan, std::span<const Cut> space,
                                                      const std::string& mesh_text) {
  std::vector<LevelLayout> levels{finest_level(space)};
  const int first = spatial_dimensions - static_cast<int>(space.size());
  for (int l = 0; l < plan.graph.levels.size(); ++l) {
    if (l > 0)
      levels.push_back(detail::derived_level(plan, l, levels[static_cast<std::size_t>(plan.graph.levels[l].parent)]));
    detail::require_filled_pieces(plan, levels, l, first, mesh_text);
  }
  detail::require_images(plan, levels);
  return levels;
}
#endif

}  // namespace halogen
