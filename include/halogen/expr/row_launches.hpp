// Launches of everything that computes rows, or points, from rows: pools, resamplings, sums, softmax, stores. Templated
// on the kind of launch, so that each kernel is compiled once, and only where a model has it.
#pragma once

#include "halogen/expr/halo_schedule.hpp"
#include "halogen/kernels/avg_pool.hpp"
#include "halogen/kernels/interpolate.hpp"
#include "halogen/kernels/max_pool.hpp"
#include "halogen/kernels/softmax.hpp"

namespace halogen {

/// A stored tensor's owned points to a field of the same cut; waits.
template <class T>
void copy_stored(const execution_space& space, const Plan& plan, const Layout& layout, const Operands<T>& operands,
                 int tensor, const TensorView<T>& to) {
  Value value;
  value.level = plan.tensors[tensor].level;
  value.sources.push({tensor, -1, false, false, plan.tensors[tensor].channels});
  kernels::RowKernel<execution_space, T, kernels::CopyRows<T, kernels::ValueReader<T>>> kernel;
  kernel.compute = {operands.value_reader(value), 0};
  kernel.output = to;
  kernel.channels = value.channels();
  const Interval columns = layout.owned(value.level, 2);
  kernel.tiling = {layout.owned(value.level, 1), columns, layout.samples() * layout.planes(value.level),
                   Workspace::tile_rows, std::max(index_t{1}, columns.size())};
  kernel.launch(space, "halogen::copy");
  space.fence("halogen::copy");
}

template <class T>
class RowLaunches {
  using Space = execution_space;

 public:
  RowLaunches(const Space& space, const Plan& plan, const Layout& layout, const Operands<T>& operands,
              HaloSchedule<T>& halos)
      : space_(space), plan_(plan), layout_(layout), operands_(operands), halos_(halos) {}

  /// Launch i of the plan, which is of this kind; Linear: the adjoint of a resampling between points.
  template <LaunchKind Kind, bool Linear = false>
  void run(int i) const {
    using Value = kernels::ValueReader<T>;
    using Gradient = kernels::GradientReader<T>;
    const Launch& launch = plan_.launches[i];
    const Node& node = plan_.node_of(launch);
    if constexpr (Kind == LaunchKind::max_pool_forward) {
      kernels::MaxPoolRows<T> rows{operands_.value_reader(launch.input, &node), {}, {}};
      launch_window("halogen::max_pool", i, rows);
    } else if constexpr (Kind == LaunchKind::avg_pool_forward) {
      kernels::AvgPoolRows<T> rows{operands_.value_reader(launch.input, &node), {}, {}};
      launch_window("halogen::avg_pool", i, rows);
    } else if constexpr (Kind == LaunchKind::max_pool_backward) {
      const int first = operands_.first_channel(launch);
      kernels::MaxPoolBackwardRows<T> rows{
          operands_.value_reader(launch.input), operands_.gradient_reader(launch), first, {}, {}, {}};
      set_outputs(rows, node);
      launch_window("halogen::max_pool_backward", i, rows);
    } else if constexpr (Kind == LaunchKind::avg_pool_backward) {
      const int first = operands_.first_channel(launch);
      kernels::AvgPoolBackwardRows<T> rows{operands_.gradient_reader(launch), first, {}, {}, {}};
      set_outputs(rows, node);
      launch_window("halogen::avg_pool_backward", i, rows);
    } else if constexpr (Kind == LaunchKind::upsample_backward) {
      std::conditional_t<Linear, kernels::InterpolateBackwardRows<T>, kernels::UpsampleBackwardRows<T>> rows{
          operands_.gradient_reader(launch), {}};
      const int coarse = plan_.tensors[launch.output].level;
      for (int d = 0; d < spatial_dimensions; ++d)
        rows.map[d] = resample(layout_.levels(), coarse, launch.input.level, d, Linear);
      launch_rows("halogen::upsample_backward", i, rows);
    } else if constexpr (Kind == LaunchKind::softmax_forward) {
      const int all = node.channels;
      launch_points("halogen::softmax", i, kernels::SoftmaxPoint<T>{operands_.value_reader(launch.input), all, 0, all});
    } else if constexpr (Kind == LaunchKind::softmax_backward) {
      launch_points("halogen::softmax_backward", i,
                    kernels::SoftmaxBackwardPoint<T>{operands_.gradient_reader(launch), operands_.tensor(launch.result),
                                                     node.channels, operands_.first_channel(launch),
                                                     plan_.tensors[launch.output].channels});
    } else if constexpr (Kind == LaunchKind::add) {
      const auto [first, second] = operands_.terms(launch);
      launch_rows("halogen::add", i, kernels::SumRows<T>{first, second});
    } else if constexpr (Kind == LaunchKind::store) {
      launch_rows("halogen::store", i, kernels::CopyRows<T, Value>{operands_.value_reader(launch.input), 0});
    } else if constexpr (Kind == LaunchKind::store_backward) {
      const int first = operands_.first_channel(launch);
      launch_rows("halogen::store_backward", i,
                  kernels::CopyRows<T, Gradient>{operands_.gradient_reader(launch), first});
    } else {
      static_assert(Kind == LaunchKind::gradient_store);
      launch_rows("halogen::gradient_store", i, kernels::CopyRows<T, Gradient>{operands_.gradient_reader(launch), 0});
    }
  }

 private:
  template <class Rows>
  void launch_window(const char* label, int i, Rows& rows) const {
    const Node& node = plan_.node_of(plan_.launches[i]);
    for (int d = 0; d < spatial_dimensions; ++d)
      rows.kernel[d] = node.window[d].kernel, rows.stride[d] = node.window[d].stride;
    launch_rows(label, i, rows);
  }

  template <class Rows>
  void set_outputs(Rows& rows, const Node& node) const {
    for (int d = 0; d < spatial_dimensions; ++d) rows.outputs[d] = layout_.level(node.level).extent(d);
  }

  template <class Rows>
  void launch_rows(const char* label, int i, const Rows& rows) const {
    kernels::RowKernel<Space, T, Rows> kernel;
    kernel.compute = rows;
    kernel.channels = plan_.tensors[plan_.launches[i].output].channels;
    launch_kernel(label, i, kernel);
  }

  template <class Point>
  void launch_points(const char* label, int i, const Point& point) const {
    kernels::PointKernel<Space, T, Point> kernel;
    kernel.point = point;
    launch_kernel(label, i, kernel);
  }

  /// Any kernel over tiles of the launch's output.
  template <class Kernel>
  void launch_kernel(const char* label, int i, Kernel& kernel) const {
    const Launch& launch = plan_.launches[i];
    kernel.output = operands_.tensor(launch.output);
    kernel.accumulate = launch.accumulate;
    kernel.base = operands_.base(launch);
    kernel.epilogue = operands_.epilogue(launch);
    halos_.run(space_, i, [&](const kernels::Tiling& tiling) {
      kernel.tiling = tiling;
      kernel.launch(space_, label);
    });
  }

  const Space& space_;
  const Plan& plan_;
  const Layout& layout_;
  const Operands<T>& operands_;
  HaloSchedule<T>& halos_;
};

}  // namespace halogen
