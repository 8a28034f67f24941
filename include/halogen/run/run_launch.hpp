// Runs one launch of a plan: this function turns a launch type and a form into kernels. It does not know the model, so
// that programs can share it. halogen::compiled has it for the library's launch types in their usual forms.
#pragma once

#include <array>

#include "halogen/core/config.hpp"
#include "halogen/run/common_launch_kernels.hpp"

namespace halogen {

/// What the compiler needs to know of a launch. It reads this and not the plan, because nvcc keeps a copy of what it
/// reads for each access.
struct LaunchForm {
  const char* type = nullptr;  ///< core/type_of.hpp
  Form form;
};

/// The forms of all launches of a plan. Count is the number of launches.
template <int Count>
constexpr std::array<LaunchForm, Count> launch_forms(const Plan& plan) {
  std::array<LaunchForm, Count> forms;
  for (int i = 0; i < Count; ++i) forms[i] = {plan.launches[i].kind->type, plan.launches[i].form};
  return forms;
}

/// Runs a launch of type L whose form is F.
template <class S, class L, Form F>
HALOGEN_NOINLINE void run_launch(const LaunchAt<S>& at) {
  constexpr bool has_rows = requires { L::template rows<S, F>(at); };
  constexpr bool has_point = requires { L::template point<S, F>(at); };
  constexpr bool has_run = requires { L::template run<S, F>(at); };
  static_assert(has_rows + has_point + has_run == 1,
                "a launch type has one of rows<S, F>(at), point<S, F>(at) and run<S, F>(at), or evaluates_fields and "
                "evaluate<S>(at, context)");
  if constexpr (has_rows)
    at.over_rows(L::label, L::template rows<S, F>(at));
  else if constexpr (has_point)
    at.over_points(L::label, L::template point<S, F>(at));
  else if constexpr (has_run)
    L::template run<S, F>(at), at.expect_contract();
}

}  // namespace halogen
