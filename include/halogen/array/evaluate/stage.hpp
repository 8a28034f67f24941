// Stages: parts of an expression that move or sum values, so they are computed before its kernel can run. Each is
// computed once per evaluation, even if the expression contains it several times.
#pragma once

#include <cstdint>
#include <memory>

#include "halogen/array/expression/windowed.hpp"

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
/// Base of stages: nodes that are computed as a field before a kernel reads them. Self has
///   operands(f)                  as every node
///   compute() const              -> ResultField: the stage's result, once per evaluation. Collective
///   vjp(cotangent, gradients)    passes a cotangent, a field placed and cut as the result, on to the operands by
///                                add_gradient (autograd/backward.hpp), if it has a gradient
///   extent(d)                    if it is known before the stage is computed
///   text                         what explain(expression) says of it
///   Source                       the field type in which it stores its operands before it begins, if it does
template <class Self, class ResultField>
struct FieldStage
    : ExpressionNode<typename FieldLeaf<ResultField>::value_type, typename FieldLeaf<ResultField>::placed> {
  using grid_tag = void;
  using stage_tag = void;
  using Result = ResultField;
  static constexpr const char* text = "stage";
  StageResult<ResultField> identity;

  const ResultField& field() const {
    return identity.get([this] { return static_cast<const Self&>(*this).compute(); });
  }
  index_t extent(int d) const { return field().extent(d); }
  std::optional<Cut> cut(int d) const { return field().cut(d); }
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

/// The same with static extents of 1 in the dimensions (bits) Single, so that it still broadcasts there.
template <class T, class Where, unsigned Single>
struct field_with_single;
template <class T, class MeshType, int Rank, int... Codes, unsigned Single>
struct field_with_single<T, Placed<MeshType, Rank, Codes...>, Single> {
  template <std::size_t... D>
  static Tensor<T, ((Single >> D & 1u) != 0 ? 1 : dyn)...> tensor(std::index_sequence<D...>);
  using type = Sharded<decltype(tensor(std::make_index_sequence<static_cast<std::size_t>(Rank)>{})), MeshType,
                       typename placement_of<Codes>::type...>;
};
/// The field type in which a stage leaves an expression's values: dimensions of one point stay dimensions of one point.
template <class E, class T = typename E::value_type>
using result_field_t = typename field_with_single<T, typename E::placed, one_point<E>::single>::type;

}  // namespace detail

/// For stages of one's own (docs/extending.md): their base, and the field type of an expression's values.
using detail::FieldStage;
template <Expression E>
using FieldOf = detail::result_field_t<E>;
}  // namespace halogen
