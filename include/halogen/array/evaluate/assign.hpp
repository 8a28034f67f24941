// Assignment: one halo exchange per field that is read, then one kernel, for any expression.
#pragma once

#include <algorithm>
#include <tuple>

#include "halogen/array/evaluate/row_space.hpp"
#include "halogen/array/evaluate/stage.hpp"
#include "halogen/core/integers.hpp"

namespace halogen {
namespace detail {

HALOGEN_LOOPS_BEGIN
template <class Bound, class T, int Rank>
struct AssignRows {
  Bound expression;
  StridedView<T, Rank> target;
  RowSpace<Rank> space;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    space.visit(i, [&](const Position& at, index_t begin, index_t end, auto checked) {
      if (begin >= end) return;
      const auto row = expression.template row<decltype(checked)::value, Rank - 1>(at);
      T* out = line_of<Rank - 1>(target, at);
      HALOGEN_INDEPENDENT
      for (index_t x = begin; x < end; ++x) out[x] = converted<T>(row(x));
    });
  }
  index_t all_points() const { return space.rows() * space.size[Rank - 1]; }
  /// Several work items; only on the host.
  void run(index_t first, index_t last) const {
    space.walk(first, last, [this](const Position& at, index_t begin, index_t a, index_t b, index_t end) {
      T* out = line_of<Rank - 1>(target, at);
      if (a < b) {
        const auto row = expression.template row<false, Rank - 1>(at);
        HALOGEN_INDEPENDENT
        for (index_t x = a; x < b; ++x) out[x] = converted<T>(row(x));
      }
      if (begin == a && b == end) return;
      const auto row = expression.template row<true, Rank - 1>(at);
      for (; begin < end; begin = b, a = end, b = end) {
        HALOGEN_INDEPENDENT
        for (index_t x = begin; x < a; ++x) out[x] = converted<T>(row(x));
      }
    });
  }
};
HALOGEN_LOOPS_END

/// One kernel over the points of `box`. `image` as in bind().
template <class T, int Rank, class E, class ReadFields>
void launch_assign(const execution_space& space, const StridedView<T, Rank>& target, const Box<Rank>& box,
                   const E& expression, const ReadFields& reads, const Offsets& image = {}) {
  const auto bound = expression.bind(image);  // collective reductions: before a rank without points returns
  if (box.points() == 0) return;
  const AssignRows<std::decay_t<decltype(bound)>, T, Rank> kernel{bound, target, row_space(box, reads, image)};
  launch_range(space, "halogen::assign", kernel.space.count(), kernel);
}

/// Writes the expression's values into a buffer shaped as `field`, which the expression does not read.
template <class Field, class E>
void write_values(const Field& field, const typename Field::Storage& buffer, const E& expression) {
  const EvaluationScope scope;
  const execution_space space;
  const Grid<Field::rank> grid(field);
  const auto reads = reads_on(*field.shape(), expression);
  exchange_halos(space, grid, reads);
  launch_assign(space, strided_view(field, buffer), grid.own, expression, reads);
}

/// A new buffer with the expression's values, shaped as `field`.
template <class Field, class E>
std::shared_ptr<typename Field::Storage> evaluated(const Field& field, const E& expression,
                                                   const char* user = "an assignment") {
  std::shared_ptr<typename Field::Storage> buffer = field.take_buffer(user);
  write_values(field, *buffer, expression);
  return buffer;
}

/// A new field with the expression's values.
template <class Field, class E>
Field computed(const std::shared_ptr<const typename Field::Shape>& shape, const E& expression) {
  const Field field(shape, Field::Start::unwritten);
  write_values(field, field.storage(), expression);
  return field;
}

/// The shape of the first field that is read with the placements and grid of a field of this type, or null.
template <class Field>
std::shared_ptr<const typename Field::Shape> shape_read(const ReadFields<typename Field::Shape>& reads) {
  if (reads.size() == 0)
    throw CollectiveError("an expression that reads no field has no mesh: give its target a mesh and extents first");
  for (const auto& read : reads)
    if (read.shape != nullptr && std::ranges::equal(read.placements, Field::placements) && !read.access.regridded &&
        read.access.is_shift(Field::rank))
      return *read.shape;
  return nullptr;
}

template <class Field>
using PerhapsCuts = std::array<std::optional<Cut>, Field::rank>;

/// The cuts of the dimensions in which some field that is read is cut like a field of this type.
template <class Field>
PerhapsCuts<Field> cuts_read(const ReadFields<typename Field::Shape>& reads, const Decomposition& pieces) {
  PerhapsCuts<Field> cuts;
  for (const auto& read : reads) {
    if (read.access.regridded) continue;
    for (int d = 0; d < read.dimensions(); ++d) {
      const int source = read.source(d);
      if (source >= 0 && read.cut(d).parts() == pieces.parts(source))
        cuts[static_cast<std::size_t>(source)] = read.cut(d);
    }
  }
  return cuts;
}

/// A shape with these cuts. A dimension without one is cut as by torch.chunk.
template <class Field>
std::shared_ptr<const typename Field::Shape> shape_with(const DeviceMesh<typename Field::mesh_type>& mesh,
                                                        const Decomposition& pieces, const PerhapsCuts<Field>& cuts,
                                                        const typename Field::Extents& extents) {
  std::array<Cut, Field::rank> all;
  for (std::size_t d = 0; d < Field::rank; ++d)
    all[d] = cuts[d] ? *cuts[d] : Cut::chunk(std::max<index_t>(extents[d], 1), pieces.parts(static_cast<int>(d)));
  return Field::make_shape(mesh, all);
}

/// Mesh and cuts of the expression for a field of this type. If one of its fields has the same grid, these are its mesh
/// and cuts.
template <class Field, class E>
std::shared_ptr<const typename Field::Shape> shape_of(const E& expression) {
  const EvaluationScope scope;  // keeps the fields of its stages
  const ReadFields<typename Field::Shape> reads(expression);
  if (auto shape = shape_read<Field>(reads)) return shape;
  const auto& mesh = *reads.begin()->mesh;
  const Decomposition pieces(mesh.extents(), Field::placements, Field::mesh_type::names);
  PerhapsCuts<Field> cuts = cuts_read<Field>(reads, pieces);
  typename Field::Extents extents;
  for (int d = 0; d < Field::rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (!cuts[i]) cuts[i] = expression.cut(d);
    extents[i] = expression.extent(d);
  }
  return shape_with<Field>(mesh, pieces, cuts, extents);
}

template <class E, bool Real>
constexpr std::size_t find_field_bytes();
/// Bytes of the widest real numbers (or integers) in the fields of an expression. It is 0 if there are none, or if the
/// expression itself is of the other kind. Numbers do not count, so 2.0 * u has the width of u. If a functor or a cast
/// has made values narrower, the narrower width counts. The 64 bits of sums of integers do not count.
template <class E, bool Real>
inline constexpr std::size_t field_bytes_of = find_field_bytes<E, Real>();
/// Two-byte numbers count as real numbers, since they are computed as floats. A functor of two-byte numbers has a width
/// of two bytes.
template <class T, bool Real>
inline constexpr bool is_of_kind = Real ? std::is_floating_point_v<compute_type<T>> : std::is_integral_v<T>;
template <bool Real, class... E>
constexpr std::size_t widest_among(TypeList<E...>) {
  return std::max({std::size_t{0}, field_bytes_of<E, Real>...});
}
template <class E, bool Real>
constexpr std::size_t find_field_bytes() {
  using T = typename E::value_type;
  if constexpr (requires { E::field_widths; })
    return Real ? E::field_widths.reals : E::field_widths.integers;
  else if constexpr (!is_of_kind<T, Real>)
    return 0;
  else if constexpr (requires { typename E::functor_type; })
    return std::min(sizeof(T), widest_among<Real>(operands_of<E>{}));
  else if constexpr (std::is_same_v<typename E::placed, NotPlaced>)
    return 0;
  else if constexpr (requires(const E& e) { e.field.storage(); })
    return sizeof(typename E::Field::value_type);
  else
    return widest_among<Real>(operands_of<E>{});
}

/// The same for both kinds of numbers.
struct FieldWidths {
  std::size_t reals = 0, integers = 0;
  bool operator==(const FieldWidths&) const = default;
};
template <class E>
inline constexpr FieldWidths field_widths_of{field_bytes_of<E, true>, field_bytes_of<E, false>};

/// Whether values of the expression's fields would lose digits in a field of T without a cast. A field of bool may take
/// integers: it is true where they are not 0.
template <class T, class E>
inline constexpr bool narrows = field_bytes_of<E, true> > (std::is_integral_v<T> ? 0 : sizeof(T)) ||
                                (std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                 field_bytes_of<E, false> > sizeof(T));

template <class T, class E>
  requires(!narrows<T, E>)
void check_width(const E&) {}
template <class T, class E, class Why = why::values_are_narrowed<typename E::value_type, T>>
  requires narrows<T, E>
void check_width(const E&) = delete;  // write cast<To>(expression)

/// Whether an expression may be assigned to a field: the same mesh, dimensions and placements.
template <class Field, class E>
concept AssignableTo = is_sharded<Field> && Expression<E> &&
                       std::is_same_v<placed_of<FieldLeaf<Field>, E>, typename FieldLeaf<Field>::placed>;

template <class Field, class E>
constexpr auto why_not_assigned() {
  if constexpr (constexpr int summands = first_partial<Field>(); summands >= 0)
    return why::input_is_partial<summands>{};
  else
    return WhyNotJoined<Field, E>{};
}
template <class Field, class E>
using WhyNotAssigned = decltype(why_not_assigned<Field, E>());

}  // namespace detail

/// field = expression: binds the field to a buffer with the values. Buffers are reused from step to step. Copies of the
/// field keep their values. Collective. The field has the placements of the expression. One halo exchange per field
/// that is read beyond its piece. An empty field takes the expression's mesh and cuts. A field over the caller's array
/// (Sharded::over) stays there: the values are written into the array, as by assign().
template <class Field, Expression E>
  requires(detail::AssignableTo<Field, E> && !detail::narrows<typename Field::value_type, E>)
void evaluate_into(Field& field, const E& expression) {
  const detail::EvaluationScope scope;
  if (field.empty())
    field = detail::computed<Field>(detail::shape_of<Field>(expression), expression);
  else if (field.is_over())
    assign(field, expression);
  else
    field.rebind(detail::evaluated(field, expression));
}
template <class Field, Expression E,
          class Why = why::values_are_narrowed<typename E::value_type, typename Field::value_type>>
  requires(detail::AssignableTo<Field, E> && detail::narrows<typename Field::value_type, E>)
void evaluate_into(Field& field, const E& expression) = delete;  // write field = cast<To>(expression)
template <class Field, Expression E, class Why = detail::WhyNotAssigned<Field, E>>
  requires(is_sharded<Field> && !detail::AssignableTo<Field, E>)
void evaluate_into(Field& field, const E& expression) = delete;

/// Writes the values of an expression, a field or a number into the field's own buffer. All copies of the field see
/// them.
template <class Field, Operand E>
  requires(detail::AssignableTo<Field, expression_of<E>> &&
           !detail::narrows<typename Field::value_type, expression_of<E>>)
void assign(Field& field, const E& e) {
  Field values(field);
  values.rebind(detail::evaluated(field, as_expression(e), "assign"));
  copy_points(execution_space{}, field.to_local(), values.to_local());
}
template <class Field, Operand E,
          class Why = why::values_are_narrowed<typename expression_of<E>::value_type, typename Field::value_type>>
  requires(detail::AssignableTo<Field, expression_of<E>> &&
           detail::narrows<typename Field::value_type, expression_of<E>>)
void assign(Field& field, const E& e) = delete;  // write assign(field, cast<To>(e))
template <class Field, Operand E, class Why = detail::WhyNotAssigned<Field, expression_of<E>>>
  requires(is_sharded<Field> && !detail::AssignableTo<Field, expression_of<E>>)
void assign(Field& field, const E& e) = delete;
template <class Field, Operand E, class Why = why::field_is_const>
  requires(is_sharded<std::remove_const_t<Field>> && std::is_const_v<Field>)
void assign(Field& field, const E& e) = delete;
#define HALOGEN_NO_CONST(operation)                                            \
  template <class Field, Operand E, class Why = why::field_is_const>           \
    requires(is_sharded<std::remove_const_t<Field>> && std::is_const_v<Field>) \
  Field& operation(Field& field, const E& e) = delete;
HALOGEN_NO_CONST(operator+=)
HALOGEN_NO_CONST(operator-=)
HALOGEN_NO_CONST(operator*=)
HALOGEN_NO_CONST(operator/=)
#undef HALOGEN_NO_CONST
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator+=(Field& field, const E& e) {
  assign(field, field + e);
  return field;
}
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator-=(Field& field, const E& e) {
  assign(field, field - e);
  return field;
}
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator*=(Field& field, const E& e) {
  assign(field, field * e);
  return field;
}
template <class Field, Operand E>
  requires is_sharded<Field>
Field& operator/=(Field& field, const E& e) {
  assign(field, field / e);
  return field;
}

}  // namespace halogen
