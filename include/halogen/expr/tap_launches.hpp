// Launches of the kernels over lists of taps: grouped, depthwise and transposed convolutions and their gradients.
#pragma once

#include "halogen/expr/halo_schedule.hpp"
#include "halogen/kernels/tap_convolution.hpp"
#include "halogen/kernels/tap_weight_gradient.hpp"

namespace halogen {

template <class T>
class TapLaunches {
  using Space = execution_space;

 public:
  TapLaunches(const Space& space, const Plan& plan, const Layout& layout, const Operands<T>& operands,
              HaloSchedule<T>& halos)
      : space_(space), plan_(plan), layout_(layout), operands_(operands), halos_(halos) {}

  /// Forward or input gradient of launch i.
  void convolve(int i, const T* weights, const T* bias) const {
    const Launch& launch = plan_.launches[i];
    const Node& node = plan_.node_of(launch);
    if (launch.kind == LaunchKind::conv_forward)
      run(i, operands_.value_reader(launch.input, &node), weights, bias, "halogen::conv2d");
    else
      run(i, operands_.gradient_reader(launch), weights, bias, "halogen::conv2d_input_gradient");
  }

  /// Of the weights, then of the bias, which lie one behind the other.
  void weight_gradient(int i, T* gradient) const {
    const Launch& launch = plan_.launches[i];
    const Node& node = plan_.node_of(launch);
    const auto value = operands_.value_reader(launch.input, &node);
    const auto slope = operands_.gradient_reader(launch);
    const index_t weights = plan_.graph.parameters[node.parameter].count;
    if (!node.window[0].transposed)
      return correlate(i, slope, value, weights + (node.bias ? node.channels : 0), gradient);
    correlate(i, value, slope, weights, gradient);
    if (!node.bias) return;
    const Interval rows = layout_.owned(node.level, 1), columns = layout_.owned(node.level, 2);
    kernels::ChannelSums<Space, T, kernels::GradientReader<T>> sums;
    sums.points = slope;
    sums.channels = node.channels;
    sums.tiling = {rows, columns, layout_.samples(), Workspace::tile_rows, std::max(columns.size(), index_t{1})};
    sums.blocks = static_cast<int>(std::min<index_t>(Workspace::gradient_blocks, sums.tiling.count()));
    sums.partial = partial();
    sums.launch(space_, "halogen::bias_gradient");
    reduce(sums.partial, node.channels, node.channels, sums.blocks, gradient + weights);
  }

 private:
  double* partial() const { return operands_.template workspace<double>(layout_.workspace().gradient_partials); }

  template <class Reader>
  void run(int i, const Reader& reader, const T* weights, const T* bias, const char* label) const {
    const Launch& launch = plan_.launches[i];
    const Node& node = plan_.node_of(launch);
    T* packed = operands_.template workspace<T>(layout_.workspace().packed);
    kernels::TapConvolution<Space, T, Reader> kernel;
    kernel.input = reader;
    kernel.output = operands_.tensor(launch.output);
    kernel.weights = packed;
    kernel.bias = bias;
    kernel.groups = channel_groups(plan_.graph, node, launch.kind);
    if (launch.kind == LaunchKind::conv_input_gradient) kernel.first = operands_.first_channel(launch);
    kernel.outputs = plan_.tensors[launch.output].channels;
    kernel.window = {window_shape(node, launch.kind), gathers_transposed(node, launch.kind)};
    kernel.accumulate = launch.accumulate;
    kernel.base = operands_.base(launch);
    kernel.epilogue = operands_.epilogue(launch);
    const int taps = kernel.window.taps();
    const kernels::PackTapWeights<T> pack{weights, packed, kernel.groups, taps, kernel.window.transposed};
    over("halogen::pack_weights", kernels::packed_tap_size(kernel.groups, taps), pack);
    halos_.run(space_, i, [&](const kernels::Tiling& tiling) {
      kernel.tiling = tiling;
      kernel.launch(space_, label);
    });
  }

  template <class Points, class Windowed>
  void correlate(int i, const Points& points, const Windowed& window, index_t size, T* gradient) const {
    const Launch& launch = plan_.launches[i];
    const Node& node = plan_.node_of(launch);
    kernels::TapWeightGradient<Space, T, Points, Windowed> kernel;
    kernel.points = points;
    kernel.window = window;
    kernel.groups = channel_groups(plan_.graph, node, launch.kind);
    kernel.shape = window_shape(node, launch.kind);
    kernel.tiling = layout_.workspace().tiling(i);
    kernel.blocks = static_cast<int>(std::min<index_t>(Workspace::gradient_blocks, kernel.tiling.count()));
    kernel.partial = partial();
    halos_.run_blocks(space_, i, kernel.blocks, [&](index_t begin, index_t end) {
      kernel.first_block = static_cast<int>(begin), kernel.last_block = static_cast<int>(end);
      kernel.launch(space_, "halogen::conv2d_weight_gradient");
    });
    reduce(kernel.partial, size, kernel.partial_size(), kernel.blocks, gradient);
  }

  void reduce(const double* from, index_t size, index_t stride, int blocks, T* to) const {
    over("halogen::reduce_weight_gradient", size, kernels::ReduceWeightGradient<T>{from, size, stride, blocks, to});
  }

  template <class Functor>
  void over(const char* label, index_t count, const Functor& functor) const {
    Kokkos::parallel_for(label, Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space_, 0, count), functor);
  }

  const Space& space_;
  const Plan& plan_;
  const Layout& layout_;
  const Operands<T>& operands_;
  HaloSchedule<T>& halos_;
};

}  // namespace halogen
