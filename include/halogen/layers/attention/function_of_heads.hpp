// A Function whose values are heads of attention. FunctionOf would give the functor whole values, and the functor would
// cut them, transpose them and join the gradients again: 35 times the memory of the result. Here each part of a value
// is copied once to rows (layers/attention/head_channels.hpp), and kernels read the gradients' rows as they write
// channels. Forward keeps the logarithms of the sums. Backward takes them and the stored result, so it does not compute
// attention again. With ToVector nothing is kept, and backward computes it again.
//
// The functor F has
//
//   static constexpr HeadPart parts[]         which heads of which values become rows; of a value in ascending order
//   static constexpr int heads                of the result
//   static constexpr int queries_of, keys_of  the values whose points are queries and keys
//   static constexpr bool joins_rows          gradients of parts come through other nodes than Attention
//   static auto attended(generator or nothing, field of queries, field of keys, std::tuple of rows, other values...)
//                                             an AttentionCall, or with ToVector an expression of attention
//   static TrafficUse traffic(place, backward, keeps), and memory and words as for Function
#pragma once

#include "halogen/autograd/attention.hpp"
#include "halogen/layers/attention/head_channels.hpp"
#include "halogen/layers/functions/function.hpp"

namespace halogen::detail {

/// Heads [first, first + heads) of a value that has `all` heads.
struct HeadPart {
  int value, first, heads, all;
};

/// What backward has found, until the last of the node's launches has taken its share.
template <class Rows, class Beside>
struct HeadGradients {
  Rows rows;      ///< of each part
  Beside beside;  ///< of the values that have no part
  int launches = 0;
};

template <class F, int Values, unsigned Vectors, bool MakesVector, bool Draws>
struct HeadsFunctionOf {
  using Base = FunctionOf<F, Values, Vectors, MakesVector, Draws>;
  static constexpr int with_points = Base::with_points, parts = static_cast<int>(std::size(F::parts));

  static constexpr bool is_split(int value) {
    return std::ranges::any_of(F::parts, [value](const HeadPart& part) { return part.value == value; });
  }
  static constexpr int beside_before(int value) {
    int count = 0;
    for (int i = 0; i < value; ++i) count += !is_split(i);
    return count;
  }
  static constexpr int beside = beside_before(Values);
  static constexpr int value_beside(int number) {
    int value = 0;
    while (is_split(value) || beside_before(value) != number) ++value;
    return value;
  }
  static_assert(std::ranges::is_sorted(F::parts, [](const HeadPart& a, const HeadPart& b) {
    return a.value == b.value && a.first < b.first;
  }));
  template <int Count>
  using Numbers = std::make_integer_sequence<int, Count>;

  template <class S>
  static kernels::OwnedPoints points_of(const LaunchAt<S>& at, int level) {
    return {at.layout().owned(level, 1), at.layout().owned(level, 2), at.layout().planes(level)};
  }

  // -- operands ---------------------------------------------------------------------------------------------------
  template <class Queries, class Keys, class Rows, class Beside>
  struct Operands {
    Queries of_queries;
    Keys of_keys;
    Rows rows;
    Beside beside;
  };

  template <int Part, class S, class Field>
  static auto rows_of_part(const LaunchAt<S>& at, const Field& field, int operand) {
    constexpr HeadPart part = F::parts[Part];
    const int width = static_cast<int>(field.extent(1)) / part.all;
    if (width * part.all != field.extent(1))
      throw CollectiveError("attention: " + std::to_string(field.extent(1)) + " channels are not a multiple of " +
                            std::to_string(part.all) +
                            " heads of queries, keys and values: give as many for each head");
    const auto rows = empty_rows<S>(field, part.heads, width);
    const int level = at.plan().values[at.launch().reads[operand].value()].level;
    copy_to_rows(at.space(), view_of(field), points_of(at, level), part.first * width, rows);
    return rows;
  }
  /// The values, starting at operand `first`.
  template <class S, class Context>
  static auto operands(const LaunchAt<S>& at, const Context& context, int first) {
    const auto values = Base::values(at, context, first);
    const auto rows = [&]<int... P>(std::integer_sequence<int, P...>) {
      return std::tuple(rows_of_part<P>(at, std::get<F::parts[P].value>(values), first + F::parts[P].value)...);
    }(Numbers<parts>{});
    const auto others = [&]<int... B>(std::integer_sequence<int, B...>) {
      return std::tuple(std::get<value_beside(B)>(values)...);
    }(Numbers<beside>{});
    return Operands<std::decay_t<decltype(std::get<F::queries_of>(values))>,
                    std::decay_t<decltype(std::get<F::keys_of>(values))>, std::decay_t<decltype(rows)>,
                    std::decay_t<decltype(others)>>{std::get<F::queries_of>(values), std::get<F::keys_of>(values), rows,
                                                    others};
  }

  /// What F makes of the operands as leaves. Leaf<I, Field>: the other values come first, then the rows.
  template <template <int, class> class Leaf, class S, class Of>
  static auto attended(const LaunchAt<S>& at, const Of& of) {
    std::optional<Generator> draws;
    if constexpr (Draws) draws = generator_of(at.random());
    return [&]<int... P, int... B>(std::integer_sequence<int, P...>, std::integer_sequence<int, B...>) {
      const auto leaf_of = []<int I, class Field>(std::integral_constant<int, I>, const Field& field) {
        return Leaf<I, Field>(field, "attention");
      };
      return F::attended(draws, as_leaf(of.of_queries), as_leaf(of.of_keys),
                         std::tuple(leaf_of(std::integral_constant<int, beside + P>(), std::get<P>(of.rows))...),
                         leaf_of(std::integral_constant<int, B>(), std::get<B>(of.beside))...);
    }(Numbers<parts>{}, Numbers<beside>{});
  }
  template <int, class Field>
  using Constant = FieldLeaf<Field>;
  template <class Field>
  static auto as_leaf(const Field& field) {
    return FieldLeaf<Field>(field, "attention");
  }

  // -- rows as channels -------------------------------------------------------------------------------------------
  /// Reads rows of V as the channels of value `Value`.
  template <class V, int Value, class S, class Rows>
  static auto channels_of(const LaunchAt<S>& at, const Rows& rows) {
    kernels::RowsAsChannels<compute_type<S>, V> reader;
    reader.points = points_of(at, at.launch().level);
    int head = 0, group = 0;
    const auto next = [&](int begin, int end, int width) -> auto& {  // after heads that have no rows
      if (begin > head) reader.groups[group++].channels = (begin - head) * width;
      head = end;
      return reader.groups[group++];
    };
    const auto add = [&]<int P>(std::integral_constant<int, P>) {
      constexpr HeadPart part = F::parts[P];
      if constexpr (part.value == Value) {
        const auto& field = std::get<P>(rows);
        const int width = static_cast<int>(field.extent(3));
        next(part.first, part.first + part.heads, width) = {head_rows(field).read_only(), part.heads * width, width};
      }
    };
    [&]<int... P>(std::integer_sequence<int, P...>) { (add(std::integral_constant<int, P>()), ...); }(Numbers<parts>{});
    return reader;
  }
  template <bool Again, class S, class Rows>
  static void keep_logarithms(const LaunchAt<S>& at, const TensorView<S>& kept, const Rows& logarithms) {
    using T = compute_type<S>;
    const KeepLogarithms<S, T, Again> keep{kept, head_rows(logarithms), points_of(at, at.node().level), F::heads};
    launch_range(at.space(), "halogen::attention_logarithms", keep.items(logarithms.local_extent(0)), keep);
  }

  // -- launches ---------------------------------------------------------------------------------------------------
  struct Forward {
    static constexpr const char* label = "halogen::attention_channels";
    static constexpr bool common_output = !MakesVector;
    static std::string words(const Layout& layout, const Launch& launch) {
      return Base::words_of(Base::place_of(layout, launch, 0));
    }
    static index_t memory(const Layout& layout, const Launch& launch) {
      return Base::memory_of(Base::place_of(layout, launch, 0));
    }
    static TrafficUse traffic(const Layout& layout, const Launch& launch) {
      return F::traffic(Base::place_of(layout, launch, 0), false, launch.kept >= 0);
    }
    template <class S, class Context>
    static void evaluate(const LaunchAt<S>& at, Context& context) {
      at.hand_over();
      const auto of = operands(at, context, 0);
      const EvaluationScope scope;
      const auto seen = attended<Constant>(at, of);
      if constexpr (MakesVector) {
        Base::write_vector(at, context, label, as_expression(seen));
      } else {
        using T = compute_type<S>;
        auto pass = seen.pass();
        pass.forward();
        const auto rows = pass.output();
        kernels::RowsAsChannels<T, T> reader;
        reader.points = points_of(at, at.node().level);
        const int width = static_cast<int>(rows.extent(3));
        reader.groups[0] = {head_rows(rows).read_only(), F::heads * width, width};
        at.over_rows(label, kernels::CopyRows<S, kernels::RowsAsChannels<T, T>>{reader, 0});
        if (at.launch().kept >= 0) keep_logarithms<false>(at, at.kept(), pass.logarithms());
      }
    }
  };

  template <int Index>
  struct Backward {
    static constexpr const char *label = "halogen::attention_backward", *suffix = " backward";
    using All = BackwardLaunches<Values, Backward>;
    /// The first of a node's launches computes all gradients.
    static TrafficUse traffic(const Layout& layout, const Launch& launch) {
      if (!All::is_first(layout.plan(), launch)) return {};
      return F::traffic(Base::place_of(layout, launch, 1), true, !MakesVector);
    }
    template <class S, class Context>
    static void evaluate(const LaunchAt<S>& at, Context& context) {
      All::take_share(
          at, context, [&] { return gradients(at, context); },
          [&](const auto& found) {
            if constexpr (is_split(Index)) {
              using V = typename std::decay_t<decltype(std::get<0>(found.rows))>::value_type;
              using Reader = kernels::RowsAsChannels<compute_type<S>, V>;
              const Reader reader = channels_of<V, Index>(at, found.rows);
              at.over_rows(label, kernels::CopyRows<S, Reader>{reader, at.first_channel()});
            } else {
              Base::template write_gradient<Index>(at, label, std::get<beside_before(Index)>(found.beside));
            }
          });
    }
  };

  /// The gradients of all values.
  template <class S, class Context>
  static auto gradients(const LaunchAt<S>& at, const Context& context) {
    at.hand_over();
    const auto of = operands(at, context, 1);
    const auto cotangent = Base::cotangent_of(at, context);
    const EvaluationScope scope;
    const auto seen = attended<VariableLeaf>(at, of);
    return std::apply([&](const auto&... other) { return found_in(at, of, cotangent, seen, other...); }, of.beside);
  }

  template <class S, class Of, class Cotangent, class Seen, class... Other>
  static auto found_in(const LaunchAt<S>& at, const Of& of, const Cotangent& cotangent, const Seen& seen,
                       const Other&... other) {
    if constexpr (F::joins_rows) {
      return std::apply(
          [&](const auto&... rows) {
            Gradients<Other..., std::decay_t<decltype(rows)>...> sums(other..., rows...);
            if constexpr (MakesVector)
              backward(as_expression(seen), leaf(cotangent), static_cast<GradientSink&>(sums));
            else
              resumed(at, of, cotangent, seen, [&](auto& pass, const auto& owed) {
                pull_call(seen, pass, owed, static_cast<GradientSink&>(sums));
              });
            return std::apply(
                [](const Other&... of_other, const auto&... of_rows) {
                  return HeadGradients<std::tuple<std::decay_t<decltype(of_rows)>...>, std::tuple<Other...>>{
                      {of_rows...}, {of_other...}};
                },
                sums.finish());
          },
          of.rows);
    } else {
      Gradients<Other...> sums(other...);
      const auto found = resumed(at, of, cotangent, seen,
                                 [&](auto& pass, const auto& owed) { return gradients_of_call(seen, pass, owed); });
      pull_bias(seen, found, static_cast<GradientSink&>(sums));
      const auto rows = std::tuple(found.query, found.key, found.value);
      return HeadGradients<std::decay_t<decltype(rows)>, std::tuple<Other...>>{rows, sums.finish()};
    }
  }
  /// pull(pass, gradient of the result as rows), where the pass has the stored result and computes nothing again.
  template <class S, class Of, class Cotangent, class Call, class Pull>
  static auto resumed(const LaunchAt<S>& at, const Of& of, const Cotangent& cotangent, const Call& call, Pull pull) {
    using T = compute_type<S>;
    const kernels::OwnedPoints points = points_of(at, at.node().level);
    const int width = at.node().channels / F::heads;
    const auto owed = empty_rows<T>(of.of_queries, F::heads, width),
               output = empty_rows<T>(of.of_queries, F::heads, width);
    const auto logarithms = empty_rows<T>(of.of_queries, F::heads, 1);
    copy_to_rows(at.space(), view_of(cotangent), points, 0, owed);
    copy_to_rows(at.space(), at.tensor(1 + Values), points, 0, output);
    keep_logarithms<true>(at, at.tensor(2 + Values), logarithms);
    auto pass = call.pass();
    pass.resume(output, logarithms);
    return pull(pass, owed);
  }

  // -- plan -------------------------------------------------------------------------------------------------------
  static constexpr void forward(Planner& planner, const Node& node) {
    Launch launch = Base::template forward_launch<Forward>(planner, node);
    if (!MakesVector) planner.keep(launch, kernels::kept_of_head * F::heads, launch.level);
    planner.emit_forward(node, launch);
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    BackwardLaunches<Values, Backward>::template emit<Base>(planner, node, [&](Launch& launch) {
      if (!MakesVector) launch.read(planner.result(node)).read(planner.kept(node, Pattern::point()));
    });
  }

  static constexpr Operation operation{"attention", forward, vjp};
};

template <class F, int Values, unsigned Vectors, bool MakesVector, bool Draws>
  requires requires { F::parts; }
struct chosen_function<F, Values, Vectors, MakesVector, Draws> {
  using type = HeadsFunctionOf<F, Values, Vectors, MakesVector, Draws>;
};

}  // namespace halogen::detail
