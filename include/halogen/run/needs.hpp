// The points of each stored tensor that each launch needs on each piece. They are exact intervals, computed at run
// time, and give the halos.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/halo/boxes.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/stencil/neighborhood.hpp"
#include "halogen/stencil/sampling.hpp"

namespace halogen {

/// Extents and cuts of one level of a planned model.
struct LevelLayout {
  Cut cut[spatial_dimensions];
  bool whole = false;  ///< Level::whole: one point, which every piece has
  index_t extent(int d) const { return cut[d].extent(); }
  Interval piece(int d, int part) const { return cut[d].piece(whole ? 0 : part); }
  index_t points() const { return extent(0) * extent(1) * extent(2); }
};

/// Names of depth, height and width, and of the points of a piece along each.
inline constexpr const char* spatial_names[spatial_dimensions] = {"depth", "height", "width"};
inline constexpr const char* spatial_points[spatial_dimensions] = {"plane", "row", "column"};

/// The tensor dimensions of a field (N, C, D, H, W), (N, C, H, W) or (N, C, W). A depth or height that the field does
/// not have gets a number that the field does not have either. No placement names it, so it is one plane or one row and
/// never cut.
constexpr std::array<int, 2 + spatial_dimensions> tensor_dimensions(std::size_t rank) {
  if (rank == 3) return {0, 1, 4, 3, 2};
  return rank == 5 ? std::array{0, 1, 2, 3, 4} : std::array{0, 1, 4, 2, 3};
}

/// Depth, height and width from a field's spatial cuts, with one plane and one row if the field has none.
inline LevelLayout finest_level(std::span<const Cut> space) {
  if (space.size() == 1) return {{Cut::chunk(1, 1), Cut::chunk(1, 1), space[0]}};
  if (space.size() == 2) return {{Cut::chunk(1, 1), space[0], space[1]}};
  return {{space[0], space[1], space[2]}};
}

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
                            std::to_string(of_layer.footprint()) + " points does not fit a " + spatial_names[d] +
                            " of " + std::to_string(parent.extent(d)) + " with padding " +
                            std::to_string(of_layer.padding) +
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

/// The resampling from a stored tensor's level to a reader's level, in dimension d.
inline Resample resample(const std::vector<LevelLayout>& levels, const Source& source, int from, int to, int d) {
  return {levels[static_cast<std::size_t>(from)].extent(d), levels[static_cast<std::size_t>(to)].extent(d),
          source.linear, source.pads[d], source.more[d]};
}

/// The needs of one stored tensor in depth, height and width.
struct SpaceNeeds : HaloNeeds<spatial_dimensions> {
  int halo_from = 0;  ///< the first channel of which some piece needs more than its own points
};

namespace detail {

/// Which points of stored tensors a launch reads for the points that it computes. It works in one dimension at a time.
class LaunchReads {
 public:
  LaunchReads(const Plan& plan, const std::vector<LevelLayout>& levels) : plan_(plan), levels_(levels) {}

  /// Calls need(tensor, interval, channel) for each stored tensor that an operand of the launch is read from. Beyond
  /// the piece it reads the tensor's channels from `channel` on.
  template <class Need>
  void for_each(const Launch& launch, int d, const Interval& computed, Need need) const {
    for (const Read& operand : launch.reads) {
      if (stays_apart(launch, operand)) continue;
      const Interval read = followed(launch, operand.pattern, d, computed);
      plan_.for_each_tensor(
          launch, operand, [&](TensorId tensor) { need(tensor, read, operand.halo_from); },
          [&](const Source& source) {
            need(source.tensor, behind_resampling(source, level_seen(launch, operand), d, read), operand.halo_from);
          });
    }
  }

  /// The points that a pattern reads of a value or a gradient, before any resampling.
  Interval followed(const Launch& launch, Pattern pattern, int d, Interval computed) const;

 private:
  /// Whether the operand lies on another level, and is neither read through windows nor resampled. Its points are not
  /// those of the launch, which reads its own piece.
  bool stays_apart(const Launch& launch, const Read& operand) const {
    if (!operand.pattern.is_point()) return false;
    if (operand.role == Read::Role::tensor) return plan_.tensors[operand.tensor()].level != launch.level;
    if (operand.role == Read::Role::gradient)
      return plan_.tensors[plan_.activations[operand.gradient()].gradient].level != launch.level;
    if (operand.role == Read::Role::source) return false;
    const Value& value = plan_.values[operand.value()];
    return value.level != launch.level && std::ranges::none_of(value.sources, &Source::resampled);
  }

  Interval after(const Launch& launch, Pattern::Step step, int d, const Interval& computed) const;

  index_t extent(int level, int d) const { return levels_[static_cast<std::size_t>(level)].extent(d); }

  static Interval inside(Interval interval, index_t extent, bool periodic) {
    return periodic ? interval : intersect(interval, {0, extent});
  }

  /// The level on which the launch sees a value or a source.
  int level_seen(const Launch& launch, const Read& operand) const {
    return operand.role == Read::Role::value ? plan_.values[operand.value()].level : plan_.input_of(launch).level;
  }
  Interval behind_resampling(const Source& source, int seen, int d, const Interval& interval) const {
    if (!source.resampled) return interval;
    return resample(levels_, source, plan_.tensors[source.tensor].level, seen, d).input_of(interval);
  }

  const Plan& plan_;
  const std::vector<LevelLayout>& levels_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE Interval LaunchReads::followed(const Launch& launch, Pattern pattern, int d, Interval computed) const {
  for (int i = 0; i < Pattern::steps && pattern.step(i) != Pattern::Step::none; ++i)
    computed = after(launch, pattern.step(i), d, computed);
  return computed;
}

HALOGEN_INLINE Interval LaunchReads::after(const Launch& launch, Pattern::Step step, int d,
                                           const Interval& computed) const {
  const Node& node = plan_.node_of(launch);
  const Window& window = node.window[d];
  const int seen = plan_.input_of(launch).level;
  const index_t input = extent(seen, d), output = extent(node.level, d);
  if (step == Pattern::Step::vector) return {0, 1};
  if (step == Pattern::Step::resampling) {
    const Source& source = plan_.source_of(launch);
    return resample(levels_, source, plan_.tensors[source.tensor].level, seen, d).output_of(computed);
  }
  const auto through = [&](const auto& rule) {
    return step == Pattern::Step::window ? rule.input_of(computed) : rule.output_of(computed);
  };
  if (step != Pattern::Step::window && step != Pattern::Step::adjoint) return computed;
  if (window.sampling != Sampling::none) return through(Sampled(window, input, output));
  if (window.ends != WindowEnds::passed) return through(Neighborhood(window, input));
  const index_t tile = launch.grid[d];  // whole tiles are inside the field; single points may be images beyond its ends
  if (step == Pattern::Step::window)
    return inside(tile > 1 ? window.input_of_tiles(computed, tile, output) : window.input_of(computed), input,
                  window.periodic);
  return inside(tile > 1 ? window.output_of_tiles(computed, tile, input) : window.output_of(computed), output,
                window.periodic);
}
#endif

/// For every stored tensor, the hull of its owned points and of all points that its readers need, forward and backward.
class SpaceNeedsOf {
 public:
  SpaceNeedsOf(const Plan& plan, const std::vector<LevelLayout>& levels);

  const std::vector<SpaceNeeds>& spaces() const { return spaces_; }

 private:
  const LevelLayout& level(int l) const { return levels_[static_cast<std::size_t>(l)]; }

  void add(const Launch& launch, int d, int p);

  const Plan& plan_;
  const std::vector<LevelLayout>& levels_;
  std::vector<SpaceNeeds> spaces_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE SpaceNeedsOf::SpaceNeedsOf(const Plan& plan, const std::vector<LevelLayout>& levels)
    : plan_(plan), levels_(levels) {
  for (const StoredTensor& tensor : plan.tensors) {
    SpaceNeeds needs;
    needs.halo_from = tensor.channels;
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
  if (launch.kind->check != nullptr)
    launch.kind->check(node, d, level(plan_.input_of(launch).level).extent(d), level(node.level).extent(d));
  const Interval computed = level(launch.level).piece(d, p);
  LaunchReads(plan_, levels_)
      .for_each(launch, d, computed, [&](TensorId tensor, const Interval& interval, int channel) {
        const LevelLayout& of_tensor = level(plan_.tensors[tensor].level);
        if (of_tensor.whole) return;
        SpaceNeeds& space = spaces_[static_cast<std::size_t>(tensor.number)];
        Interval& hull_so_far = space.needed[static_cast<std::size_t>(d)][static_cast<std::size_t>(p)];
        hull_so_far = hull(hull_so_far, interval);
        if (!of_tensor.piece(d, p).contains(interval)) space.halo_from = std::min(space.halo_from, channel);
      });
}
#endif

}  // namespace detail
}  // namespace halogen
