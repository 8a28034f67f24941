// If a costly part of an expression occurs in several operands of a node, it is stored: it is computed once, as if it
// were written stored(part). The rule depends on types only, so programs without such parts pay nothing.
//
//   Field u = h * sigmoid(h);      // h = a long expression: stored; h = x + y: computed twice, in one kernel
//
// Costs are counted in additions. One core needs 0.1 ns for each addition. To store a part and to read it twice costs
// 0.3 ns, and one more kernel costs some microseconds (measured: docs/expressions.md). With this limit, an expression
// whose parts only look alike, f(u) * f(v), loses at most a tenth.
#pragma once

#include <algorithm>

#include "halogen/array/evaluate/stored.hpp"
#include "halogen/array/expression/functions.hpp"

namespace halogen {
template <class F, int Index>
struct PartialOf;
}

namespace halogen::detail {

/// The cost of a call of a functor, in additions; its own point_cost if it has one.
template <class F>
inline constexpr int functor_cost = 1;
template <class F>
  requires requires { F::point_cost; }
inline constexpr int functor_cost<F> = F::point_cost;

#define HALOGEN_POINT_COST(Name, cost) \
  template <>                          \
  inline constexpr int functor_cost<Name> = cost;
HALOGEN_POINT_COST(Divides, 3)
HALOGEN_POINT_COST(Reciprocal, 3)
HALOGEN_POINT_COST(SquareRoot, 8)
HALOGEN_POINT_COST(ReciprocalSquareRoot, 10)
HALOGEN_POINT_COST(Exponential, 16)
HALOGEN_POINT_COST(PowerOf2, 16)
HALOGEN_POINT_COST(ExponentialMinusOne, 16)
HALOGEN_POINT_COST(Logarithm, 16)
HALOGEN_POINT_COST(LogarithmOfOnePlus, 16)
HALOGEN_POINT_COST(LogarithmToBase2, 16)
HALOGEN_POINT_COST(LogarithmToBase10, 16)
HALOGEN_POINT_COST(Logistic, 16)
HALOGEN_POINT_COST(Sine, 16)
HALOGEN_POINT_COST(Cosine, 16)
HALOGEN_POINT_COST(Tangent, 24)
HALOGEN_POINT_COST(ArcSine, 24)
HALOGEN_POINT_COST(ArcCosine, 24)
HALOGEN_POINT_COST(ArcTangent, 24)
HALOGEN_POINT_COST(ArcTangent2, 32)
HALOGEN_POINT_COST(Hypotenuse, 16)
HALOGEN_POINT_COST(ErrorFunction, 24)
HALOGEN_POINT_COST(ComplementaryErrorFunction, 24)
HALOGEN_POINT_COST(Power, 32)
HALOGEN_POINT_COST(HyperbolicTangent, 48)
HALOGEN_POINT_COST(HyperbolicSine, 48)
HALOGEN_POINT_COST(HyperbolicCosine, 48)
HALOGEN_POINT_COST(InverseHyperbolicSine, 48)
HALOGEN_POINT_COST(InverseHyperbolicCosine, 48)
HALOGEN_POINT_COST(InverseHyperbolicTangent, 48)
HALOGEN_POINT_COST(FlooredQuotient, 32)
HALOGEN_POINT_COST(Remainder, 32)
HALOGEN_POINT_COST(TruncatedRemainder, 32)
#undef HALOGEN_POINT_COST
/// The derivative of a functor by dual numbers also computes its value.
template <class F, int I>
inline constexpr int functor_cost<PartialOf<F, I>> = 2 * functor_cost<F>;

template <class E>
constexpr int find_point_cost();
/// The cost of a point of an expression, in additions; 1 for each read.
template <class E>
inline constexpr int point_cost = find_point_cost<E>();
template <class... E>
constexpr long total_cost(TypeList<E...>) {
  return (0L + ... + point_cost<E>);
}
template <class E>
constexpr int find_point_cost() {
  if constexpr (requires { typename E::functor_type; })
    return static_cast<int>(
        std::min<long>(1 << 20, functor_cost<typename E::functor_type> + total_cost(operands_of<E>{})));
  else if constexpr (is_transparent<E>)
    return static_cast<int>(total_cost(operands_of<E>{}));
  else if constexpr (requires { E::point_cost; })
    return E::point_cost;
  else
    return 1;
}

/// A part that occurs twice is stored if its cost is at least this.
inline constexpr int repeated_cost = 64;

template <class E>
constexpr int find_nested_parts();
/// How deeply parts that are stored here are nested.
template <class E>
inline constexpr int nested_parts = find_nested_parts<E>();
template <class... E>
constexpr int deepest_among(TypeList<E...>) {
  return std::max({0, nested_parts<E>...});
}
template <class E>
constexpr int find_nested_parts() {
  if constexpr (is_repeated_part<E>())
    return 1 + nested_parts<typename E::part_type>;
  else if constexpr (is_transparent<E>)
    return deepest_among(operands_of<E>{});
  else
    return 0;
}
/// The limit of nesting. A type contains the types of its stored parts at each occurrence, and compilers process all of
/// them. In deeper expressions the user writes stored(e), which ends the type.
inline constexpr int most_nested_parts = 3;

/// Whether an expression can be replaced by a field: it has the placements and value type of a field, and a known
/// signature, so that its copies are one stage.
template <class E>
constexpr bool can_be_stored() {
  if constexpr (std::is_same_v<typename E::placed, NotPlaced>) {
    return false;
  } else if constexpr (E::placed::rank <= 0 || !is_signed<E>) {
    return false;
  } else {
    using Leaf = FieldLeaf<result_field_t<E>>;
    return std::is_same_v<typename Leaf::placed, typename E::placed> &&
           std::is_same_v<typename Leaf::value_type, typename E::value_type>;
  }
}

template <class... E>
struct PartList {};
template <class... Lists>
struct joined_lists {
  using type = PartList<>;
};
template <class... A, class... Lists>
struct joined_lists<PartList<A...>, Lists...> {
  template <class... B>
  static PartList<A..., B...> with(PartList<B...>);
  using type = decltype(with(typename joined_lists<Lists...>::type{}));
};

template <class E>
constexpr bool is_costly() {
  if constexpr (requires { typename E::functor_type; })
    return point_cost<E> >= repeated_cost && nested_parts<E> < most_nested_parts;
  else
    return false;
}
template <class E, bool IsCostly = is_costly<E>()>
struct costly_parts {
  using type = PartList<>;
};
template <class Operands>
struct costly_parts_among;
template <class... E>
struct costly_parts_among<TypeList<E...>> {
  using type = typename joined_lists<typename costly_parts<E>::type...>::type;
};
/// The costly parts of E that are evaluated at E's own points. E comes first.
template <class E>
struct costly_parts<E, true> {
  using own = std::conditional_t<can_be_stored<E>(), PartList<E>, PartList<>>;
  using type = typename joined_lists<own, typename costly_parts_among<operands_of<E>>::type>::type;
};

template <class E, class List>
inline constexpr bool is_among = false;
template <class E, class... List>
inline constexpr bool is_among<E, PartList<List...>> = (std::is_same_v<E, List> || ...);

/// The first of some parts that is also in another list; void if there is none.
template <class Others>
void first_among(PartList<>, Others);
template <class First, class... Rest, class Others>
auto first_among(PartList<First, Rest...>, Others) {
  if constexpr (is_among<First, Others>)
    return PartList<First>{};
  else
    return first_among(PartList<Rest...>{}, Others{});
}

/// The largest part of an operand that also occurs in a later operand, in a PartList; void if there is none.
void repeated_part();
template <class E, class... Later>
auto repeated_part(PartList<E>*, PartList<Later>*... later) {
  using Own = typename costly_parts<E>::type;
  using Others = typename joined_lists<typename costly_parts<Later>::type...>::type;
  using Found = decltype(first_among(Own{}, Others{}));
  if constexpr (std::is_void_v<Found>)
    return repeated_part(later...);
  else
    return Found{};
}

/// E with Part stored at every occurrence.
template <class Part, class E>
auto with_stored(const E& e) {
  if constexpr (std::is_same_v<E, Part>)
    return zero_bounded(stored_as<result_field_t<E>, Part>(e));
  else if constexpr (is_among<Part, typename costly_parts<E>::type>)
    return e.operands([&](const auto&... a) { return e.with_operands(with_stored<Part>(a)...); });
  else
    return e;
}

/// E without the stored parts that the library has added.
template <class E>
auto without_repeated(const E& e) {
  if constexpr (!has_repeated<E>)
    return e;
  else if constexpr (any_repeated_part(operands_of<E>{}))  // a Bounded node of such a part
    return without_repeated(part_of(e.inner));
  else
    return e.operands([&](const auto&... a) { return e.with_operands(without_repeated(a)...); });
}

template <class F, class... E>
auto pointwise(const F& f, const E&... operands) {
  if constexpr (((point_cost<E> >= repeated_cost ? 1 : 0) + ... + 0) < 2) {
    return Pointwise<F, E...>(f, operands...);
  } else {
    using Found = decltype(repeated_part(static_cast<PartList<E>*>(nullptr)...));
    if constexpr (std::is_void_v<Found>)
      return Pointwise<F, E...>(f, operands...);
    else
      return [&]<class Part>(PartList<Part>) { return pointwise(f, with_stored<Part>(operands)...); }(Found{});
  }
}

}  // namespace halogen::detail
