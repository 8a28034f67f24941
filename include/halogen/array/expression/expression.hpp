// The array language: expressions over Sharded fields. Operators build types; assignment runs one fused kernel.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "halogen/core/half.hpp"
#include "halogen/core/why.hpp"
#include "halogen/halo/field_halo.hpp"
#include "halogen/stencil/window.hpp"
#include "halogen/tensor/sharded.hpp"

/// HALOGEN_ROW marks functions that a kernel calls at every row or point. An optimising compiler must inline them,
/// because a row that is passed through memory costs more than its points.
#if defined(__OPTIMIZE__) && !defined(__CUDACC__)
#define HALOGEN_ROW KOKKOS_FORCEINLINE_FUNCTION
#else
#define HALOGEN_ROW KOKKOS_FUNCTION
#endif

namespace halogen {

/// The place of an expression that depends on no field: numbers and reductions to a number.
struct NotPlaced {};

/// A mesh dimension whose cut does not matter for an expression.
inline constexpr int any_code = -4;

/// The place of an expression: mesh type, dimensions (-n: as many as the other operands have, at least n), one code per
/// mesh dimension.
template <class MeshType, int Rank, int... Codes>
struct Placed {
  using mesh_type = MeshType;
  static constexpr int rank = Rank;
  static constexpr std::array<int, sizeof...(Codes)> codes{Codes...};
};

/// Largest rank of a field, for index arrays in kernels.
inline constexpr int max_rank = 5;
using Position = Kokkos::Array<index_t, max_rank>;
using Offsets = std::array<index_t, max_rank>;

/// How a node's points follow from those of the evaluated grid, per dimension of the node: (scale * x[source] +
/// offset) / divisor, if that is a whole number. Source -1: `offset` for all points.
struct Access {
  std::array<int, max_rank> source{0, 1, 2, 3, 4};
  Offsets scale{1, 1, 1, 1, 1}, offset{}, divisor{1, 1, 1, 1, 1};
  std::array<Edge, max_rank> edge{};         ///< the boundary beyond the node's points
  Offsets extent{};                          ///< number of the node's points, if images are beyond
  bool regridded = false;                    ///< through a slice or a pad; cuts may differ by some points
  std::array<Interval, max_rank> inside{};   ///< evaluated points whose reads need no boundary check
  std::array<Interval, max_rank> reading{};  ///< evaluated points that read; a boundary gives 0 at others

  static constexpr index_t far = index_t{1} << 60;
  Access() { inside.fill({-far, far}), reading.fill({-far, far}); }

  bool periodic(std::size_t d) const { return edge[d] == Edge::periodic; }

  /// The node's points that a piece of the evaluated grid reads along `d`: the points inside all boundaries, or all
  /// points if `piece` has periodic images, which boundaries see elsewhere.
  Interval read(int d, const Interval& piece, bool images = false) const {
    const auto i = static_cast<std::size_t>(d);
    if (source[i] < 0) return {offset[i], offset[i] + 1};
    if (images) return seen(i, piece);
    const Interval points = seen(i, readers(i, piece));
    const index_t out = beyond(d, piece);
    if (out == 0) return points;
    return Resample{extent[i], extent[i] + 2 * out, false, edge[i]}.input_of({points.begin + out, points.end + out});
  }

  /// How far beyond the ends the evaluated points of `piece` read images.
  index_t beyond(int d, const Interval& piece) const {
    const auto i = static_cast<std::size_t>(d);
    if (source[i] < 0 || !has_images(edge[i])) return 0;
    const Interval points = seen(i, readers(i, piece));
    return points.empty() ? 0 : std::max({index_t{0}, -points.begin, points.end - extent[i]});
  }

  /// Keeps only the evaluated points for which the node's index along `d` is below `extent`.
  void keep_inside(int d, index_t extent) { narrow(d, extent, &inside, &reading); }
  /// The node's index along `d` is the same for all evaluated points.
  void fix(std::size_t d, index_t index) {
    source[d] = -1;
    scale[d] = divisor[d] = 1;
    offset[d] = index;
  }
  /// Other points are checked, or read nothing.
  void check_outside(int d, index_t extent) { narrow(d, extent, &inside); }
  void read_inside(int d, index_t extent) { narrow(d, extent, &reading); }

  /// Whether the node's grid is the evaluated grid, except for shifts.
  bool is_shift(int rank) const {
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (source[i] != d || scale[i] != 1 || divisor[i] != 1) return false;
    }
    return true;
  }

 private:
  Interval readers(std::size_t i, const Interval& piece) const {
    return intersect(piece, reading[static_cast<std::size_t>(source[i])]);
  }
  Interval seen(std::size_t i, const Interval& points) const {
    if (points.empty()) return {};
    return {ceil_div(scale[i] * points.begin + offset[i], divisor[i]),
            floor_div(scale[i] * (points.end - 1) + offset[i], divisor[i]) + 1};
  }
  template <class... Points>
  void narrow(int d, index_t below, Points*... points) const {
    const auto i = static_cast<std::size_t>(d);
    if (source[i] < 0) {  // the same index for all evaluated points
      if (offset[i] < 0 || offset[i] >= below * divisor[i]) (..., ((*points)[0] = {}));
      return;
    }
    const auto s = static_cast<std::size_t>(source[i]);
    const Interval kept{ceil_div(-offset[i], scale[i]), floor_div(below * divisor[i] - 1 - offset[i], scale[i]) + 1};
    (..., ((*points)[s] = intersect((*points)[s], kept)));
  }
};

/// Every node derives from this and has these members:
///   operands(f)               -> f(operand...): the expressions that it is made of, in order; f() of a leaf. What is
///                                asked of all nodes follows from this: variables, signature, widths (operands.hpp)
///   bind(image)               -> what a kernel evaluates: row<Checked, Axis>(position) gives x -> value, x along Axis
///                                (-1: the same value for all x). `image` is added to indices before boundaries and
///                                coordinates are asked: not 0 where iterate() works on a periodic image.
///   each_leaf(access, visit)  -> visit(field, access) for every field that it reads, visit(access) for what has a grid
///                                and no field: boundaries around it are asked for too
///   extent(d), cut(d)         -> of its grid along d; -1 and nothing where any will do
/// Checked rows apply boundaries at every point. Unchecked rows are for points inside.
/// A node says besides, where it is so:
///   is_transparent            a kernel evaluates it together with its operands. Then with_operands(e...) is the node
///                             with others in their place
///   sign(signature)           appends the numbers by which it differs from others of its type, without its operands
///   source_dimension(d)       -> the operands' dimension that d is; d itself by default. same_points or own_points if
///                                it is none (operands.hpp)
///   variables                 the variables that it depends on, if its operands do not tell
/// A stage of one's own derives from FieldStage (stage.hpp).
template <class T, class Where>
struct ExpressionNode {
  using expression_tag = void;
  using value_type = T;
  using placed = Where;

  static constexpr bool is_transparent = false;

  index_t extent(int) const { return -1; }
  std::optional<Cut> cut(int) const { return std::nullopt; }
};

template <class X>
concept Expression = requires { typename X::expression_tag; };
/// A product that is still to be summed over ranks. It is refused as the Partial field would be that it can become.
template <class X>
concept PartialOperand = requires { typename X::partial_product_tag; };
template <class X>
concept FieldOperand = Expression<X> || is_sharded<X> || PartialOperand<X>;
template <class X>
concept Operand = FieldOperand<X> || std::is_arithmetic_v<X>;

/// A node with its own grid. Beyond the ends of the grid only a boundary gives it values.
template <class X>
concept GridNode = Expression<X> && requires { typename X::grid_tag; };

namespace detail {

/// The expression's extent along d when it is stored: 1 if it fits any extent.
template <class E>
index_t stored_extent(const E& e, int d) {
  return std::max<index_t>(e.extent(d), 1);
}

/// Addresses of parts, and bits of numbers, in the order of the expression.
using Signature = std::vector<std::uint64_t>;
inline std::uint64_t address_bits(const void* part) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(part));
}
template <class T>
std::uint64_t number_bits(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(value);
  else
    return std::bit_cast<std::uint64_t>(static_cast<double>(value));
}

/// The identity of a node; copies are the same node.
class NodeIdentity {
 public:
  bool operator==(const NodeIdentity&) const = default;
  /// Nodes are numbered in the order in which they are made: operands before the nodes that contain them.
  std::uint64_t number() const { return number_; }

 private:
  static std::uint64_t next() {
    static std::uint64_t number = 0;
    return ++number;
  }
  std::uint64_t number_ = next();
};

struct Conflict {};

constexpr int join_codes(int a, int b) { return a == any_code ? b : b == any_code || a == b ? a : -3; }

/// The common place of two; Conflict if there is none.
template <class A, class B>
struct join_two {
  using type = Conflict;
};
template <>
struct join_two<NotPlaced, NotPlaced> {
  using type = NotPlaced;
};
template <class M, int R, int... C>
struct join_two<Placed<M, R, C...>, NotPlaced> {
  using type = Placed<M, R, C...>;
};
template <class M, int R, int... C>
struct join_two<NotPlaced, Placed<M, R, C...>> {
  using type = Placed<M, R, C...>;
};
constexpr bool ranks_join(int a, int b) { return a == b || (a < 0 && (b < 0 || -a <= b)) || (b < 0 && -b <= a); }
template <class M, int R, int... C, int S, int... D>
  requires(sizeof...(C) == sizeof...(D) && ranks_join(R, S) && ((join_codes(C, D) != -3) && ...))
struct join_two<Placed<M, R, C...>, Placed<M, S, D...>> {
  using type = Placed<M, (R < 0 && S < 0 ? (R < S ? R : S) : R < 0 ? S : R), join_codes(C, D)...>;
};

template <class... P>
struct join {
  using type = NotPlaced;
};
template <class P, class... Rest>
struct join<P, Rest...> {
  using type = typename join_two<P, typename join<Rest...>::type>::type;
};

// The types that kernels evaluate contain only numbers, never the type of a field or a mesh, because long names cost
// minutes of compile time.
template <class T>
struct FieldRow {
  const T* points;
  HALOGEN_ROW compute_type<T> operator()(index_t x) const { return points[x]; }
};
template <class T>
struct StridedRow {
  const T* points;
  index_t stride;
  HALOGEN_ROW compute_type<T> operator()(index_t x) const { return points[x * stride]; }
};
template <class T>
struct FixedRow {
  const T* point;
  HALOGEN_ROW compute_type<T> operator()(index_t) const { return *point; }
};

/// The address of index 0 of the line at `at` along Axis.
template <int Axis, class T, int Rank>
HALOGEN_ROW T* line_of(const StridedView<T, Rank>& view, const Position& at) {
  index_t offset = 0;
  for (int d = 0; d < Rank; ++d)
    offset += ((d == Axis ? 0 : at[d]) - view.origin[d]) * (d + 1 == Rank ? 1 : view.stride[d]);
  return view.data + offset;
}

template <class T, int Rank>
struct BoundField {
  T* data;
  index_t stride[Rank], zero;  ///< offset of the point with index 0 from data; it is rarely in memory

  BoundField(const StridedView<T, Rank>& view) : data(view.data), zero(0) {  // NOLINT: is one
    for (int d = 0; d < Rank; ++d) {
      stride[d] = view.stride[d];
      zero -= view.origin[d] * (d + 1 == Rank ? 1 : view.stride[d]);
    }
  }

  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    index_t offset = zero;
    for (int d = 0; d < Rank; ++d)
      if (d != Axis) offset += at[d] * (d + 1 == Rank ? 1 : stride[d]);
    const T* line = data + offset;
    if constexpr (Axis < 0)
      return FixedRow<T>{line};
    else if constexpr (Axis + 1 == Rank)
      return FieldRow<T>{line};
    else
      return StridedRow<T>{line, stride[Axis]};
  }
};

template <class T>
struct ConstantRow {
  T value;
  HALOGEN_ROW T operator()(index_t) const { return value; }
};
template <class T>
struct BoundConstant {
  T value;
  template <bool Checked, int Axis>
  HALOGEN_ROW ConstantRow<T> row(const Position&) const {
    return {value};
  }
};

}  // namespace detail

namespace detail {
/// A Partial field, which is refused, fits all others: one fault is told once.
template <class P>
inline constexpr int code_of_operand = placement_code<P> == partial_code ? any_code : placement_code<P>;
}  // namespace detail

/// One field as the expression reads it. Every operand that is a field, or becomes one, becomes a leaf: so a Partial
/// operand is refused here, wherever it stands.
template <class Field>
struct FieldLeaf;
template <class TensorType, class MeshType, class... P>
struct FieldLeaf<Sharded<TensorType, MeshType, P...>>
    : ExpressionNode<compute_type<typename TensorType::value_type>,
                     Placed<MeshType, TensorType::rank, detail::code_of_operand<P>...>> {
  using grid_tag = void;
  using Field = Sharded<TensorType, MeshType, P...>;
  using T = typename TensorType::value_type;
  static constexpr int rank = TensorType::rank;
  static_assert(rank <= max_rank, "expressions take fields of at most five dimensions");

  Field field;
  /// Throws CollectiveError, which names the reader, if the field was never made.
  explicit FieldLeaf(Field f, const char* reader = "an expression") : field(std::move(f)) {
    detail::require_values<Field>();
    field.mesh(reader);
  }

  template <class F>
  auto operands(const F& f) const {
    return f();
  }
  void sign(detail::Signature& signature) const {
    signature.push_back(detail::address_bits(&field.storage()));
    signature.push_back(detail::address_bits(field.shape().get()));
  }
  index_t extent(int d) const { return field.extent(d); }
  std::optional<Cut> cut(int d) const { return field.cut(d); }
  detail::BoundField<T, rank> bind(const Offsets&) const { return {detail::strided_view(field)}; }

  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    visit(field, access);
  }
};

/// The same number everywhere.
template <class T>
struct Constant : ExpressionNode<T, NotPlaced> {
  static constexpr int point_cost = 0;
  T value;
  explicit Constant(T v) : value(v) {}

  template <class F>
  auto operands(const F& f) const {
    return f();
  }
  void sign(detail::Signature& signature) const { signature.push_back(detail::number_bits(value)); }
  detail::BoundConstant<T> bind(const Offsets&) const { return {value}; }
  template <class Visit>
  void each_leaf(const Access&, Visit&&) const {}
};

}  // namespace halogen
