// Which points of stored tensors a launch reads for the points that it computes.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/run/level_layout.hpp"
#include "halogen/stencil/neighborhood.hpp"
#include "halogen/stencil/sampling.hpp"

namespace halogen {

/// The resampling from a stored tensor's level to a reader's level, in dimension d.
inline Resample resample(const std::vector<LevelLayout>& levels, const Source& source, int from, int to, int d) {
  return {levels[static_cast<std::size_t>(from)].extent(d), levels[static_cast<std::size_t>(to)].extent(d),
          source.linear, source.pads[d], source.more[d]};
}

namespace detail {

/// It works in one dimension at a time.
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
  if (window.sampling != Sampling::none) return through(SampledWindow(window, input, output));
  if (window.ends != WindowEnds::passed) return through(Neighborhood(window, input));
  const index_t tile = launch.grid[d];  // whole tiles are inside the field; single points may be images beyond its ends
  if (step == Pattern::Step::window)
    return inside(tile > 1 ? window.input_of_tiles(computed, tile, output) : window.input_of(computed), input,
                  window.periodic);
  return inside(tile > 1 ? window.output_of_tiles(computed, tile, input) : window.output_of(computed), output,
                window.periodic);
}
#endif

}  // namespace detail
}  // namespace halogen
