// The launches that belong to no operation: values and gradients written out where somebody must read them stored.
// Their kernels stand in run/common_launches.hpp.
#pragma once

#include "halogen/plan/launch.hpp"

namespace halogen {

template <class S>
class LaunchAt;

/// A value written out, where a norm or a second resampling needs it stored.
struct StoreValue {
  static constexpr const char *label = "halogen::store", *name = "store";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at);
};

/// Its adjoint: the gradient of what was written out, through what its source's other readers see.
struct StoreGradient {
  static constexpr const char *label = "halogen::store_backward", *name = "store backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at);
};

/// Gradients of several activations of one tensor, added into one.
struct AddGradients {
  static constexpr const char *label = "halogen::gradient_store", *name = "gradient sum";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at);
};

/// How a source is seen at another resolution, for the kernel of its adjoint.
enum class Resampling { nearest, linear, padded };

/// Adjoint of the resampling with which a reader sees a source.
struct ResamplingAdjoint {
  static constexpr const char *label = "halogen::upsample_backward", *name = "upsample backward";
  static constexpr Form form(const Node&, const Value& input, int source) {
    const Source& of = input.sources[source];
    return {{static_cast<int>(of.linear        ? Resampling::linear
                              : of.is_padded() ? Resampling::padded
                                               : Resampling::nearest)}};
  }
  template <class S, Form F>
  static auto rows(const LaunchAt<S>& at);
};

/// The same of a vector that each point sees: the sum over all points, those of other ranks too.
struct ExpandAdjoint {
  static constexpr const char *label = "halogen::expand_backward", *name = "expand backward";
  static constexpr bool common_output = false;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling);
  static constexpr const char* remark(const Form&) { return "; all_reduce of its sums"; }
  template <class S, Form>
  static void run(const LaunchAt<S>& at);
};

/// Of a tensor that no launch writes, the user's: its output is read.
struct Moments {
  static constexpr const char *label = "halogen::moments", *name = "moments";
  template <class S, Form>
  static void run(const LaunchAt<S>& at);
};

/// The loss and its gradient, by EvaluationParts::run_loss.
struct LossLaunch {
  static constexpr const char *label = "halogen::loss", *name = "loss";
  static constexpr bool common_output = false;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling);
};

}  // namespace halogen
