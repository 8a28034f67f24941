// One launch of a plan: the function by which a launch's form becomes kernels. It does not know the model, so that
// programs share it, and halogen::compiled holds it for the usual forms.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/run/launch_form.hpp"
#include "halogen/run/row_launches.hpp"
#include "halogen/run/tap_launches.hpp"
#include "halogen/run/window_launches.hpp"

namespace halogen {

/// The parameters of a launch's node: null where the launch does not use them.
template <class T>
struct NodeParameters {
  const T* weights = nullptr;
  const T* bias = nullptr;
  T* gradient = nullptr;  ///< of the weights; the bias's follows
};

namespace detail {

template <LaunchForm Form, class S, class Reader>
void convolve(const WindowLaunches<S>& launches, int i, const Reader& reader,
              const NodeParameters<compute_type<S>>& of) {
  if constexpr (Form.winograd_by_rows)
    launches.template convolve_rows<Form.winograd>(i, reader, of.weights, of.bias);
  else if constexpr (Form.winograd > 0)
    launches.template convolve_tiles<Form.winograd>(i, reader, of.weights, of.bias);
  else
    launches.template convolve<Form.kernel_height, Form.kernel_width>(i, reader, of.weights, of.bias);
}

}  // namespace detail

/// Runs launch i of the plan, whose form is Form.
template <class S, LaunchForm Form>
HALOGEN_NOINLINE void run_launch(const Launches<S>& at, int i, const NodeParameters<compute_type<S>>& parameters) {
  using Space = execution_space;
  const WindowLaunches<S> windows(at);
  if constexpr (Form.by_taps && Form.kind == LaunchKind::conv_weight_gradient)
    TapLaunches<S>(at).weight_gradient(i, parameters.gradient);
  else if constexpr (Form.by_taps)
    TapLaunches<S>(at).convolve(i, parameters.weights, parameters.bias);
  else if constexpr (Form.kind == LaunchKind::conv_weight_gradient && Form.winograd > 0)
    windows.weight_gradient(i, kernels::WinogradWeightGradient<Space, S, Form.winograd>{}, parameters.gradient);
  else if constexpr (Form.kind == LaunchKind::conv_weight_gradient)
    windows.weight_gradient(i, kernels::WeightGradient<Space, S, Form.kernel_height, Form.kernel_width>{},
                            parameters.gradient);
  else if constexpr (Form.kind == LaunchKind::conv_forward)
    detail::convolve<Form>(windows, i, at.operands().value_reader(at.launch(i).input, &at.node(i)), parameters);
  else if constexpr (Form.weights)
    windows.template convolve_with_weights<Form.winograd, Form.winograd_by_rows>(i, parameters.weights,
                                                                                 parameters.gradient);
  else if constexpr (Form.kind == LaunchKind::conv_input_gradient)
    detail::convolve<Form>(windows, i, at.operands().gradient_reader(at.launch(i)), parameters);
  else
    RowLaunches<S>(at).template run<Form.kind, Form.resampling>(i);
}

}  // namespace halogen
