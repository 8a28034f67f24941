// explain(expression) says what an assignment of the expression does: stages, halos, messages, bytes, kernels.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "halogen/array/expression/stencil.hpp"
#include "halogen/array/stages/argmax.hpp"
#include "halogen/array/stages/cumulative.hpp"
#include "halogen/array/stages/iterate.hpp"

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

/// What a stage says of itself; null of other nodes.
template <class E>
constexpr const char* stage_text() {
  if constexpr (requires { E::text; })
    return E::text;
  else
    return nullptr;
}

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

/// Whether a stage reads this operand in place: a field of the type in which it would store it, or another stage.
template <class Stage, class Operand>
constexpr bool operand_stands() {
  if constexpr (stage_text<Operand>() != nullptr)
    return true;
  else if constexpr (requires { typename Stage::template SourceOf<Operand>; })
    return stands_as<typename Stage::template SourceOf<Operand>, Operand>;
  else if constexpr (requires { typename Stage::Source; })
    return stands_as<typename Stage::Source, Operand>;
  else
    return false;
}

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
      const ReadFields<typename field_of_t<E>::Shape, Exchange> reads(e);
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
    if constexpr (stage_text<E>() != nullptr) {
      for (const void* one : seen_)
        if (one == e.identity.key()) return;
      seen_.push_back(e.identity.key());
      if constexpr (has_record<E>)
        if (!e.record->explain(*this)) return;
      const auto explained = [&](const auto& operand) {
        if constexpr (operand_stands<E, std::decay_t<decltype(operand)>>())
          stages(operand);
        else
          region(operand);
      };
      e.operands([&](const auto&... operand) { (explained(operand), ...); });
      ++cost.stages;
      if constexpr (requires { e.words(); })
        line("stage ", std::to_string(cost.stages), ": ", e.words());
      else
        line("stage ", std::to_string(cost.stages), ": ", E::text);
      steps(e);
    } else {
      e.operands([&](const auto&... operand) { (stages(operand), ...); });
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
