// Launches of the kernels over lists of taps: grouped, depthwise and transposed convolutions and their gradients.
#pragma once

#include "halogen/run/launches.hpp"
#include "halogen/kernels/tap_convolution.hpp"
#include "halogen/kernels/tap_weight_gradient.hpp"

namespace halogen {

template <class S>
class TapLaunches : Launches<S> {
  using Base = Launches<S>;
  using T = compute_type<S>;
  using Space = execution_space;

 public:
  explicit TapLaunches(const Launches<S>& at) : Base(at) {}

  /// Forward or input gradient of launch i.
  void convolve(int i, const T* weights, const T* bias) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    if (launch.kind == LaunchKind::conv_forward)
      run(i, Base::operands().value_reader(launch.input, &node), weights, bias, "halogen::conv2d");
    else
      run(i, Base::operands().gradient_reader(launch), weights, bias, "halogen::conv2d_input_gradient");
  }

  /// Of the weights, then of the bias, which lie one behind the other.
  void weight_gradient(int i, T* gradient) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    const auto value = Base::operands().value_reader(launch.input, &node);
    const auto slope = Base::operands().gradient_reader(launch);
    const index_t weights = Base::plan().graph.parameters[node.parameter].count;
    if (!node.window[0].transposed)
      return correlate(i, slope, value, weights + (node.bias ? node.channels : 0), gradient);
    correlate(i, value, slope, weights, gradient);
    if (!node.bias) return;
    const Interval rows = Base::layout().owned(node.level, 1), columns = Base::layout().owned(node.level, 2);
    kernels::ChannelSums<Space, S, kernels::GradientReader<S>> sums;
    sums.points = slope;
    sums.channels = node.channels;
    sums.tiling = Workspace::summed(rows, columns, Base::layout().samples());
    sums.blocks = Workspace::blocks(sums.tiling);
    sums.partial = Base::partial();
    sums.launch(Base::space(), "halogen::bias_gradient");
    Base::reduce(sums, node.channels, node.channels, gradient + weights);
  }

 private:
  template <class Reader>
  void run(int i, const Reader& reader, const T* weights, const T* bias, const char* label) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    kernels::TapConvolution<Space, S, Reader> kernel;
    kernel.input = reader;
    kernel.weights = Base::packed();
    kernel.bias = bias;
    kernel.groups = channel_groups(Base::plan().graph, node, launch.kind);
    if (launch.kind == LaunchKind::conv_input_gradient) kernel.first = Base::operands().first_channel(launch);
    kernel.window = {window_shape(node, launch.kind), gathers_transposed(node, launch.kind)};
    const int taps = kernel.window.taps();
    launch_range(Base::space(), "halogen::pack_weights", kernels::packed_tap_size(kernel.groups, taps),
                 kernels::PackTapWeights<T>{weights, Base::packed(), kernel.groups, taps, kernel.window.transposed});
    Base::over_tiles(label, i, kernel);
  }

  template <class Points, class Windowed>
  void correlate(int i, const Points& points, const Windowed& window, index_t size, T* gradient) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    kernels::TapWeightGradient<Space, S, Points, Windowed> kernel;
    kernel.points = points;
    kernel.window = window;
    kernel.groups = channel_groups(Base::plan().graph, node, launch.kind);
    kernel.shape = window_shape(node, launch.kind);
    Base::over_blocks(i, kernel, gradient, size);
  }
};

}  // namespace halogen
