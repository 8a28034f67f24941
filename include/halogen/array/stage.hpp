// Stages: parts of an expression that move or sum values, so they are computed before its kernel can run. Each is
// computed once per evaluation, even if the expression contains it several times.
#pragma once

#include <cstdint>
#include <memory>

#include "halogen/array/windowed.hpp"

namespace halogen {
namespace detail {

/// One evaluation with all its stages. Only the outermost scope counts, so a gradient shares the stages of its value.
class EvaluationScope {
 public:
  EvaluationScope() {
    if (depth()++ == 0) ++current();
  }
  ~EvaluationScope() { --depth(); }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

  static std::uint64_t& current() {
    static std::uint64_t number = 0;
    return number;
  }

 private:
  static int& depth() {
    static int depth = 0;
    return depth;
  }
};

/// A result that all copies of a node share. It is computed when it is first needed in an evaluation.
template <class Result>
class StageResult {
 public:
  struct State {
    Result result{};
    std::uint64_t evaluation = 0;
    NodeIdentity made;
  };
  StageResult() = default;
  StageResult(std::shared_ptr<State> state) : state_(std::move(state)) {}  // NOLINT: is one

  template <class Compute>
  const Result& get(Compute compute) const {
    const EvaluationScope scope;
    State& state = *state_;
    if (state.evaluation != EvaluationScope::current()) {
      state.result = compute();
      state.evaluation = EvaluationScope::current();
    }
    return state.result;
  }

  /// The same for copies of one node, different for all other nodes.
  const void* key() const { return state_.get(); }
  /// In the order in which nodes are made: operands before the nodes that contain them.
  std::uint64_t number() const { return state_->made.number(); }
  bool operator==(const StageResult&) const = default;

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

namespace types {
/// Base of stages whose result is a field; Self has compute() -> Field and grid(d) -> Cut.
template <class Self, class ResultField>
struct FieldStage
    : ExpressionNode<typename FieldLeaf<ResultField>::value_type, typename FieldLeaf<ResultField>::placed> {
  using grid_tag = void;
  using stage_tag = void;
  using Result = ResultField;
  StageResult<ResultField> identity;

  const ResultField& field() const {
    return identity.get([this] { return static_cast<const Self&>(*this).compute(); });
  }
  index_t extent(int d) const { return static_cast<const Self&>(*this).grid(d).extent(); }
  std::optional<Cut> cut(int d) const { return static_cast<const Self&>(*this).grid(d); }
  BoundField<typename ResultField::value_type, ResultField::rank> bind(const Offsets&) const {
    return {strided_view(field())};
  }
  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    visit(field(), access);
  }
};
}  // namespace types
using types::FieldStage;

/// The field type of an expression, with stored values of T.
template <class T, class Where>
struct field_of;
template <class T, class Sequence>
struct dynamic_tensor;
template <class T, std::size_t... D>
struct dynamic_tensor<T, std::index_sequence<D...>> {
  using type = Tensor<T, (static_cast<void>(D), dyn)...>;
};
template <class T, class MeshType, int Rank, int... Codes>
struct field_of<T, Placed<MeshType, Rank, Codes...>> {
  using type = Sharded<typename dynamic_tensor<T, std::make_index_sequence<Rank>>::type, MeshType,
                       typename placement_of<Codes>::type...>;
};
template <class E, class T = typename E::value_type>
using field_of_t = typename field_of<T, typename E::placed>::type;

}  // namespace detail
}  // namespace halogen
