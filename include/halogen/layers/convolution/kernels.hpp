// How one launch of a convolution becomes kernels: dense windows whose sizes the compiler knows, Winograd's algorithm,
// lists of taps.
#pragma once

#include "halogen/kernels/convolution/point_convolution.hpp"
#include "halogen/kernels/convolution/point_weight_gradient.hpp"
#include "halogen/kernels/convolution/tap_weight_gradient.hpp"
#include "halogen/kernels/winograd/winograd_row_weights.hpp"
#include "halogen/kernels/winograd/winograd_weights.hpp"
#include "halogen/layers/convolution/convolution_tiles.hpp"
#include "halogen/run/at.hpp"

namespace halogen::detail {

/// One launch. Its parameters are the weights (read first where they are read), then what the pass sums.
template <class S, Pass Is>
class ConvolutionRun {
  using T = compute_type<S>;
  using Space = execution_space;

 public:
  ConvolutionRun(const LaunchAt<S>& at, const char* label)
      : at_(at), of_(at.plan(), at.launch(), Is), node_(at.node()), label_(label) {}

  /// The gradient of the output as the node's windows gather it (gathers) or point by point.
  kernels::GradientReader<S> output_gradient(int operand, bool gathers) const {
    if (!gathers && !of_.transposed()) return at_.gradient(operand);
    kernels::GradientReader<S> reader = at_.windowed_gradient(operand);
    if (gathers)
      reader.depth = depth();
    else
      reader.depth = depth_window(node_.window[0], at_.layout().owned(at_.launch().level, 0));
    for (int d = 0; d < spatial_dimensions; ++d)  // lists of taps find the points of planes, not the planes
      if (of_.flips() || (d == 0 && gathers && !of_.transposed())) reader.stuffing[d] = node_.window[d].stride;
    return reader;
  }

  template <int KH, int KW, class Reader>
  void direct(const Reader& reader, const T* weights, const T* bias) const {
    constexpr bool is_product = KH * KW == 1 && !TileSizes::on_device;
    std::conditional_t<is_product, kernels::PointConvolution<Space, S, Reader>,
                       kernels::Convolution<Space, S, Reader, KH, KW>>
        kernel;
    set(kernel, reader, bias);
    const kernels::PackWeights<T> pack{weights,        at_.prepared(), of_.outputs,
                                       kernel.inputs,  KH * KW,        of_.gathers_transposed(),
                                       first_output(), layer_inputs(), node_.window[0].kernel};
    launch_range(at_.space(), "halogen::pack_weights", pack.work(), pack);
    kernel.shape = of_.shape();
    at_.over_tiles(label_, kernel);
  }

  /// The same by Winograd's algorithm.
  template <class Kernel, class Reader>
  void tiles(Kernel& kernel, const Reader& reader, const T* weights, const T* bias) const {
    set(kernel, reader, bias);
    const typename Kernel::Pack pack{weights,        at_.prepared(),        of_.outputs,
                                     kernel.inputs,  of_.gathers_input(),   first_output(),
                                     layer_inputs(), node_.window[0].kernel};
    launch_range(at_.space(), "halogen::pack_weights", pack.work(), pack);
    const kernels::PlaneWindow shape = of_.shape();
    for (int d = 0, level = at_.launch().level; d < 2; ++d) {
      kernel.padding[d] = shape.padding[d];
      kernel.owned[d] = at_.layout().owned(level, 1 + d);
      kernel.readable[d] = {-shape.padding[d],
                            at_.layout().level(level).extent(1 + d) - shape.padding[d] + shape.span(d) - 1};
    }
    at_.over_tiles(label_, kernel);
  }

  /// By lists of taps: groups, and windows that gather transposed.
  template <class Reader>
  void taps(const Reader& reader, const T* weights, const T* bias) const {
    kernels::TapConvolution<Space, S, Reader> kernel;
    kernel.input = reader;
    kernel.weights = at_.prepared();
    kernel.bias = bias;
    kernel.groups = of_.channel_groups(at_.plan().graph);
    kernel.first = first_output();
    kernel.window = {of_.shape(), of_.gathers_transposed()};
    const int count = kernel.window.taps();
    launch_range(at_.space(), "halogen::pack_weights", kernels::packed_tap_size(kernel.groups, count),
                 kernels::PackTapWeights<T>{weights, at_.prepared(), kernel.groups, count, kernel.window.transposed,
                                            node_.window[0].kernel});
    at_.over_tiles(label_, kernel);
  }

  /// What the form says: forward where the reader is a value's, the input gradient where it is a gradient's.
  template <Form F, class Reader>
  void convolve(const Reader& reader, const T* weights, const T* bias) const {
    constexpr ConvolutionForm form(F);
    if constexpr (form.stuffs_planes) {
      kernels::DepthWindow planes = depth_window(node_.window[0], at_.layout().owned(node_.level, 0));
      planes.padding = node_.window[0].span() - 1 - planes.padding;
      planes.stride = 1;
      taps(kernels::StuffedPlanes<Reader>{reader, planes, node_.window[0].stride}, weights, bias);
    } else if constexpr (form.by_taps) {
      taps(reader, weights, bias);
    } else if constexpr (form.by_rows) {
      kernels::WinogradRows<Space, S, form.winograd, Reader> kernel;
      tiles(kernel, reader, weights, bias);
    } else if constexpr (form.winograd > 0) {
      kernels::WinogradConvolution<Space, S, form.winograd, Reader> kernel;
      tiles(kernel, reader, weights, bias);
    } else {
      direct<form.kernel_height, form.kernel_width>(reader, weights, bias);
    }
  }

  /// The input gradient and, beside it, that of the weights between its source (operand 1) and all outputs; the first
  /// source's launch also sums the bias's, which lies behind the weights'.
  template <int Window, bool ByRows>
  void both(const T* weights, T* gradient) const {
    using Reader = kernels::GradientReader<S>;
    using Tiles = kernels::WinogradConvolution<Space, S, Window, Reader, kernels::WinogradWeights<S, Window>>;
    using Rows = kernels::WinogradRows<Space, S, Window, Reader, kernels::WinogradRowWeights<S, Window>>;
    std::conditional_t<ByRows, Rows, Tiles> kernel;
    auto& beside = kernel.beside;
    beside.input = at_.value(1);
    beside.channels = of_.outputs;
    beside.gradients = of_.inputs;
    beside.depth = node_.window[0].kernel;
    beside.bias = of_.bias() && at_.launch().source == 0;
    beside.partial = at_.template partials<T>();
    tiles(kernel, output_gradient(0, true), weights, nullptr);

    const index_t taps = index_t{beside.depth} * Window * Window, row = layer_inputs() * taps;
    const index_t count = at_.tiling().count();
    at_.add_blocks(beside.partial, beside.partial_size(), count, beside.weight_count(),
                   gradient + first_output() * taps, kernels::Groups{beside.channels * taps, row});
    if (beside.bias)
      at_.add_blocks(beside.partial + beside.weight_count(), beside.partial_size(), count, beside.outputs(),
                     gradient + node_.channels * row);
  }

  /// For dense windows: gradients of the weights, then of the bias, in consecutive memory.
  template <class Kernel, class Value>
  void weights_of(const Value& value, T* gradient) const {
    Kernel kernel;
    kernel.input = value;
    kernel.gradient = output_gradient(1, false);
    kernel.inputs = of_.inputs;
    kernel.outputs = node_.channels;
    kernel.shape = of_.shape();
    at_.over_blocks(label_, kernel, gradient, of_.bias() ? kernel.partial_size() : weight_count());
  }

  /// The same by direct loops or, for a kernel of one point with many channels, as a product of matrices.
  template <int KH, int KW, class Value>
  void weights_of_window(const Value& value, T* gradient) const {
    if constexpr (KH * KW == 1 && !TileSizes::on_device) {
      using Product = kernels::PointWeightGradient<Space, S, Value>;
      if (Product::serves(of_.inputs)) return weights_of<Product>(value, gradient);
    }
    weights_of<kernels::WeightGradient<Space, S, KH, KW, Value>>(value, gradient);
  }

  /// The same by lists of taps.
  template <class Value>
  void weights_of_taps(const Value& value, T* gradient) const {
    const auto slope = output_gradient(1, false);
    if (!of_.transposed()) return correlate(slope, value, weight_count() + (of_.bias() ? node_.channels : 0), gradient);
    Value points_of_input = value;
    points_of_input.depth = depth_window(Window{}, at_.layout().owned(at_.launch().level, 0));
    correlate(points_of_input, slope, weight_count(), gradient);
    if (!of_.bias()) return;
    const kernels::Tiling tiles =
        TileSizes::of_sums(at_.layout().owned(node_.level, 1), at_.layout().owned(node_.level, 2),
                           at_.layout().samples() * at_.layout().planes(node_.level));
    kernels::GradientReader<S> points = slope;
    points.depth = depth_window(Window{}, at_.layout().owned(node_.level, 0));
    at_.sum_channels("halogen::bias_gradient", points, tiles, gradient + weight_count());
  }

 private:
  int first_output() const { return of_.gathers_input() ? at_.first_channel() : 0; }
  int layer_inputs() const { return at_.plan().graph.parameters[node_.parameter].shape[1]; }
  index_t weight_count() const { return at_.plan().graph.parameters[node_.parameter].count; }

  kernels::DepthWindow depth() const {
    const Window& window = node_.window[0];
    kernels::DepthWindow depth = depth_window(window, at_.layout().owned(at_.launch().level, 0));
    if (of_.transposed()) return depth;
    depth.padding = window.span() - 1 - window.padding;  // by lists of taps as well
    depth.stride = 1;
    return depth;
  }

  template <class Kernel, class Reader>
  void set(Kernel& kernel, const Reader& reader, const T* bias) const {
    kernel.input = reader;
    kernel.weights = at_.prepared();
    kernel.bias = bias;
    kernel.inputs = of_.inputs;
  }

  template <class Points, class Windowed>
  void correlate(const Points& points, const Windowed& window, index_t size, T* gradient) const {
    kernels::TapWeightGradient<Space, S, Points, Windowed> kernel;
    kernel.points = points;
    kernel.window = window;
    kernel.groups = of_.channel_groups(at_.plan().graph);
    kernel.shape = of_.shape();
    at_.over_blocks(label_, kernel, gradient, size);
  }

  const LaunchAt<S>& at_;
  Convolution of_;
  const Node& node_;
  const char* label_;
};

}  // namespace halogen::detail
