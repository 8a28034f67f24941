// What launches need in addition to stored tensors: tilings, workspaces, partial sums, tables of affines. Sizes and
// offsets.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/kernels/sums/affine_tables.hpp"
#include "halogen/plan/common_launches.hpp"
#include "halogen/run/launch_place.hpp"

namespace halogen {

/// Offsets in bytes from the end of the arena's stored tensors. All launches share one set of areas. Each affine has
/// its own tables.
class Workspace {
 public:
  Workspace() = default;

  template <class Owned>
  Workspace(const Plan& plan, Owned owned, int samples, ValueBytes value_bytes);

  const kernels::Tiling& tiling(int launch) const { return tilings_[static_cast<std::size_t>(launch)]; }

  /// What the launch asked for.
  const WorkspaceUse& use(int launch) const { return uses_[static_cast<std::size_t>(launch)]; }

  std::size_t table(AffineTableId affine) const { return tables_[static_cast<std::size_t>(affine.number)]; }
  std::size_t vjp_table(ActivationId activation) const {
    return vjp_tables_[static_cast<std::size_t>(activation.number)];
  }
  /// Whether another node sums this parameter's gradient first. Then the launch writes its contribution to separate
  /// memory, at shared_gradients.
  bool is_shared(int parameter, int node) const { return first_to_sum_[static_cast<std::size_t>(parameter)] != node; }
  /// Whether the launch writes this gradient to the separate memory: a shared one, and all gradients of a launch that
  /// also computes one of a parameter that is not trained. Kernels write these one after the other.
  bool lies_beside(const Plan& plan, const Launch& launch, int parameter) const {
    return is_shared(parameter, launch.node) || std::ranges::any_of(launch.parameters, [&](const ParameterUse& use) {
             return use.gradient && plan.graph.parameters[use.parameter].buffer;
           });
  }
  std::size_t bytes() const { return bytes_; }
  int rank_sums() const { return rank_sums_; }  ///< the most numbers that a launch sums over ranks

  std::size_t prepared = 0, row_sums = 0, partials = 0, shared_gradients = 0;  ///< offsets

 private:
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  void take_tables(const Plan& plan, int samples, std::size_t value_size);
  void find_sharers(const Plan& plan, std::size_t value_size);

  std::size_t bytes_ = 0;
  int rank_sums_ = 0;
  std::vector<kernels::Tiling> tilings_;
  std::vector<WorkspaceUse> uses_;
  std::vector<int> first_to_sum_;
  std::vector<std::size_t> tables_, vjp_tables_;
};

template <class Owned>
Workspace::Workspace(const Plan& plan, Owned owned, int samples, ValueBytes value_bytes) {
  WorkspaceUse most;
  std::size_t sums = 0;
  for (const Launch& launch : plan.launches) {
    const LaunchPlace place{plan,
                            launch,
                            owned(launch.level, 1),
                            owned(launch.level, 2),
                            samples * static_cast<int>(owned(launch.level, 0).size()),
                            samples,
                            value_bytes};
    const kernels::Tiling tiling = launch.kind->tiling ? launch.kind->tiling(place) : TileSizes::of_rows(place);
    const WorkspaceUse use = launch.kind->workspace ? launch.kind->workspace(place, tiling) : WorkspaceUse{};
    tilings_.push_back(tiling);
    uses_.push_back(use);
    most.prepared = std::max(most.prepared, use.prepared);
    most.partials = std::max(most.partials, use.partials);
    rank_sums_ = std::max(rank_sums_, use.rank_sums);
    if (launch.statistics >= 0 || launch.sums >= 0 || launch.mask >= 0)
      sums = std::max(sums, static_cast<std::size_t>(tiling.count()) *
                                static_cast<std::size_t>(plan.tensors[plan.summed_tensor(launch)].channels));
  }
  prepared = take(most.prepared);
  row_sums = take(sums * sizeof(kernels::RowSums));
  partials = take(most.partials);
  find_sharers(plan, value_bytes.computed);
  take_tables(plan, samples, value_bytes.computed);
}

#if HALOGEN_BODIES
HALOGEN_INLINE void Workspace::find_sharers(const Plan& plan, std::size_t value_size) {
  first_to_sum_.assign(static_cast<std::size_t>(plan.graph.parameters.size()), -1);
  index_t most = 0;  // values of a launch in the separate memory
  for (const Launch& launch : plan.launches) {
    plan.for_each_parameter_gradient(launch, [&](int parameter, int node) {
      int& first = first_to_sum_[static_cast<std::size_t>(parameter)];
      if (first < 0) first = node;
    });
    index_t values = 0;
    for (const ParameterUse& use : launch.parameters)
      if (use.gradient && lies_beside(plan, launch, use.parameter))
        values += plan.graph.parameters[use.parameter].count;
    most = std::max(most, values);
  }
  shared_gradients = take(static_cast<std::size_t>(most) * value_size);
}

HALOGEN_INLINE void Workspace::take_tables(const Plan& plan, int samples, std::size_t value_size) {
  for (const AffineTable& affine : plan.affines) {
    const std::size_t entries = static_cast<std::size_t>(samples) * affine.channels;
    tables_.push_back(take(entries * (2 * sizeof(double) + 2 * value_size)));
  }
  for (const Activation& activation : plan.activations) {
    const std::size_t entries =
        activation.affine < 0 ? 0 : static_cast<std::size_t>(samples) * plan.affines[activation.affine].channels;
    vjp_tables_.push_back(take(entries * 2 * value_size));
  }
}
#endif

inline WorkspaceUse LossLaunch::workspace(const LaunchPlace&, const kernels::Tiling& tiling) {
  return {.partials = static_cast<std::size_t>(tiling.count()) * sizeof(double)};
}

}  // namespace halogen
