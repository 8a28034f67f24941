// Assignment: one halo exchange per field read, then one kernel, whatever the expression.
#pragma once

#include "halogen/expr/launch.hpp"
#include "halogen/expr/stage.hpp"

namespace halogen {
namespace detail {

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
      for (index_t x = begin; x < end; ++x) out[x] = static_cast<T>(row(x));
    });
  }
};

/// One kernel over the points of `box`. `image` as in bind().
template <class T, int Rank, class E>
void launch_assign(const execution_space& space, const StridedView<T, Rank>& target, const Box<Rank>& box,
                   const E& expression, const Offsets& image = {}) {
  const auto bound = expression.bind(image);  // reductions in it are collective: before a rank without points leaves
  if (box.points() == 0) return;
  const AssignRows<std::decay_t<decltype(bound)>, T, Rank> kernel{bound, target, row_space(box, expression, image)};
  launch_range(space, "halogen::assign", kernel.space.count(), kernel);
}

/// Writes the expression's values into a buffer shaped as `field`, which the expression does not read.
template <class Field, class E>
void write_values(const Field& field, const typename Field::Storage& buffer, const E& expression) {
  const EvaluationScope scope;
  const execution_space space;
  const Grid<Field::rank> grid(field);
  check_alike(field, expression);
  exchange_halos(space, grid, expression);
  launch_assign(space, strided_view(field, buffer), grid.own, expression);
}

/// A new buffer with the expression's values, shaped as `field`.
template <class Field, class E>
std::shared_ptr<typename Field::Storage> evaluated(const Field& field, const E& expression) {
  std::shared_ptr<typename Field::Storage> buffer = field.take_buffer();
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

/// Mesh and cuts of the expression as a field of this type has them: those of one of its fields where that is its grid.
template <class Field, class E>
std::shared_ptr<const typename Field::Shape> shape_of(const E& expression) {
  using Shape = typename Field::Shape;
  std::shared_ptr<const Shape> shape;
  std::array<std::optional<Cut>, Field::rank> cuts;  // of dimensions that some field has as the grid does
  const auto* mesh = static_cast<const DeviceMesh<typename Field::mesh_type>*>(nullptr);
  expression.each_leaf(Access{}, [&](const auto& leaf, const Access& access) {
    using Leaf = std::decay_t<decltype(leaf)>;
    if (mesh == nullptr) mesh = &leaf.mesh();
    if constexpr (std::is_same_v<typename Leaf::Shape, Shape>)
      if (!shape && Leaf::placements == Field::placements && !access.regridded && access.is_shift(Leaf::rank))
        shape = leaf.shape();
    if (shape || access.regridded) return;
    const Decomposition pieces(leaf.mesh().extents(), Field::placements, Field::mesh_type::names);
    for (int d = 0; d < Leaf::rank; ++d) {
      const int source = access.source[static_cast<std::size_t>(d)];
      if (source >= 0 && leaf.cut(d).parts() == pieces.parts(source))
        cuts[static_cast<std::size_t>(source)] = leaf.cut(d);
    }
  });
  if (mesh == nullptr)
    throw CollectiveError("an expression that reads no field has no mesh: give its target a mesh and extents first");
  if (!shape) {
    const Decomposition pieces(mesh->extents(), Field::placements, Field::mesh_type::names);
    std::array<Cut, Field::rank> all;
    for (int d = 0; d < Field::rank; ++d) {
      auto& cut = cuts[static_cast<std::size_t>(d)];
      if (!cut) cut = expression.cut(d);
      all[static_cast<std::size_t>(d)] =
          cut.value_or(Cut::chunk(std::max<index_t>(expression.extent(d), 1), pieces.parts(d)));
    }
    shape = Field::make_shape(*mesh, all);
  }
  return shape;
}

/// Whether an expression may be assigned to a field: the same mesh, dimensions and placements.
template <class Field, class E>
concept AssignableTo = is_sharded<Field> && Expression<E> &&
                       std::is_same_v<placed_of<FieldLeaf<Field>, E>, typename FieldLeaf<Field>::placed>;

}  // namespace detail

/// field = expression: rebinds the field to a buffer with the values, reused from step to step; copies of the field
/// keep theirs. Collective. Placement of the expression in and out; one halo exchange per field read beyond its
/// piece. An empty field takes the expression's mesh and cuts.
template <class Field, Expression E>
  requires detail::AssignableTo<Field, E>
void evaluate_into(Field& field, const E& expression) {
  const detail::EvaluationScope scope;
  if (field.empty())
    field = detail::computed<Field>(detail::shape_of<Field>(expression), expression);
  else
    field.rebind(detail::evaluated(field, expression));
}
template <class Field, Expression E, class Why = detail::WhyNotJoined<Field, E>>
  requires(is_sharded<Field> && !detail::AssignableTo<Field, E>)
void evaluate_into(Field& field, const E& expression) = delete;

/// Writes the values into the field's own buffer, seen by all its copies.
template <class Field, Expression E>
  requires detail::AssignableTo<Field, E>
void assign(Field& field, const E& expression) {
  Field values(field);
  values.rebind(detail::evaluated(field, expression));
  Kokkos::deep_copy(execution_space{}, field.to_local(), values.to_local());
}
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

}  // namespace halogen
