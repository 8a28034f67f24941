// Gradients of expressions with respect to fields: value_and_grad_of, grad and vjp.
#pragma once

#include "halogen/autograd/broadcast.hpp"

namespace halogen {
namespace detail {

/// f of the fields as variables of `user`.
template <class F, class... Fields>
auto call_with_variables(const char* user, F& f, const Fields&... fields) {
  static_assert(
      (std::is_floating_point_v<compute_type<typename Fields::value_type>> && ...),
      "gradient_needs_real_fields: a field of integers has no gradient: capture it in the function instead of "
      "passing it");
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return as_expression(f(VariableLeaf<static_cast<int>(I), Fields>(fields, user)...));
  }(std::index_sequence_for<Fields...>{});
}

/// Says so where a result has no gradient.
template <class E>
  requires(!std::is_integral_v<typename E::value_type>)
void check_differentiable(const E&) {}
template <class E, class Why = why::integer_has_no_gradient>
  requires std::is_integral_v<typename E::value_type>
void check_differentiable(const E&) = delete;

/// The first of Count variables on which an expression does not depend, or only by functions without a gradient; -1 if
/// there is none.
template <int Count, class E>
constexpr int variable_without_gradient() {
  if constexpr (!std::is_integral_v<typename E::value_type>)  // check_differentiable has said that
    for (int index = 0; index < Count; ++index)
      if ((variables_of<E> >> index & 1u) == 0) return index;
  return -1;
}
/// Says so where the gradient of a variable would be 0 whatever the values are.
template <int Count, class E>
  requires(variable_without_gradient<Count, E>() < 0)
void check_variables(const E&) {}
template <int Count, class E, class Why = why::variable_has_no_gradient<variable_without_gradient<Count, E>()>>
  requires(variable_without_gradient<Count, E>() >= 0)
void check_variables(const E&) = delete;

/// The same as value_and_grad_of; Each: f depends on each of its arguments, else it does not compile.
template <bool Each, class F, class... Fields>
auto value_and_gradients(F& f, const Fields&... fields) {
  const EvaluationScope scope;
  const auto loss = call_with_variables("value_and_grad", f, fields...);
  static_assert(std::is_same_v<typename std::decay_t<decltype(loss)>::placed, NotPlaced>,
                "gradient_needs_a_scalar: return a sum(...), a mean(...) or another number made of reductions");
  check_differentiable(loss);
  check_variables<Each ? static_cast<int>(sizeof...(Fields)) : 0>(loss);
  Gradients<Fields...> gradients(fields...);
  backward(loss, Constant<double>(1), static_cast<GradientSink&>(gradients));
  return std::tuple_cat(std::tuple(static_cast<double>(loss.item())), gradients.finish());
}

}  // namespace detail

/// (value, gradient with respect to each field): f takes the fields as variables and returns a number made of sums,
/// means and other reductions. Collective; each gradient is placed as its field. A field on which the number does not
/// depend does not compile (why::variable_has_no_gradient).
template <class F, class... Fields>
  requires(is_sharded<Fields> && ...)
auto value_and_grad_of(F& f, const Fields&... fields) {
  return detail::value_and_gradients<true>(f, fields...);
}

/// grad(f)(u, ...): the gradients of f alone: one field, or a tuple of them.
template <class F>
auto grad(F f) {
  return [f]<class... Fields>(const Fields&... fields) mutable requires(is_sharded<Fields>&&...) {
    auto all = value_and_grad_of(f, fields...);
    if constexpr (sizeof...(Fields) == 1)
      return std::get<1>(all);
    else
      return std::apply([](double, const auto&... gradient) { return std::tuple(gradient...); }, all);
  };
}

/// vjp(f, u, ...): f's value as a field, and a function that takes a cotangent placed as that and returns the tuple of
/// gradients, each placed as its field. Fields keep the values that they had.
template <class F, class... Fields>
  requires(is_sharded<Fields> && ...)
auto vjp(F f, const Fields&... fields) {
  const auto expression = detail::call_with_variables("vjp", f, fields...);
  detail::check_differentiable(expression);
  detail::check_variables<static_cast<int>(sizeof...(Fields))>(expression);
  using Value = detail::field_of_t<std::decay_t<decltype(expression)>>;
  Value value = expression;
  auto pullback = [expression, fields...](const Value& cotangent) {
    const detail::EvaluationScope scope;
    detail::Gradients<Fields...> sums(fields...);
    detail::backward(expression, detail::leaf(cotangent), static_cast<detail::GradientSink&>(sums));
    return sums.finish();
  };
  return std::pair(value, pullback);
}

}  // namespace halogen
