// One launch of a plan: the function by which a launch type and a form become kernels. It does not know the model, so
// that programs share it, and halogen::compiled holds it for the library's launch types in their usual forms.
#pragma once

#include <array>

#include "halogen/core/config.hpp"
#include "halogen/run/common_launches.hpp"

namespace halogen {

/// What the compiler asks of a launch. It asks this, not the plan: nvcc keeps a copy of what it looks into for each
/// look.
struct LaunchForm {
  const char* type = nullptr;  ///< core/type_of.hpp
  Form form;
};

/// Of all launches of a plan; Count is their number.
template <int Count>
constexpr std::array<LaunchForm, Count> launch_forms(const Plan& plan) {
  std::array<LaunchForm, Count> forms;
  for (int i = 0; i < Count; ++i) forms[i] = {plan.launches[i].kind->type, plan.launches[i].form};
  return forms;
}

/// Runs a launch of type L whose form is F.
template <class S, class L, Form F>
HALOGEN_NOINLINE void run_launch(const LaunchAt<S>& at) {
  if constexpr (requires { L::template rows<S, F>(at); })
    at.over_rows(L::label, L::template rows<S, F>(at));
  else if constexpr (requires { L::template point<S, F>(at); })
    at.over_points(L::label, L::template point<S, F>(at));
  else if constexpr (requires { L::template run<S, F>(at); })
    L::template run<S, F>(at);
  else
    static_assert(!sizeof(L), "a launch type has rows<S, F>(at), point<S, F>(at) or run<S, F>(at)");
}

}  // namespace halogen
