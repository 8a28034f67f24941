// Numbers that identify the entries of a plan's tables. Each table has a number type of its own, so that the number of
// an affine cannot be taken for the number of a tensor.
#pragma once

namespace halogen {

/// The index of a T in the plan's table of T. A negative number means none; a new PlanId is none.
template <class T>
struct PlanId {
  using of = T;
  int number = -1;

  constexpr PlanId() = default;
  constexpr explicit PlanId(int place) : number(place) {}
  constexpr bool operator==(const PlanId&) const = default;
  /// `id >= 0` means that there is one, `id < 0` that there is none.
  friend constexpr bool operator>=(PlanId id, int zero) { return id.number >= zero; }
  friend constexpr bool operator<(PlanId id, int zero) { return id.number < zero; }
};

struct StoredTensor;
struct AffineTable;
struct Activation;
struct Value;
using TensorId = PlanId<StoredTensor>;
using AffineTableId = PlanId<AffineTable>;
using ActivationId = PlanId<Activation>;
using ValueId = PlanId<Value>;

}  // namespace halogen
