// Launches of everything that computes rows, or points, from rows: pools, resamplings, sums, softmax, stores. Templated
// on the kind of launch, so that each kernel is compiled once, and only where a model has it.
#pragma once

#include "halogen/run/launches.hpp"
#include "halogen/kernels/avg_pool.hpp"
#include "halogen/kernels/interpolate.hpp"
#include "halogen/kernels/max_pool.hpp"
#include "halogen/kernels/pad.hpp"
#include "halogen/kernels/softmax.hpp"

namespace halogen {

/// A stored tensor's owned points to a field of the same cut.
template <class S>
void copy_stored(const execution_space& space, const Plan& plan, const Layout& layout, const Operands<S>& operands,
                 int tensor, const TensorView<S>& to) {
  Value value;
  value.level = plan.tensors[tensor].level;
  value.sources.push({tensor, -1, {}, false, plan.tensors[tensor].channels});
  kernels::RowKernel<execution_space, S, kernels::CopyRows<S, kernels::ValueReader<S>>> kernel;
  kernel.compute = {operands.value_reader(value), 0};
  kernel.output.tensor = to;
  kernel.output.channels = value.channels();
  const Interval columns = layout.owned(value.level, 2);
  kernel.output.tiling = {layout.owned(value.level, 1), columns, layout.samples() * layout.planes(value.level),
                          Workspace::tile_rows, std::max(index_t{1}, columns.size())};
  kernel.launch(space, "halogen::copy");
}

template <class S>
class RowLaunches : Launches<S> {
  using Base = Launches<S>;
  using T = compute_type<S>;

 public:
  explicit RowLaunches(const Launches<S>& at) : Base(at) {}

  /// Launch i of the plan, which is of this kind; the adjoint of which resampling, if any.
  template <LaunchKind Kind, Resampling Resampled = Resampling::nearest>
  void run(int i) const {
    using Value = kernels::ValueReader<S>;
    using Gradient = kernels::GradientReader<S>;
    const Plan& plan = Base::plan();
    const Layout& layout = Base::layout();
    const Operands<S>& operands = Base::operands();
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    if constexpr (Kind == LaunchKind::max_pool_forward) {
      kernels::MaxPoolRows<S> rows{operands.value_reader(launch.input, &node), {}};
      launch_window("halogen::max_pool", i, rows);
    } else if constexpr (Kind == LaunchKind::avg_pool_forward) {
      kernels::AvgPoolRows<S> rows{operands.value_reader(launch.input, &node), {}};
      launch_window("halogen::avg_pool", i, rows);
    } else if constexpr (Kind == LaunchKind::max_pool_backward) {
      const int first = operands.first_channel(launch);
      kernels::MaxPoolBackwardRows<S> rows{
          operands.value_reader(launch.input), operands.gradient_reader(launch), first, {}};
      launch_window("halogen::max_pool_backward", i, rows);
    } else if constexpr (Kind == LaunchKind::avg_pool_backward) {
      const int first = operands.first_channel(launch);
      kernels::AvgPoolBackwardRows<S> rows{operands.gradient_reader(launch), first, {}};
      launch_window("halogen::avg_pool_backward", i, rows);
    } else if constexpr (Kind == LaunchKind::upsample_backward) {
      using Adjoint =
          std::conditional_t<Resampled == Resampling::linear, kernels::InterpolateBackwardRows<S>,
                             std::conditional_t<Resampled == Resampling::padded, kernels::PadBackwardRows<S>,
                                                kernels::UpsampleBackwardRows<S>>>;
      Adjoint rows{operands.gradient_reader(launch), {}};
      const int coarse = plan.tensors[launch.output].level;
      for (int d = 0; d < spatial_dimensions; ++d)
        rows.map[d] = resample(layout.levels(), launch.input.sources[launch.source], coarse, launch.input.level, d);
      launch_rows("halogen::upsample_backward", i, rows);
    } else if constexpr (Kind == LaunchKind::softmax_forward) {
      launch_points("halogen::softmax", i,
                    kernels::SoftmaxPoint<S>{operands.value_reader(launch.input), node.channels});
    } else if constexpr (Kind == LaunchKind::softmax_backward) {
      launch_points("halogen::softmax_backward", i,
                    kernels::SoftmaxBackwardPoint<S>{operands.gradient_reader(launch), operands.tensor(launch.result),
                                                     node.channels, operands.first_channel(launch)});
    } else if constexpr (Kind == LaunchKind::add) {
      const auto [first, second] = operands.terms(launch);
      launch_rows("halogen::add", i, kernels::SumRows<S>{first, second});
    } else if constexpr (Kind == LaunchKind::moments) {
      kernels::MomentsKernel<execution_space, S> kernel;
      Base::over_tiles("halogen::moments", i, kernel);
    } else if constexpr (Kind == LaunchKind::store) {
      launch_rows("halogen::store", i, kernels::CopyRows<S, Value>{operands.value_reader(launch.input), 0});
    } else if constexpr (Kind == LaunchKind::store_backward) {
      const int first = operands.first_channel(launch);
      launch_rows("halogen::store_backward", i,
                  kernels::CopyRows<S, Gradient>{operands.gradient_reader(launch), first});
    } else {
      static_assert(Kind == LaunchKind::gradient_store);
      launch_rows("halogen::gradient_store", i, kernels::CopyRows<S, Gradient>{operands.gradient_reader(launch), 0});
    }
  }

 private:
  template <class Rows>
  void launch_window(const char* label, int i, Rows& rows) const {
    const Node& node = Base::node(i);
    for (int d = 0; d < spatial_dimensions; ++d) {
      rows.windows.window[d] = node.window[d];
      rows.windows.outputs[d] = Base::layout().level(node.level).extent(d);
    }
    launch_rows(label, i, rows);
  }

  template <class Rows>
  void launch_rows(const char* label, int i, const Rows& rows) const {
    kernels::RowKernel<execution_space, S, Rows> kernel;
    kernel.compute = rows;
    Base::over_tiles(label, i, kernel);
  }

  template <class Point>
  void launch_points(const char* label, int i, const Point& point) const {
    kernels::PointKernel<execution_space, S, Point> kernel;
    kernel.point = point;
    Base::over_tiles(label, i, kernel);
  }
};

}  // namespace halogen
