// Numbers of what a plan lists, each of a type of its own: a norm's number is no tensor's.
#pragma once

namespace halogen {

/// The place of a T in a plan's table of such; none where negative, as it starts.
template <class T>
struct PlanId {
  using of = T;
  int number = -1;

  constexpr PlanId() = default;
  constexpr explicit PlanId(int place) : number(place) {}
  constexpr bool operator==(const PlanId&) const = default;
  /// `id >= 0`: there is one; `id < 0`: there is none.
  friend constexpr bool operator>=(PlanId id, int zero) { return id.number >= zero; }
  friend constexpr bool operator<(PlanId id, int zero) { return id.number < zero; }
};

struct StoredTensor;
struct Norm;
struct Activation;
struct Value;
using TensorId = PlanId<StoredTensor>;
using NormId = PlanId<Norm>;
using ActivationId = PlanId<Activation>;
using ValueId = PlanId<Value>;

}  // namespace halogen
