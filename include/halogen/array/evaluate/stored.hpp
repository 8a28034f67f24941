// stored(e): a part of an expression that is computed once per evaluation for all its readers. Its gradient is
// collected once. All copies of the node, and all nodes with the same parts, share one record. The node itself is two
// pointers for any e. So neither the size of an expression nor its type grows with its depth.
//
//   auto h = hg::stored(layer_norm(x));
//   Field q = hg::matmul(h, wq), k = hg::matmul(h, wk);      // in one expression, h is computed once
//
// Operands of matmul, einsum and attention that are not fields are stored automatically (held()), and so are costly
// parts that occur twice (repeated_parts.hpp).
#pragma once

#include <array>
#include <memory>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/evaluate/signature.hpp"

namespace halogen {
namespace detail {

class GradientSink;
class Explanation;
/// Explains the parts of a stored node of E; false if it is the field of another stage (explain_expression.hpp).
template <class Field, class E>
bool explain_below(Explanation& explanation, const E& e);

/// The field in which cotangents of a stage are collected: the stage's own type if it is real, else double.
template <class Field>
using OwedField =
    field_of_t<FieldLeaf<Field>, std::conditional_t<std::is_floating_point_v<typename FieldLeaf<Field>::value_type>,
                                                    typename FieldLeaf<Field>::value_type, double>>;

/// The expression of a stored node.
template <class Field>
struct StoredRecord {
  StageResult<Field> identity;
  virtual Field compute() const = 0;
  /// Computed once: the parts of the expression may be shared, and their uses multiply from level to level.
  index_t extent(int d) const {
    index_t& known = extents_[static_cast<std::size_t>(d)];
    if (known < 0) known = find_extent(d);
    return known;
  }
  virtual void pull(const OwedField<Field>& cotangent, GradientSink& gradients) const = 0;
  /// Explains how it is computed; false if it is another stage's field.
  virtual bool explain(Explanation& explanation) const = 0;
  virtual ~StoredRecord() = default;

 private:
  virtual index_t find_extent(int d) const = 0;
  mutable std::array<index_t, Field::rank> extents_ = [] {
    std::array<index_t, Field::rank> unknown;
    unknown.fill(-1);
    return unknown;
  }();
};

/// Pulls: false if backward sees E in the node's type. Such nodes also occur in derivatives, whose own derivatives are
/// not needed. If these were compiled here, compilation would not end.
template <class Field, class E, bool Pulls>
struct StoredExpression final : StoredRecord<Field> {
  E inner;
  explicit StoredExpression(const E& e) : inner(e) {}

  Field compute() const override { return materialised<Field>(inner); }
  void pull(const OwedField<Field>& cotangent, GradientSink& gradients) const override {
    if constexpr (Pulls && has_variable<E>) backward_from(inner, cotangent, gradients);
  }
  bool explain(Explanation& explanation) const override { return explain_below<Field>(explanation, inner); }

 private:
  index_t find_extent(int d) const override { return stored_extent(inner, d); }
};

/// The record of an expression: that of an earlier expression with the same parts, if it still exists.
template <class Field, bool Pulls, class E>
std::shared_ptr<const StoredRecord<Field>> record_of(const E& e) {
  const auto make = [&] { return std::make_shared<const StoredExpression<Field, E, Pulls>>(e); };
  if constexpr (is_signed<E>) {
    static SignedRecords<const StoredRecord<Field>> records;
    return records.find(signature_of(e), make);
  } else {
    return make();
  }
}

}  // namespace detail

/// An expression as a field that is computed once per evaluation; made by stored(expression). Widths: field_widths_of
/// the expression; Variables: those of differentiation on which it depends; Part: the expression, if the library stores
/// it automatically (repeated_parts.hpp), else void.
template <class ResultField, detail::FieldWidths Widths, detail::VariableSet Variables, class Part = void>
struct Stored : detail::FieldStage<Stored<ResultField, Widths, Variables, Part>, ResultField> {
  using Result = ResultField;
  using part_type = Part;
  static constexpr const char* text = "stored, computed once for all readers";
  static constexpr detail::VariableSet variables = Variables;
  static constexpr detail::FieldWidths field_widths = Widths;
  static constexpr bool is_repeated_part = !std::is_void_v<Part>;
  std::shared_ptr<const detail::StoredRecord<Result>> record;
  explicit Stored(std::shared_ptr<const detail::StoredRecord<Result>> r)
      : detail::FieldStage<Stored, Result>{{}, r->identity}, record(std::move(r)) {}

  /// Only the record knows them.
  template <class F>
  auto operands(const F& f) const {
    return f();
  }
  index_t extent(int d) const { return record->extent(d); }
  Result compute() const { return record->compute(); }
};

namespace detail {

/// A field, or an expression that a record stores already.
template <class E>
inline constexpr bool is_held = requires(const E& e) { e.inner.field; } || requires(const E& e) { e.inner.record; };

/// An expression as a stored node of this field type.
template <class Field, class Part = void, class E>
auto stored_as(const E& e) {
  return Stored<Field, field_widths_of<E>, variables_of<E>, Part>(record_of<Field, std::is_void_v<Part>>(e));
}

/// An expression that the library stores automatically.
template <class Node>
const typename Node::part_type& part_of(const Node& node) {
  return static_cast<const StoredExpression<typename Node::Result, typename Node::part_type, false>&>(*node.record)
      .inner;
}

/// An operand of a stage that reads it more than once a point, and again for its gradient. A field or a stored node is
/// used directly; another expression is stored in T.
template <class T, class E>
auto held(const E& e) {
  if constexpr (is_held<E>)
    return e;
  else if constexpr (std::is_same_v<typename FieldLeaf<field_of_t<E, T>>::placed, typename E::placed>)
    return zero_bounded(stored_as<field_of_t<E, T>>(e));
  else
    return e;
}
/// A stage with its own record, so that expressions of the stage do not grow with its operand.
template <class Stage>
auto behind_record(const Stage& stage) {
  const auto e = zero_bounded(stage);
  return stored_as<typename Stage::Result>(e);
}
template <class T, class E>
using held_t = decltype(held<T>(std::declval<const E&>()));

}  // namespace detail

/// The expression, computed once per evaluation into a field that all readers of this node share. Its gradient is
/// collected from all of them and passed on once. stored(field) is the field. The result has the placements of x, and x
/// sends its messages once. You can shift it: with_boundary<...>(stored(e)).
template <FieldOperand X>
  requires(placed_at<X>::rank > 0)
auto stored(const X& x) {
  using E = expression_of<X>;
  if constexpr (detail::is_held<E>)
    return as_expression(x);
  else
    return detail::stored_as<detail::result_field_t<E>>(as_expression(x));
}

}  // namespace halogen
