// Variances and functions of exponentials: var, std, logsumexp, softmax, log_softmax, over all points or over given
// dimensions. They are expressions of reductions, from which placements, messages and gradients follow.
//
//   function              value                                   reductions, each one all_reduce where D is cut
//   var<D>(u)             sum (u - mean)^2 / (N - correction)     two: the mean, then the squares
//   logsumexp<D>(u)       m + log(sum exp(u - m)), m the maximum  two: the maximum, then the sum
//   softmax<D>(u)         exp(u - m) / sum exp(u - m)             two, and one kernel
//
// The mean, the squares and their sum are computed in double and rounded once. The maximum and the mean of a variance
// need no gradient, because their contribution is 0.
#pragma once

#include <algorithm>

#include "halogen/array/stages/reduced.hpp"
#include "halogen/core/loss_reduction.hpp"

namespace halogen {
namespace detail {

/// The number of points along some dimensions; of all if none is given.
template <int... Dims, class E>
double points_along(const E& e) {
  double points = 1;
  for (int d = 0; d < E::placed::rank; ++d)
    if (sizeof...(Dims) == 0 || ((d == Dims) || ...)) points *= static_cast<double>(stored_extent(e, d));
  return points;
}

template <int... Dims, class X, class... Keep>
auto variance(const X& x, double correction, Keep... keep) {
  const auto wide = widened(x);
  const double divisor = std::max(0.0, points_along<Dims...>(wide) - correction);
  if constexpr (sizeof...(Dims) == 0)
    return sum(square(wide - detach(mean(wide)))) / divisor;
  else
    return sum<Dims...>(square(wide - detach(mean<Dims...>(wide, keep_dimensions))), keep...) / divisor;
}

/// The number that is subtracted from all exponents; 0 if the largest is infinite, as in PyTorch.
template <class M>
auto finite_part(const M& largest) {
  return detach(where(isfinite(largest), largest, typename M::value_type(0)));
}

}  // namespace detail

/// The sum of squared deviations from the mean over N - correction, as torch.var: NaN if N is not larger than the
/// correction. For integers in double.
template <FieldOperand X>
auto var(const X& x, double correction = 1) {
  return detail::variance(x, correction);
}
template <int First, int... Dims, FieldOperand X>
auto var(const X& x, double correction = 1) {
  return detail::in_type_of<X>(detail::variance<First, Dims...>(x, correction));
}
template <int First, int... Dims, FieldOperand X>
auto var(const X& x, KeepDimensions keep, double correction = 1) {
  return detail::in_type_of<X>(detail::variance<First, Dims...>(x, correction, keep));
}

/// The square root of var. Its derivative at 0 is 0, as that of torch.std.
template <FieldOperand X>
auto std(const X& x, double correction = 1) {
  return detail::root_of_squares(detail::variance(x, correction));
}
template <int First, int... Dims, FieldOperand X>
auto std(const X& x, double correction = 1) {
  return detail::in_type_of<X>(detail::root_of_squares(detail::variance<First, Dims...>(x, correction)));
}
template <int First, int... Dims, FieldOperand X>
auto std(const X& x, KeepDimensions keep, double correction = 1) {
  return detail::in_type_of<X>(detail::root_of_squares(detail::variance<First, Dims...>(x, correction, keep)));
}

/// log(sum(exp(x))) without overflow, as torch.logsumexp. For integers in double.
template <FieldOperand X>
auto logsumexp(const X& x) {
  const auto wide = detail::wide(x);
  const auto largest = detail::finite_part(max(wide));
  return log(sum(exp(wide - largest))) + largest;
}
template <int First, int... Dims, FieldOperand X>
auto logsumexp(const X& x) {
  const auto wide = detail::wide(x);
  const auto largest = max<First, Dims...>(wide);
  using Largest = detail::reduce_dims_t<detail::MaxOp, false, std::decay_t<decltype(wide)>, First, Dims...>;
  const auto kept = detail::finite_part(detail::keep<Largest>(largest));
  return log(sum<First, Dims...>(exp(wide - kept))) + detail::finite_part(as_expression(largest));
}
template <int First, int... Dims, FieldOperand X>
auto logsumexp(const X& x, KeepDimensions) {
  const auto wide = detail::wide(x);
  const auto largest = detail::finite_part(max<First, Dims...>(wide, keep_dimensions));
  return log(sum<First, Dims...>(exp(wide - largest), keep_dimensions)) + largest;
}

/// exp(x) divided by its sum along the given dimensions, as torch.softmax; NaN if all values along them are -infinity.
template <int First, int... Dims, FieldOperand X>
auto softmax(const X& x) {
  const auto wide = detail::wide(x);
  const auto powers = exp(wide - detach(max<First, Dims...>(wide, keep_dimensions)));
  return powers / sum<First, Dims...>(powers, keep_dimensions);
}
/// Its logarithm, as torch.log_softmax.
template <int First, int... Dims, FieldOperand X>
auto log_softmax(const X& x) {
  return detail::wide(x) - logsumexp<First, Dims...>(x, keep_dimensions);
}

namespace detail {
template <class P, class Y, class W>
auto dice_each(const P& p, const Y& y, const W& weighted, double smooth) {
  static_assert(placed_at<P>::rank > 2, "dice compares fields (N, C, points)");
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    const auto total = [&](const auto& e) { return sum<2 + D...>(weighted(e)); };
    const auto a = widened(p);
    const auto b = widened(y);
    return in_type_of<P>(1.0 - (2.0 * total(a * b) + smooth) / (total(a) + total(b) + smooth));
  }(std::make_integer_sequence<int, placed_at<P>::rank - 2>{});
}
}  // namespace detail

/// The soft Dice loss of segments (Milletari et al. 2016), as MONAI's. For each sample and channel, (N, C), it is 1 -
/// (2 sum(p y) + smooth) / (sum(p) + sum(y) + smooth). The sums go over the points. With a field of weights, (N, 1,
/// points), each point is multiplied by its weight; points of weight 0 may be NaN. p: probabilities, y: 0 or 1.
/// Computed in double and rounded once to the type of p.
template <FieldOperand P, FieldOperand Y>
auto dice_each(const P& p, const Y& y, double smooth = 1e-5) {
  return detail::dice_each(
      p, y, [](const auto& e) { return e; }, smooth);
}
template <FieldOperand P, FieldOperand Y, FieldOperand W>
auto dice_each(const P& p, const Y& y, const W& weight, double smooth = 1e-5) {
  const auto weights = expand<1>(detail::widened(weight));
  return detail::dice_each(
      p, y, [&](const auto& e) { return where(weights != 0.0, weights * e, 0.0); }, smooth);
}

/// smooth: added to both sides of the fraction. reduction: over samples and channels; batch_mean: the sum divided by
/// the number of samples.
struct DiceOptions {
  double smooth = 1e-5;
  LossReduction reduction{};
};

namespace detail {
template <class E>
auto reduced(const E& each, LossReduction reduction) {
  const double divisor = reduction == LossReduction::mean  ? points_along(each)
                         : reduction == LossReduction::sum ? 1.0
                                                           : points_along<0>(each);
  return sum(each) / divisor;
}
}  // namespace detail

/// dice_each of all samples and channels, reduced to one number: dice(p, y, {.smooth = 1, .reduction =
/// LossReduction::sum}).
template <FieldOperand P, FieldOperand Y>
auto dice(const P& p, const Y& y, const DiceOptions& options = {}) {
  return detail::reduced(dice_each(p, y, options.smooth), options.reduction);
}
template <FieldOperand P, FieldOperand Y, FieldOperand W>
auto dice(const P& p, const Y& y, const W& weight, const DiceOptions& options = {}) {
  return detail::reduced(dice_each(p, y, weight, options.smooth), options.reduction);
}

}  // namespace halogen
