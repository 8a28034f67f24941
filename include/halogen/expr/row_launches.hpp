// Launches of everything that computes rows, or points, from rows: pools, resamplings, sums, softmax, stores. Not
// templated on the launch, so compiled once for each kernel.
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

  /// Launch i of the plan.
  void run(int i) const {
    const Launch& launch = plan_.launches[i];
    const Node& node = plan_.node_of(launch);
    switch (launch.kind) {
      case LaunchKind::max_pool_forward: {
        kernels::MaxPoolRows<T> rows{operands_.value_reader(launch.input, &node), {}, {}};
        set_window(rows, node);
        return launch_rows("halogen::max_pool", i, rows);
      }
      case LaunchKind::max_pool_backward: {
        kernels::MaxPoolBackwardRows<T> rows{operands_.value_reader(launch.input),
                                             operands_.gradient_reader(launch),
                                             operands_.first_channel(launch),
                                             {},
                                             {},
                                             {}};
        set_window(rows, node);
        for (int d = 0; d < spatial_dimensions; ++d) rows.outputs[d] = layout_.level(node.level).extent(d);
        return launch_rows("halogen::max_pool_backward", i, rows);
      }
      case LaunchKind::avg_pool_forward: {
        kernels::AvgPoolRows<T> rows{operands_.value_reader(launch.input, &node), {}, {}};
        set_window(rows, node);
        return launch_rows("halogen::avg_pool", i, rows);
      }
      case LaunchKind::avg_pool_backward: {
        kernels::AvgPoolBackwardRows<T> rows{
            operands_.gradient_reader(launch), operands_.first_channel(launch), {}, {}, {}};
        set_window(rows, node);
        for (int d = 0; d < spatial_dimensions; ++d) rows.outputs[d] = layout_.level(node.level).extent(d);
        return launch_rows("halogen::avg_pool_backward", i, rows);
      }
      case LaunchKind::upsample_backward: {
        const Source& source = launch.input.sources[launch.source];
        const int coarse = plan_.tensors[launch.output].level;
        Resample map[spatial_dimensions];
        for (int d = 0; d < spatial_dimensions; ++d)
          map[d] = resample(layout_.levels(), coarse, launch.input.level, d, source.linear);
        const auto gradient = operands_.gradient_reader(launch);
        if (source.linear)
          return launch_rows("halogen::upsample_backward", i,
                             kernels::InterpolateBackwardRows<T>{gradient, {map[0], map[1], map[2]}});
        return launch_rows("halogen::upsample_backward", i,
                           kernels::UpsampleBackwardRows<T>{gradient, {map[0], map[1], map[2]}});
      }
      case LaunchKind::softmax_forward: {
        const int all = node.channels;
        return launch_points("halogen::softmax", i,
                             kernels::SoftmaxPoint<T>{operands_.value_reader(launch.input), all, 0, all});
      }
      case LaunchKind::softmax_backward:
        return launch_points("halogen::softmax_backward", i,
                             kernels::SoftmaxBackwardPoint<T>{
                                 operands_.gradient_reader(launch), operands_.tensor(launch.result), node.channels,
                                 operands_.first_channel(launch), plan_.tensors[launch.output].channels});
      case LaunchKind::add: {
        const auto [first, second] = operands_.terms(launch);
        return launch_rows("halogen::add", i, kernels::SumRows<T>{first, second});
      }
      case LaunchKind::store:
        return launch_rows("halogen::store", i,
                           kernels::CopyRows<T, kernels::ValueReader<T>>{operands_.value_reader(launch.input), 0});
      case LaunchKind::store_backward:
        return launch_rows("halogen::store_backward", i,
                           kernels::CopyRows<T, kernels::GradientReader<T>>{operands_.gradient_reader(launch),
                                                                            operands_.first_channel(launch)});
      default:
        return launch_rows("halogen::gradient_store", i,
                           kernels::CopyRows<T, kernels::GradientReader<T>>{operands_.gradient_reader(launch), 0});
    }
  }

 private:
  template <class Rows>
  static void set_window(Rows& rows, const Node& node) {
    for (int d = 0; d < spatial_dimensions; ++d)
      rows.kernel[d] = node.window[d].kernel, rows.stride[d] = node.window[d].stride;
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
