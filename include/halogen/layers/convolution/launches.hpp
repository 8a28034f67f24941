// The launches of convolutions and transposed convolutions: forward, gradients of the input, of the weights, of both.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/layers/convolution/kernels.hpp"
#include "halogen/run/layout_levels.hpp"

namespace halogen::detail {

/// PyTorch's condition on output_size, which an extent taken from a skip may miss.
void check_transposed(const Node& node, int dimension, index_t input, index_t output);

#if HALOGEN_BODIES
HALOGEN_INLINE void check_transposed(const Node& node, int dimension, index_t input, index_t output) {
  Window window = node.window[dimension];
  const std::string layer = layer_text(node);
  if (window.periodic && output != input * window.stride)
    throw CollectiveError(layer + " has a periodic window of stride " + std::to_string(window.stride) + " over " +
                          std::to_string(input) + " points with " + std::to_string(output) +
                          " outputs; it needs outputs = stride * extent: pad so much, or use Zero");
  window.output_padding = 0;
  const index_t least = window.output_extent(input), room = std::max(window.stride, window.dilation);
  if (output >= least && output < least + room) return;
  throw CollectiveError(layer + " makes " + std::to_string(least) + " to " + std::to_string(least + room - 1) + " of " +
                        std::to_string(input) + " " + spatial_points[dimension] + "s, the skip has " +
                        std::to_string(output) + ": give it the stride of what led down");
}
#endif

/// What all passes share.
template <Pass Is>
struct ConvolutionLaunch {
  static constexpr Form form(const Node& node, const Value& input, int source) {
    return ConvolutionForm(Convolution(node, Is, input, source));
  }
  /// Whole tiles are computed on the global grid, so that a launch must read what they hold: a declared halo. Weight
  /// gradients are sums over points, whatever tiles they are computed in.
  static constexpr std::array<int, 3> grid(const Node& node, const Value& input, int source) {
    const Convolution of(node, Is, input, source);
    if (Is == Pass::weight_gradient || of.winograd() == 0) return {1, 1, 1};
    const int tile = winograd_tile(of.winograd());
    return {1, tile, of.winograd_by_rows() ? 1 : tile};
  }
  static kernels::Tiling tiling(const LaunchPlace& at) { return ConvolutionTiles(at, Is).tiling(); }
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling) {
    return ConvolutionTiles(at, Is).workspace(tiling);
  }
  static const char* remark(const Form& form) { return ConvolutionForm(form).winograd > 0 ? "; Winograd" : ""; }
};

struct ConvolutionForward : ConvolutionLaunch<Pass::forward> {
  static constexpr const char* label = "halogen::conv2d";
  static constexpr bool adds_as_rows_leave = true;
  static void check(const Node& node, int dimension, index_t input, index_t output) {
    if (node.window[dimension].transposed) check_transposed(node, dimension, input, output);
  }
  template <class S, Form F>
  static void run(const LaunchAt<S>& at) {
    const ConvolutionRun<S, Pass::forward> run(at, label);
    const bool bias = at.node().template as<ConvolutionConstants>().bias;  // else a map's parameter may follow
    run.template convolve<F>(at.template windowed_value<F>(0), at.parameter(0), bias ? at.parameter(1) : nullptr);
  }
};

struct ConvolutionInputGradient : ConvolutionLaunch<Pass::input_gradient> {
  static constexpr const char *label = "halogen::conv2d_input_gradient", *suffix = " input gradient";
  template <class S, Form F>
  static void run(const LaunchAt<S>& at) {
    const ConvolutionRun<S, Pass::input_gradient> run(at, label);
    run.template convolve<F>(run.output_gradient(0, true), at.parameter(0), nullptr);
  }
};

struct ConvolutionGradients : ConvolutionLaunch<Pass::both_gradients> {
  static constexpr const char *label = "halogen::conv2d_gradients", *suffix = " gradients";
  template <class S, Form F>
  static void run(const LaunchAt<S>& at) {
    constexpr ConvolutionForm form(F);
    const ConvolutionRun<S, Pass::both_gradients> run(at, label);
    run.template both<form.winograd, form.by_rows>(at.parameter(0), at.parameter_gradient(1));
  }
};

struct ConvolutionWeightGradient : ConvolutionLaunch<Pass::weight_gradient> {
  static constexpr const char *label = "halogen::conv2d_weight_gradient", *suffix = " weight gradient";
  template <class S, Form F>
  static void run(const LaunchAt<S>& at) {
    constexpr ConvolutionForm form(F);
    const ConvolutionRun<S, Pass::weight_gradient> run(at, label);
    compute_type<S>* const gradient = at.parameter_gradient(0);
    const auto input = at.template windowed_value<F>(0);
    using Input = std::decay_t<decltype(input)>;
    if constexpr (form.by_taps)
      run.weights_of_taps(input, gradient);
    else if constexpr (form.winograd > 0)
      run.template weights_of<kernels::WinogradWeightGradient<execution_space, S, form.winograd, Input>>(input,
                                                                                                         gradient);
    else
      run.template weights_of_window<form.kernel_height, form.kernel_width>(input, gradient);
  }
};

}  // namespace halogen::detail
