// explain(expression) says what an assignment of the expression does: stages, halos, messages, bytes, kernels.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "halogen/array/cumulative.hpp"
#include "halogen/array/iterate.hpp"
#include "halogen/array/reduced.hpp"
#include "halogen/array/stencil.hpp"

namespace halogen {

/// What one assignment costs this rank. Messages: those of halos that it sends. Stages inside a step of iterate() are
/// not counted; its kernels and halos are.
struct ExpressionCost {
  int kernels = 0;    ///< fused kernels: the assignment's own and its stages'
  int stages = 0;     ///< parts that move or sum, computed before the kernel
  int exchanges = 0;  ///< fields whose halo is exchanged
  index_t messages = 0, bytes = 0;
};

namespace detail {

template <class E, class F>
void each_operand(const E& e, F f) {
  if constexpr (requires { e.args; })
    e.args.apply([&](const auto&... a) { (f(a), ...); });
  else if constexpr (requires { e.parts; })
    std::apply([&](const auto&... a) { (f(a), ...); }, e.parts);
  else if constexpr (requires { e.inner; })
    f(e.inner);
}

template <class E>
inline constexpr const char* stage_text = nullptr;
template <class E, bool Mean>
inline constexpr const char* stage_text<Reduction<SumOp, E, Mean>> = "sum to a number, one all_reduce";
template <class E>
inline constexpr const char* stage_text<Reduction<MaxOp, E, false>> = "max to a number, one all_reduce";
template <class E>
inline constexpr const char* stage_text<Reduction<MinOp, E, false>> = "min to a number, one all_reduce";
template <class E>
inline constexpr const char* stage_text<ArgMax<E>> = "argmax to an index, two all_reduces";
template <class Op, bool Mean, class E, int... D>
inline constexpr const char* stage_text<Reduced<Op, Mean, E, D...>> =
    std::is_same_v<Op, ArgMaxOp> ? "argmax over a dimension, two all_reduces where it is cut"
                                 : "reduction over some dimensions, one all_reduce where they are cut";
template <int Dim, bool Reverse, class E>
inline constexpr const char* stage_text<CumulativeSum<Dim, Reverse, E>> =
    "cumulative sum, one all_gather where its dimension is cut";
template <class Target, class E>
inline constexpr const char* stage_text<Redistributed<Target, E>> = "redistribute";
template <int Dim, class... E>
inline constexpr const char* stage_text<Concatenated<Dim, E...>> = "concatenate, each point moves once at most";
template <class Field, FieldWidths Widths, bool IsVariable, class Part>
inline constexpr const char* stage_text<Stored<Field, Widths, IsVariable, Part>> =
    "stored, computed once for all readers";
template <int N, class Step, class E>
inline constexpr const char* stage_text<Iterated<N, Step, E>> = "iterate, one deep exchange";

/// The field type in which a stage stores its operands before it begins; void if it reads them in its own kernel.
template <class E>
struct stage_operand {
  using type = void;
};
template <class Target, class E>
struct stage_operand<Redistributed<Target, E>> {
  using type = typename Redistributed<Target, E>::Source;
};
template <int Dim, class... E>
struct stage_operand<Concatenated<Dim, E...>> {
  using type = typename Concatenated<Dim, E...>::Result;
};
template <int N, class Step, class E>
struct stage_operand<Iterated<N, Step, E>> {
  using type = typename Iterated<N, Step, E>::Result;
};
/// Whether materialised<Field>(E) is an existing field, so that no kernel runs.
template <class Field, class E>
inline constexpr bool stands_as = false;
template <class Field, class E, class... B>
inline constexpr bool stands_as<Field, Bounded<E, B...>> = [] {
  if constexpr (requires { typename E::Field; })
    return std::is_same_v<typename E::Field, Field>;
  else if constexpr (requires { typename E::stage_tag; })
    return std::is_same_v<typename E::Result, Field>;
  else
    return false;
}();

/// Whether only a record knows the parts of a node (stored.hpp).
template <class E>
inline constexpr bool has_record = requires(const E& e) { e.record; };

/// Whether a stage reads this operand in place.
template <class Stage, class Operand>
inline constexpr bool operand_stands = stands_as<typename stage_operand<Stage>::type, Operand>;

class Explanation {
 public:
  ExpressionCost cost;
  std::string text;

  template <class E>
  void region(const E& e) {
    stages(e);
    ++cost.kernels;
    if constexpr (!std::is_same_v<typename E::placed, NotPlaced>) {
      const auto shape = shape_of<field_of_t<E>>(e);
      line("kernel over ", box_text(*shape), " points of ", extents_text(*shape), " on ",
           shape->decomposition().text());
      const Reads<typename field_of_t<E>::Shape, Exchange> reads(e);
      reads.each_exchange(Grid<E::placed::rank>(*shape), Exchange{*this});
    }
  }

  /// Explains the parts of a stored node of this type; false if the node is the field of another stage.
  template <class Field, class E>
  bool below(const E& e) {
    if constexpr (stands_as<Field, E>)
      stages(e);
    else
      region(e);
    return !stands_as<Field, E>;
  }

 private:
  /// Reads calls this for a field whose halo is exchanged.
  struct Exchange {
    Explanation& to;
    template <class Field, class Needed>
    void operator()(const Field& field, const Needed& needed) const {
      to.exchange(field, needed);
    }
  };

  template <class... Parts>
  void line(const Parts&... parts) {
    ((text += parts), ...);
    text += '\n';
  }

  /// Explains the stages below e that were not explained before, each after its own operands.
  template <class E>
  void stages(const E& e) {
    if constexpr (stage_text<E> != nullptr) {
      for (const void* one : seen_)
        if (one == e.identity.key()) return;
      seen_.push_back(e.identity.key());
      if constexpr (has_record<E>)
        if (!e.record->explain(*this)) return;
      each_operand(e, [&](const auto& operand) {
        if constexpr (operand_stands<E, std::decay_t<decltype(operand)>>)
          stages(operand);
        else
          region(operand);
      });
      ++cost.stages;
      if constexpr (requires { e.words(); })
        line("stage ", std::to_string(cost.stages), ": ", e.words());
      else
        line("stage ", std::to_string(cost.stages), ": ", stage_text<E>);
      steps(e);
    } else {
      each_operand(e, [&](const auto& operand) { stages(operand); });
    }
  }

  /// What a stage does in addition to reading its operands once: argmax looks for the place of the largest value,
  /// iterate steps.
  template <class E>
  void steps(const E&) {}
  template <class E>
  void steps(const ArgMax<E>& e) {
    region(e.inner);
  }
  template <int N, class Step, class E>
  void steps(const Iterated<N, Step, E>& e) {
    using Field = typename Iterated<N, Step, E>::Result;
    Step step = e.step;
    DeepHalo<N, Step, Field>(step, materialised<Field>(e.inner)).each_exchange(Exchange{*this});
    cost.kernels += N;
    line("  ", std::to_string(N), " kernels, one a step");
  }

  template <class Field>
  void exchange(const Field& field, const Reach<Field::rank>& reach) {
    exchange(field, halo_needs(field, reach));
  }
  template <class Field>
  void exchange(const Field& field, const HaloNeeds<Field::rank>& needs) {
    const int rank = field.mesh().rank();
    const auto traffic = HaloStrips<Field::rank>(needs, field.decomposition(), rank).traffic(rank);
    const auto bytes = traffic.points * static_cast<index_t>(sizeof(typename Field::value_type));
    std::string widths;
    for (int d = 0; d < Field::rank; ++d) {
      const Interval own = field.owned(d), need = needs.needed_by(d, field.decomposition().part(rank, d));
      widths += (d ? ", " : "") + std::to_string(own.begin - need.begin) + "+" + std::to_string(need.end - own.end);
    }
    ++cost.exchanges;
    cost.messages += traffic.messages;
    cost.bytes += bytes;
    line("  halo of a field of ", extents_text(field), ": ", widths, " points; ", std::to_string(traffic.messages),
         " messages, ", std::to_string(bytes), " bytes");
  }

  template <class Like>
  static std::string extents_text(const Like& like) {
    std::string text;
    for (int d = 0; d < Like::rank; ++d) text += (d ? " x " : "") + std::to_string(like.extent(d));
    return text;
  }
  template <class Like>
  static std::string box_text(const Like& like) {
    std::string text;
    for (int d = 0; d < Like::rank; ++d) text += (d ? " x " : "") + std::to_string(like.owned(d).size());
    return text;
  }

  std::vector<const void*> seen_;
};

template <class Field, class E>
bool explain_below(Explanation& explanation, const E& e) {
  return explanation.below<Field>(e);
}

template <class E>
Explanation explanation_of(const E& expression) {
  const EvaluationScope scope;
  Explanation explanation;
  explanation.region(as_expression(expression));
  return explanation;
}

}  // namespace detail

/// What assigning the expression does on this rank, in words. Collective: if a kernel reads a stage's field, the stage
/// is computed, because its shape is needed.
template <Expression E>
std::string explain(const E& expression) {
  return detail::explanation_of(expression).text;
}
/// The same as numbers.
template <Expression E>
ExpressionCost cost_of(const E& expression) {
  return detail::explanation_of(expression).cost;
}

}  // namespace halogen
