// Runs one launch of a plan: here a launch type and a form become kernels. None of it knows the model, so that programs
// can share it. halogen::compiled has it for the library's launch types in their usual forms.
#pragma once

#include <array>

#include "halogen/core/config.hpp"
#include "halogen/run/common_launch_kernels.hpp"
#include "halogen/run/loss_launch.hpp"

namespace halogen {

/// Runs a launch of type L whose form is F.
template <class S, class L, Form F>
HALOGEN_NOINLINE void run_launch(const LaunchAt<S>& at) {
  constexpr bool has_rows = requires { L::template rows<S, F>(at); };
  constexpr bool has_point = requires { L::template point<S, F>(at); };
  constexpr bool has_run = requires { L::template run<S, F>(at); };
  static_assert(has_rows + has_point + has_run == 1,
                "a launch type has one of rows<S, F>(at), point<S, F>(at), run<S, F>(at) and evaluate<S>(at, context)");
  if constexpr (has_rows)
    at.over_rows(L::label, L::template rows<S, F>(at));
  else if constexpr (has_point)
    at.over_points(L::label, L::template point<S, F>(at));
  else if constexpr (has_run)
    L::template run<S, F>(at), at.expect_contract();
}

namespace detail {

/// Runs a launch that evaluates expressions of fields of type Image.
template <class S, class L, class Image>
HALOGEN_NOINLINE void evaluate_launch(const LaunchAt<S>& at) {
  L::evaluate(at, at.template fields<Image>());
  at.expect_contract();
}

/// The function that runs the launches of one type and form.
template <class S>
using LaunchFunction = void (*)(const LaunchAt<S>&);

template <class S, class L, Form F, class Image>
constexpr LaunchFunction<S> launch_function() {
  if constexpr (requires(const LaunchAt<S>& at, FieldContext<Image>& context) { L::evaluate(at, context); })
    return &evaluate_launch<S, L, Image>;
  else
    return &run_launch<S, L, F>;
}

/// What the compiler needs to know of a launch. It reads this and not the plan, because nvcc keeps a copy of what it
/// reads for each access.
struct LaunchForm {
  const char* type = nullptr;  ///< core/type_of.hpp
  Form form;
  constexpr bool operator==(const LaunchForm&) const = default;
};

/// The forms of a plan's launches, each once, and which of them each launch has. Count is the number of launches.
template <int Count>
struct LaunchForms {
  std::array<LaunchForm, Count> form{};
  int forms = 0;
  std::array<short, Count> of_launch{};

  constexpr explicit LaunchForms(const Plan& plan) {
    for (int i = 0; i < Count; ++i) {
      const LaunchForm own{plan.launches[i].kind->type, plan.launches[i].form};
      int found = 0;
      while (found < forms && form[found] != own) ++found;
      if (found == forms) form[forms++] = own;
      of_launch[i] = static_cast<short>(found);
    }
  }
};

}  // namespace detail

/// How a plan's launches are run: a function for each type and form that occurs, and the number of its function for
/// each launch. Both live as long as the program.
template <class S>
struct LaunchTable {
  const detail::LaunchFunction<S>* functions;
  const short* of_launch;

  void run(int launch, const LaunchAt<S>& at) const { functions[of_launch[launch]](at); }
};

namespace detail {
template <class PlanOf, class S, class Image>
struct LaunchTableOf {
  static constexpr LaunchForms<PlanOf::plan().launches.size()> forms{PlanOf::plan()};
  static constexpr auto functions = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<LaunchFunction<S>, sizeof...(I)>{
        launch_function<S, type_of_address<forms.form[I].type>, forms.form[I].form, Image>()...};
  }(std::make_integer_sequence<int, forms.forms>{});
};
}  // namespace detail

/// The table of a plan whose launches evaluate expressions of fields of type Image; void if none does.
template <class PlanOf, class S, class Image>
inline constexpr LaunchTable<S> launch_table = {detail::LaunchTableOf<PlanOf, S, Image>::functions.data(),
                                                detail::LaunchTableOf<PlanOf, S, Image>::forms.of_launch.data()};

}  // namespace halogen
