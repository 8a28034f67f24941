// How one pass of a convolution is computed: which way its window runs, by which kernel, over which channels.
#pragma once

#include "halogen/kernels/tiles/tap_rows.hpp"
#include "halogen/layers/convolution/winograd_windows.hpp"
#include "halogen/plan/plan.hpp"

namespace halogen::detail {

struct ConvolutionConstants : Constants {
  int groups = 1;
  bool bias = true;
};

/// What a launch of a convolution computes. both_gradients: of its input and, in the same pass over the output's
/// gradient, of its weights.
enum class Pass : signed char { forward, input_gradient, both_gradients, weight_gradient };

/// One pass over given channels. What it reads counts once for each plane of the window.
struct Convolution {
  const Node& node;
  Pass pass;
  int inputs, outputs;

  constexpr Convolution(const Node& of, Pass what, const Value& input, int source)
      : node(of),
        pass(what),
        inputs((gathers_input() ? of.channels : input.channels()) * of.window[0].kernel),
        outputs(gathers_input() ? input.sources[source].channels : of.channels) {}
  Convolution(const Plan& plan, const Launch& launch, Pass what)
      : Convolution(plan.node_of(launch), what, plan.input_of(launch), launch.source) {}

  constexpr int groups() const { return node.as<ConvolutionConstants>().groups; }
  constexpr bool bias() const { return node.as<ConvolutionConstants>().bias; }
  constexpr bool transposed() const { return node.window[0].transposed; }
  /// Whether it computes the gradient of its input, from that of its output.
  constexpr bool gathers_input() const { return pass == Pass::input_gradient || pass == Pass::both_gradients; }
  /// Whether it gathers through the transposed window: a convolution's input gradient, a transposed one's forward.
  constexpr bool gathers_transposed() const { return gathers_input() != transposed(); }

  /// Whether the kernels over lists of taps run it: groups, and transposed windows unless they are the flipped window
  /// of a stride of 1. All others are dense windows with sizes that the compiler knows, or have depth.
  constexpr bool by_taps() const {
    if (groups() > 1) return true;
    if (!gathers_input() || transposed()) return transposed() && !gathers_input();
    const bool plane = node.window[0].span() == 1 && node.window[0].stride == 1;
    return plane && (node.window[1].stride > 1 || node.window[2].stride > 1);
  }

  /// Whether it runs the flipped window instead, with zeros stuffed between the points of a stride.
  constexpr bool flips() const { return gathers_input() && !transposed() && !by_taps(); }

  /// The window that it computes whole tiles of by Winograd's algorithm (layers/convolution/winograd_windows.hpp), else
  /// 0.
  constexpr int winograd() const {
    if (groups() > 1 || transposed()) return 0;
    return winograd_window(node.window[1], node.window[2], inputs, outputs);
  }
  /// Whether it transforms down the columns alone.
  constexpr bool winograd_by_rows() const {
    return pass != Pass::weight_gradient && halogen::winograd_by_rows(winograd(), inputs, outputs) &&
           (pass != Pass::both_gradients || winograd_rows_sum_weights(inputs, outputs));
  }

  /// Weights are stored as (first, second of a group, KH, KW): a convolution's outputs and inputs, a transposed one's
  /// inputs and outputs. The groups of the pass, outputs and inputs as it computes them.
  constexpr kernels::ChannelGroups channel_groups(const Graph& graph) const {
    const ParameterShape& weight = graph.parameters[node.parameter];
    const int first = weight.shape[0] / groups(), second = weight.shape[1];
    const bool swapped = pass != Pass::weight_gradient && gathers_transposed();
    return {groups(), swapped ? second : first, (swapped ? first : second) * node.window[0].kernel};
  }

  /// The window that it runs: the layer's own, or flipped.
  constexpr kernels::PlaneWindow shape() const {
    kernels::PlaneWindow shape;
    for (int d = 0; d < 2; ++d) {
      const Window& window = node.window[1 + d];
      shape.kernel[d] = window.kernel;
      shape.dilation[d] = window.dilation;
      shape.padding[d] = window.padding;
      shape.stride[d] = window.stride;
      if (flips()) {
        shape.padding[d] = window.span() - 1 - window.padding;
        shape.stride[d] = 1;
      }
    }
    return shape;
  }
};

/// The numbers that the types of its kernels depend on.
struct ConvolutionForm {
  bool by_taps = false;                     ///< by the kernels over lists of taps
  bool stuffs_planes = false;               ///< of taps: a transposed window with depth; what follows is not asked
  int winograd = 0;                         ///< the window that is computed by Winograd's tiles, else 0
  bool by_rows = false;                     ///< Winograd's down the columns alone
  int kernel_height = 0, kernel_width = 0;  ///< by direct loops

  constexpr explicit ConvolutionForm(const Convolution& of) : by_taps(of.by_taps()) {
    stuffs_planes =
        by_taps && of.transposed() && of.pass == Pass::forward && of.node.window[0] != Window{.transposed = true};
    if (by_taps) return;
    winograd = of.winograd();
    by_rows = of.winograd_by_rows();
    if (winograd > 0) return;
    kernel_height = of.node.window[1].kernel;
    kernel_width = of.node.window[2].kernel;
  }
  constexpr explicit ConvolutionForm(const Form& form)
      : by_taps(form.number[0] != 0),
        stuffs_planes(form.number[5] != 0),
        winograd(form.number[1]),
        by_rows(form.number[2] != 0),
        kernel_height(form.number[3]),
        kernel_width(form.number[4]) {}
  constexpr operator Form() const {  // NOLINT
    return {{by_taps, winograd, by_rows, kernel_height, kernel_width, stuffs_planes}};
  }
};

}  // namespace halogen::detail
