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

}  // namespace detail

/// (value, gradient with respect to each field): f takes the fields as variables and returns a number made of sums,
/// means and other reductions. Collective; each gradient is placed as its field.
template <class F, class... Fields>
  requires(is_sharded<Fields> && ...)
auto value_and_grad_of(F& f, const Fields&... fields) {
  const detail::EvaluationScope scope;
  const auto loss = detail::call_with_variables("value_and_grad", f, fields...);
  static_assert(std::is_same_v<typename std::decay_t<decltype(loss)>::placed, NotPlaced>,
                "gradient_needs_a_scalar: return a sum(...), a mean(...) or another number made of reductions");
  detail::check_differentiable(loss);
  detail::Gradients<Fields...> gradients(fields...);
  detail::backward(loss, Constant<double>(1), static_cast<detail::GradientSink&>(gradients));
  return std::tuple_cat(std::tuple(static_cast<double>(loss.item())), gradients.finish());
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
