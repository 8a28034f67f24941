// Launches that belong to no operation. They write out values and gradients that somebody must read as stored tensors.
// Their kernels are in run/common_launch_kernels.hpp.
#pragma once

#include "halogen/plan/launch.hpp"

namespace halogen {

template <class S>
class LaunchAt;

/// Writes out a value, because an affine or a second resampling needs it as a stored tensor.
struct StoreValue {
  static constexpr const char *label = "halogen::store", *name = "store";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at);
};

/// The adjoint of StoreValue. It computes the gradient of the tensor that was written out, and writes or adds it to the
/// gradient of one source.
struct StoreGradient {
  static constexpr const char *label = "halogen::store_backward", *name = "store backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at);
};

/// Adds the gradients of several activations of one tensor.
struct AddGradients {
  static constexpr const char *label = "halogen::gradient_store", *name = "gradient sum";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at);
};

/// How a source is resampled. The kernel of the adjoint depends on it.
enum class Resampling { nearest, linear, padded };

/// Adjoint of the resampling that a reader applies to a source.
struct ResamplingAdjoint {
  static constexpr const char *label = "halogen::resampling_backward", *name = "resampling backward";
  static constexpr Form form(const Node&, const Value& input, int source) {
    const Source& of = input.sources[source];
    return {{static_cast<int>(of.linear        ? Resampling::linear
                              : of.is_padded() ? Resampling::padded
                                               : Resampling::nearest)}};
  }
  template <class S, Form F>
  static auto rows(const LaunchAt<S>& at);
};

/// Adjoint of a vector that each point reads: the sum over all points, also those of other ranks.
struct ExpandAdjoint {
  static constexpr const char *label = "halogen::expand_backward", *name = "expand backward";
  static constexpr bool common_output = false;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling);
  template <class S, Form>
  static void run(const LaunchAt<S>& at);
};

/// Sums of a stored tensor that its writer does not gather: no launch writes the user's field, and launches without
/// common_output gather none. The launch reads the tensor and has no output.
struct TensorSums {
  template <class S, Form>
  static void run(const LaunchAt<S>& at);
};
/// Moments for an affine.
struct Moments : TensorSums {
  static constexpr const char *label = "halogen::moments", *name = "moments";
};
/// Sums of a gradient that is complete, for the affine of its activation.
struct GradientSums : TensorSums {
  static constexpr const char *label = "halogen::gradient_sums", *name = "gradient sums";
};

/// The loss of one output and its gradient (run/loss_launch.hpp). All losses of a plan stand side by side.
struct LossLaunch {
  static constexpr const char *label = "halogen::loss", *name = "loss";
  static constexpr bool common_output = false;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling);
  template <class S, Form>
  static void run(const LaunchAt<S>& at);
};

}  // namespace halogen
