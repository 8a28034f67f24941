// Launches of the dense windows whose sizes the compiler knows, and of Winograd's algorithm: forward, input and weight
// gradients.
#pragma once

#include "halogen/run/launches.hpp"
#include "halogen/kernels/winograd_row_weights.hpp"
#include "halogen/kernels/winograd_weights.hpp"

namespace halogen {

template <class S>
class WindowLaunches : Launches<S> {
  using Base = Launches<S>;
  using T = compute_type<S>;
  using Space = execution_space;

 public:
  explicit WindowLaunches(const Launches<S>& at) : Base(at) {}

  /// Forward where the reader is a value's, the input gradient where it is a gradient's.
  template <int KH, int KW, class Reader>
  void convolve(int i, const Reader& reader, const T* weights, const T* bias) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    kernels::Convolution<Space, S, Reader, KH, KW> kernel;
    set(kernel, i, reader, bias);
    const int outputs = Base::plan().channels_out(launch);
    const kernels::PackWeights<T> pack{weights,
                                       Base::packed(),
                                       outputs,
                                       kernel.inputs,
                                       KH * KW,
                                       gathers_transposed(node, launch.kind),
                                       first_output(launch),
                                       layer_inputs(node),
                                       node.window[0].kernel};
    launch_range(Base::space(), "halogen::pack_weights", kernels::packed_size(outputs, kernel.inputs, KH * KW), pack);
    kernel.shape = window_shape(node, launch.kind);
    Base::over_tiles(label(launch), i, kernel);
  }

  /// The same by Winograd's algorithm.
  template <int Window, class Reader>
  void convolve_tiles(int i, const Reader& reader, const T* weights, const T* bias) const {
    kernels::WinogradConvolution<Space, S, Window, Reader> kernel;
    run_tiles(i, kernel, reader, weights, bias);
  }
  template <int Window, class Reader>
  void convolve_rows(int i, const Reader& reader, const T* weights, const T* bias) const {
    kernels::WinogradRows<Space, S, Window, Reader> kernel;
    run_tiles(i, kernel, reader, weights, bias);
  }

  /// The input gradient and, beside it, that of the weights between its source and all outputs; the first source's
  /// launch also sums the bias's, which lies behind the weights'.
  template <int Window, bool ByRows>
  void convolve_with_weights(int i, const T* weights, T* gradient) const {
    using Reader = kernels::GradientReader<S>;
    using Tiles = kernels::WinogradConvolution<Space, S, Window, Reader, kernels::WinogradWeights<S, Window>>;
    using Rows = kernels::WinogradRows<Space, S, Window, Reader, kernels::WinogradRowWeights<S, Window>>;
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    std::conditional_t<ByRows, Rows, Tiles> kernel;
    auto& beside = kernel.beside;
    Value source;
    source.level = launch.input.level;
    source.sources.push(launch.input.sources[launch.source]);
    beside.input = Base::operands().value_reader(source);
    beside.channels = Base::plan().channels_out(launch);
    beside.gradients = Base::plan().channels_in(launch);
    beside.depth = node.window[0].kernel;
    beside.bias = node.bias && launch.source == 0;
    beside.partial = Base::operands().template workspace<T>(Base::layout().workspace().gradient_partials);
    run_tiles(i, kernel, Base::operands().gradient_reader(launch), weights, nullptr);

    const index_t taps = index_t{beside.depth} * Window * Window, row = layer_inputs(node) * taps;
    const index_t tiles = Base::layout().workspace().tiling(i).count();
    launch_range(
        Base::space(), "halogen::reduce_weight_gradient", beside.weight_count(),
        kernels::ReduceWeightGradient<T, T>{beside.partial, beside.partial_size(), tiles,
                                            gradient + first_output(launch) * taps, beside.channels * taps, row});
    if (beside.bias)
      launch_range(Base::space(), "halogen::reduce_weight_gradient", beside.outputs(),
                   kernels::ReduceWeightGradient<T, T>{beside.partial + beside.weight_count(), beside.partial_size(),
                                                       tiles, gradient + node.channels * row});
  }

  /// Of the weights, then of the bias, which lie one behind the other.
  template <class Kernel>
  void weight_gradient(int i, Kernel kernel, T* gradient) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    kernel.input = Base::operands().value_reader(launch.input, &node);
    kernel.gradient = Base::operands().gradient_reader(launch);
    kernel.inputs = Base::plan().channels_in(launch);
    kernel.outputs = node.channels;
    kernel.shape = window_shape(node, launch.kind);
    Base::over_blocks(i, kernel, gradient,
                      node.bias ? kernel.partial_size() : Base::plan().graph.parameters[node.parameter].count);
  }

 private:
  static const char* label(const Launch& launch) {
    if (launch.kind == LaunchKind::conv_forward) return "halogen::conv2d";
    return launch.weights ? "halogen::conv2d_gradients" : "halogen::conv2d_input_gradient";
  }
  int first_output(const Launch& launch) const {
    return launch.kind == LaunchKind::conv_forward ? 0 : Base::operands().first_channel(launch);
  }
  int layer_inputs(const Node& node) const { return Base::plan().graph.parameters[node.parameter].shape[1]; }

  template <class Kernel, class Reader>
  void set(Kernel& kernel, int i, const Reader& reader, const T* bias) const {
    kernel.input = reader;
    kernel.weights = Base::packed();
    kernel.bias = bias;
    kernel.inputs = Base::plan().channels_in(Base::launch(i));
  }

  template <class Kernel, class Reader>
  void run_tiles(int i, Kernel& kernel, const Reader& reader, const T* weights, const T* bias) const {
    const Launch& launch = Base::launch(i);
    const Node& node = Base::node(i);
    set(kernel, i, reader, bias);
    const typename Kernel::Pack pack{weights,
                                     Base::packed(),
                                     Base::plan().channels_out(launch),
                                     kernel.inputs,
                                     launch.kind == LaunchKind::conv_input_gradient,
                                     first_output(launch),
                                     layer_inputs(node),
                                     node.window[0].kernel};
    launch_range(Base::space(), "halogen::pack_weights", pack.work(), pack);
    const kernels::WindowShape shape = window_shape(node, launch.kind);
    for (int d = 0, level = output_level(Base::plan(), launch); d < 2; ++d) {
      kernel.padding[d] = shape.padding[d];
      kernel.owned[d] = Base::layout().owned(level, 1 + d);
      kernel.readable[d] = {-shape.padding[d],
                            Base::layout().level(level).extent(1 + d) - shape.padding[d] + shape.footprint(d) - 1};
    }
    Base::over_tiles(label(launch), i, kernel);
  }
};

}  // namespace halogen
