// What a launch type sees of one launch while it runs: its operands as kernels read them, its parameters, its output, and
// the ways to run kernels so that halos arrive meanwhile.
#pragma once

#include "halogen/kernels/pool_windows.hpp"
#include "halogen/kernels/row_kernels.hpp"
#include "halogen/kernels/softmax.hpp"
#include "halogen/kernels/weight_gradient.hpp"
#include "halogen/run/halo_schedule.hpp"

namespace halogen {

/// The parameters of a launch in the order of Launch::parameters: null where a use is of the other kind.
template <class T>
struct LaunchParameters {
  const T* value[Launch::most_parameters] = {};
  T* gradient[Launch::most_parameters] = {};
};

/// One launch of a plan on this rank. S: the value type of stored tensors; T = compute_type<S> that of parameters and of
/// all computations. Refers to an evaluation's parts.
template <class S>
class LaunchAt {
 public:
  using Space = execution_space;
  using T = compute_type<S>;

  LaunchAt(const Space& space, const Plan& plan, const Layout& layout, const Operands<S>& operands, HaloSchedule<S>& halos,
     int index, const LaunchParameters<T>& parameters)
      : space_(space),
        plan_(plan),
        layout_(layout),
        operands_(operands),
        halos_(halos),
        index_(index),
        parameters_(parameters) {}

  const Space& space() const { return space_; }
  const Plan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  const Launch& launch() const { return plan_.launches[index_]; }
  const Node& node() const { return plan_.node_of(launch()); }
  LaunchPlace place() const {
    const int level = launch().level;
    return {plan_, launch(), layout_.owned(level, 1), layout_.owned(level, 2), layout_.samples() * layout_.planes(level),
            layout_.value_bytes()};
  }

  // -- operands, counted as the launch lists them ----------------------------------------------------------------
  /// A value as it stands, point by point.
  kernels::ValueReader<S> value(int operand) const { return operands_.value_reader(value_of(operand)); }
  /// As the node's windows read it: padded, periodic where they are.
  kernels::ValueReader<S> windowed_value(int operand) const {
    return operands_.value_reader(value_of(operand), &node());
  }
  kernels::GradientReader<S> gradient(int operand) const {
    return operands_.gradient_reader(launch().reads[operand].index, launch().level);
  }
  /// A stored tensor as it was written.
  TensorView<S> tensor(int operand) const { return operands_.tensor(launch().reads[operand].index); }

  /// Where the source that a backward launch differentiates begins among the channels of its input.
  int first_channel() const { return plan_.input_of(launch()).channels_before(launch().source); }

  /// The node's windows, from its outputs to its inputs.
  kernels::PoolWindows windows() const {
    kernels::PoolWindows windows;
    for (int d = 0; d < spatial_dimensions; ++d) {
      windows.window[d] = node().window[d];
      windows.outputs[d] = layout_.level(node().level).extent(d);
    }
    return windows;
  }

  // -- parameters, counted as the launch lists them ----------------------------------------------------------------
  const T* parameter(int use) const { return parameters_.value[use]; }
  T* parameter_gradient(int use) const { return parameters_.gradient[use]; }

  // -- memory of the launch, as large as its workspace() asks ------------------------------------------------------
  T* prepared() const { return operands_.template workspace<T>(layout_.workspace().prepared); }
  template <class V = double>
  V* partials() const {
    return operands_.template workspace<V>(layout_.workspace().partials);
  }

  // -- kernels --------------------------------------------------------------------------------------------------------
  const kernels::Tiling& tiling() const { return layout_.workspace().tiling(index_); }

  /// A kernel over the tiles of the output, those first that read nothing of a halo under way. It has a member
  /// `output` (kernels/tile_output.hpp), which it writes through.
  template <class Kernel>
  void over_tiles(const char* label, Kernel& kernel) const {
    kernel.output = operands_.output(launch());
    halos_.run(space_, index_, [&](const kernels::Tiling& tiling) {
      kernel.output.tiling = tiling;
      kernel.launch(space_, label);
    });
  }
  /// Each row from rows, or all channels of a point (kernels/row_kernels.hpp).
  template <class Rows>
  void over_rows(const char* label, const Rows& rows) const {
    kernels::RowKernel<execution_space, S, Rows> kernel;
    kernel.compute = rows;
    over_tiles(label, kernel);
  }
  template <class Point>
  void over_points(const char* label, const Point& point) const {
    kernels::PointKernel<execution_space, S, Point> kernel;
    kernel.point = point;
    over_tiles(label, kernel);
  }

  /// A kernel that sums over the tiles in blocks, and the sum of the blocks: `size` numbers of the kernel's
  /// partial_size().
  template <class Kernel>
  void over_blocks(const char* label, Kernel& kernel, T* sums, index_t size) const {
    kernel.tiling = tiling();
    kernel.blocks = layout_.workspace().blocks(index_);
    kernel.partial = partials();
    halos_.run_blocks(space_, index_, kernel.blocks, [&](index_t begin, index_t end) {
      kernel.first_block = static_cast<int>(begin), kernel.last_block = static_cast<int>(end);
      kernel.launch(space_, label);
    });
    add_blocks(kernel, size, kernel.partial_size(), sums);
  }

  /// The blocks' sums, each `stride` numbers, of which the first `size` are wanted.
  template <class Kernel>
  void add_blocks(const Kernel& kernel, index_t size, index_t stride, T* to) const {
    launch_range(space_, "halogen::reduce_weight_gradient", size,
                 kernels::ReduceWeightGradient<T>{kernel.partial, stride, kernel.blocks, to});
  }

  /// A reader of a value that no operand lists.
  kernels::ValueReader<S> reader_of(const Value& value) const { return operands_.value_reader(value); }

 private:
  Value value_of(int operand) const {
    const Read& read = launch().reads[operand];
    if (read.role == Read::Role::value) return plan_.values[read.index];
    Value one;
    one.level = plan_.input_of(launch()).level;
    one.sources.push(plan_.source_of(launch()));
    return one;
  }

  const Space& space_;
  const Plan& plan_;
  const Layout& layout_;
  const Operands<S>& operands_;
  HaloSchedule<S>& halos_;
  int index_;
  LaunchParameters<T> parameters_;
};

}  // namespace halogen
