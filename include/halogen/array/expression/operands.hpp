// What follows from an expression's operands. A node says its operands once (array/expression/expression.hpp); whether
// it depends on a variable, which parts two expressions share, and what its type says of its points are derived here.
// No node is named here, and no trait is specialised for a node.
#pragma once

#include <cstdint>

#include "halogen/array/expression/expression.hpp"

namespace halogen::detail {

template <class... E>
struct TypeList {};
struct ListTypes {
  template <class... E>
  TypeList<E...> operator()(const E&...) const {
    return {};
  }
};

template <class E>
concept SaysOperands = requires(const E& e) { e.operands(ListTypes{}); };
template <class E>
struct list_operands {
  static_assert(SaysOperands<E>,
                "node_without_operands: a node of the array language says its operands: "
                "template <class F> auto operands(const F& f) const { return f(inner); }");
  using type = decltype(std::declval<const E&>().operands(ListTypes{}));
};
/// The types of a node's operands, as a TypeList.
template <class E>
using operands_of = typename list_operands<E>::type;

/// Whether a kernel evaluates the node together with its operands, at the same points of the grid that it evaluates.
template <class E>
inline constexpr bool is_transparent = E::is_transparent;

// -- variables of differentiation -------------------------------------------------------------------------------------

/// Variables by their numbers, as bits.
using VariableSet = std::uint64_t;
inline constexpr int max_variables = 64;

template <class E>
constexpr VariableSet find_variables();
/// The variables on which an expression depends so that it has a gradient. Integers have none.
template <class E>
inline constexpr VariableSet variables_of = find_variables<E>();
template <class E>
inline constexpr bool has_variable = variables_of<E> != 0;

template <class... E>
constexpr VariableSet variables_among(TypeList<E...>) {
  return (VariableSet{0} | ... | variables_of<E>);
}
template <class E>
constexpr VariableSet find_variables() {
  if constexpr (requires { E::variables; })
    return E::variables;
  else if constexpr (std::is_integral_v<typename E::value_type>)
    return 0;
  else
    return variables_among(operands_of<E>{});
}

// -- what a type says of an expression's dimensions -------------------------------------------------------------------

/// What a node's source_dimension(d) may say instead of a dimension of its operands: the node has the same value at all
/// points of d, so that any extent fits; or points of its own.
inline constexpr int same_points = -1, own_points = -2;

template <class E>
constexpr int source_dimension(int d) {
  if constexpr (requires { E::source_dimension(d); })
    return E::source_dimension(d);
  else
    return d;
}

/// The field that a leaf or a stage is read from, or void.
template <class E>
struct field_read {
  using type = void;
};
template <class E>
  requires requires { typename E::stage_tag; }
struct field_read<E> {
  using type = typename E::Result;
};
template <class E>
  requires(
      !requires { typename E::stage_tag; } && requires { typename E::Field; })
struct field_read<E> {
  using type = typename E::Field;
};
template <class E>
using field_read_t = typename field_read<E>::type;

/// The dimensions (bits) in which a field has one point, by its type. A dimension that is cut lies on one rank only.
template <class Field>
constexpr unsigned single_in() {
  unsigned single = 0;
  for (int d = 0; d < Field::rank; ++d) {
    bool is_single = Field::tensor_type::extents[static_cast<std::size_t>(d)] == 1;
    for (const int code : Field::placements) is_single = is_single && code != d;
    if (is_single) single |= 1u << d;
  }
  return single;
}

template <class E>
struct one_point;
/// The dimensions (bits) of a node that show a dimension among `all` of its operands, or the same value at all points.
template <class E, class... Operand>
constexpr unsigned bits_of_sources(TypeList<Operand...>, unsigned all) {
  unsigned bits = 0;
  for (int d = 0; d < max_rank; ++d) {
    const int source = source_dimension<E>(d);
    if (source == same_points || (source >= 0 && (all >> source & 1u) != 0)) bits |= 1u << d;
  }
  return sizeof...(Operand) == 0 ? 0u : bits;
}
/// `single`: the dimensions (bits) in which an expression has one point, by its type. `open`: those of them that fit
/// any extent already. Numbers have no dimensions, so all bits are set.
template <class E>
struct one_point {
 private:
  template <class... Operand>
  static constexpr unsigned all_single(TypeList<Operand...>) {
    return (~0u & ... & one_point<Operand>::single);
  }
  template <class... Operand>
  static constexpr unsigned all_open(TypeList<Operand...>) {
    return (~0u & ... & one_point<Operand>::open);
  }
  static constexpr unsigned find(bool is_open) {
    if constexpr (std::is_same_v<typename E::placed, NotPlaced>) {
      return ~0u;
    } else if constexpr (!std::is_void_v<field_read_t<E>>) {
      return is_open ? 0u : single_in<field_read_t<E>>();
    } else {
      using Inner = operands_of<E>;
      return bits_of_sources<E>(Inner{}, is_open ? all_open(Inner{}) : all_single(Inner{}));
    }
  }

 public:
  static constexpr unsigned single = find(false), open = find(true);
};

template <class E>
constexpr int static_extent(int d);
template <class... Operand>
constexpr int static_extent_among(TypeList<Operand...>, int d) {
  int extent = dyn;
  ((extent = extent == dyn ? static_extent<Operand>(d) : extent), ...);
  return extent;
}
/// The extent of dimension d of an expression, if its type says it; else dyn.
template <class E>
constexpr int static_extent(int d) {
  if constexpr (std::is_same_v<typename E::placed, NotPlaced>) {
    return dyn;
  } else if constexpr (requires { E::static_extent(d); }) {
    return E::static_extent(d);
  } else if constexpr (!std::is_void_v<field_read_t<E>>) {
    return static_cast<int>(field_read_t<E>::tensor_type::extents[static_cast<std::size_t>(d)]);
  } else {
    const int source = source_dimension<E>(d);
    return source < 0 ? dyn : static_extent_among(operands_of<E>{}, source);
  }
}

// -- signatures -------------------------------------------------------------------------------------------------------

/// Whether a node says by which numbers it differs from others of its type: sign(signature).
template <class E>
concept Signs = requires(const E& e, Signature& signature) { e.sign(signature); };
/// A stage whose copies share one result.
template <class E>
concept HasKey = requires(const E& e) { e.identity.key(); };

template <class E>
constexpr bool find_signed();
/// Whether the parts by which an expression differs from others of its type are known.
template <class E>
inline constexpr bool is_signed = find_signed<E>();
template <class... E>
constexpr bool all_signed(TypeList<E...>) {
  return (is_signed<E> && ...);
}
template <class E>
constexpr bool find_signed() {
  if constexpr (Signs<E>)
    return all_signed(operands_of<E>{});
  else
    return HasKey<E>;
}

/// Appends these parts, in the order of the expression.
template <class E>
void sign(const E& e, Signature& signature) {
  if constexpr (Signs<E>) {
    e.sign(signature);
    e.operands([&](const auto&... operand) { (sign(operand, signature), ...); });
  } else {
    signature.push_back(address_bits(e.identity.key()));
  }
}

}  // namespace halogen::detail
