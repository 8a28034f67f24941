// What the launches of a plan share: where they run, what they read and write, and when their tiles run.
#pragma once

#include "halogen/run/halo_schedule.hpp"
#include "halogen/kernels/weight_gradient.hpp"

namespace halogen {

/// Refers to an evaluation's parts. One layer's parameters are at hand where its launch is called.
template <class S>
class Launches {
 public:
  using Space = execution_space;
  using T = compute_type<S>;

  Launches(const Space& space, const Plan& plan, const Layout& layout, const Operands<S>& operands,
           HaloSchedule<S>& halos)
      : space_(space), plan_(plan), layout_(layout), operands_(operands), halos_(halos) {}

  const Space& space() const { return space_; }
  const Plan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  const Operands<S>& operands() const { return operands_; }
  const Launch& launch(int i) const { return plan_.launches[i]; }
  const Node& node(int i) const { return plan_.node_of(launch(i)); }

 protected:
  T* packed() const { return operands_.template workspace<T>(layout_.workspace().packed); }

  /// A kernel over the tiles of launch i's output.
  template <class Kernel>
  void over_tiles(const char* label, int i, Kernel& kernel) const {
    kernel.output = operands_.output(launch(i));
    halos_.run(space_, i, [&](const kernels::Tiling& tiling) {
      kernel.output.tiling = tiling;
      kernel.launch(space_, label);
    });
  }

  /// A kernel that sums over the tiles of launch i in blocks, and the sum of the blocks: `size` numbers, or as many
  /// as the kernel leaves.
  template <class Kernel>
  void over_blocks(int i, Kernel& kernel, T* gradient, index_t size) const {
    kernel.tiling = layout_.workspace().tiling(i);
    kernel.blocks = layout_.workspace().blocks(plan_, i);
    kernel.partial = partial();
    halos_.run_blocks(space_, i, kernel.blocks, [&](index_t begin, index_t end) {
      kernel.first_block = static_cast<int>(begin), kernel.last_block = static_cast<int>(end);
      kernel.launch(space_, "halogen::conv2d_weight_gradient");
    });
    reduce(kernel, size, kernel.partial_size(), gradient);
  }

  double* partial() const { return operands_.template workspace<double>(layout_.workspace().gradient_partials); }

  /// The blocks' sums, each `stride` numbers, of which the first `size` are wanted.
  template <class Kernel>
  void reduce(const Kernel& kernel, index_t size, index_t stride, T* to) const {
    launch_range(space_, "halogen::reduce_weight_gradient", size,
                 kernels::ReduceWeightGradient<T>{kernel.partial, stride, kernel.blocks, to});
  }

 private:
  const Space& space_;
  const Plan& plan_;
  const Layout& layout_;
  const Operands<S>& operands_;
  HaloSchedule<S>& halos_;
};

}  // namespace halogen
