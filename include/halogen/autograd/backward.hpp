// Reverse mode: a cotangent of an expression becomes cotangents of its variables. A fused region owes its variables one
// kernel each; each stage in it is given its cotangent as a field, once, and passes it on by its own rule.
#pragma once

#include "halogen/autograd/sink.hpp"
#include "halogen/autograd/terms.hpp"

namespace halogen::detail {

/// One gradient field per variable, placed and cut as it; empty until something is added.
template <class... Fields>
class Gradients final : public GradientSink {
 public:
  std::tuple<Fields...> variables, sums;

  explicit Gradients(const Fields&... fields) : variables(fields...) {}

  /// The gradients, once all that waits is pulled back; zeros where nothing depends on a variable.
  std::tuple<Fields...> finish() {
    run_deferred();
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple((std::get<I>(sums).empty() ? Fields(std::get<I>(variables).shape()) : std::get<I>(sums))...);
    }(std::index_sequence_for<Fields...>{});
  }

 private:
  Slot slot_of(int index) override { return slot_among(index, variables, sums); }
};

template <class E, class P, class All>
void backward(const E& e, const P& path, All& gradients);

/// The same for a stored cotangent whose cuts are not those that e would have by itself.
template <class E, class C, class All>
void backward_from(const E& e, const C& cotangent, All& gradients);

template <class Field>
auto leaf(const Field& field) {
  return zero_bounded(FieldLeaf<Field>(field));
}

// -- rules of nodes: from a stored cotangent to their operands

template <int Dim, class E, bool Strided, class C, class All>
void pull(const Resliced<Dim, E, Strided>& node, const C& cotangent, All& gradients) {
  using Inner = std::decay_t<decltype(leaf(cotangent))>;
  using Back = std::conditional_t<Strided, Spread<Dim, Inner>, Resliced<Dim, Inner, false>>;
  const index_t count = node.inner.extent(Dim);
  const auto back = zero_bounded(Strided ? Back(leaf(cotangent), node.begin, node.step, count)
                                         : Back(leaf(cotangent), -node.begin, 1, count));
  bool alike = C::placements == field_of_t<E, typename C::value_type>::placements;
  for (int d = 0; d < C::rank; ++d) alike = alike && (d == Dim || node.inner.extent(d) >= 0);
  if (alike) return backward(node.inner, back, gradients);
  // The operand fits any partners, and its cotangent lies as they do.
  auto cuts = cotangent.cuts();
  Cut& cut = cuts[Dim];
  if (const std::optional<Cut> own = node.inner.cut(Dim); own && own->parts() == cut.parts()) {
    cut = *own;
  } else {
    for (index_t& bound : cut.bounds) bound = std::clamp<index_t>(node.begin + bound * node.step, 0, count);
    cut.bounds.front() = 0;
    cut.bounds.back() = count;
  }
  backward_from(node.inner, computed<C>(C::make_shape(cotangent.mesh(), cuts), back), gradients);
}
template <class E, class... B, class C, class All>
void pull(const Bounded<E, B...>& node, const C& cotangent, All& gradients) {
  backward_from(node.inner, cotangent, gradients);
}
template <class Op, bool Mean, class E, int... Dims, class C, class All>
void pull(const Reduced<Op, Mean, E, Dims...>& node, const C& cotangent, All& gradients) {
  const auto spread = [](const auto& e) { return along_kept<Reduced<Op, Mean, E, Dims...>>(e); };
  if constexpr (std::is_same_v<Op, SumOp>) {
    using T = typename E::value_type;
    const Filled<T, typename E::placed> scale(static_cast<T>(1 / node.divisor()), *shape_of<field_of_t<E>>(node.inner));
    backward(node.inner, spread(leaf(cotangent)) * scale, gradients);  // the scale has the extents that are reduced
  } else if constexpr (std::is_same_v<Op, ProductOp>) {
    const auto zeros = spread(leaf(reduce_dims<SumOp, false, Dims...>(zero_factors(node.inner)).compute()));
    const auto others = spread(leaf(reduce_dims<Op, false, Dims...>(factors_beside_zeros(node.inner)).compute()));
    backward(node.inner, product_of_others(node.inner, spread(leaf(cotangent)), zeros, others), gradients);
  } else {
    const auto attains = node.inner == spread(leaf(node.field())) || node.inner != node.inner;
    const auto count = reduce_dims<SumOp, false, Dims...>(where(attains, 1, 0)).compute();
    backward(node.inner, where(attains, spread(leaf(cotangent)) / spread(leaf(count)), 0.0f), gradients);
  }
}
template <int Dim, bool Reverse, class E, class C, class All>
void pull(const CumulativeSum<Dim, Reverse, E>& node, const C& cotangent, All& gradients) {
  const auto inner = leaf(cotangent);
  const auto sum = CumulativeSum<Dim, !Reverse, std::decay_t<decltype(inner)>>(inner).compute();
  backward(node.inner, leaf(sum), gradients);
}
template <class Target, class E, class C, class All>
void pull(const Redistributed<Target, E>& node, const C& cotangent, All& gradients) {
  if constexpr (std::is_floating_point_v<compute_type<typename Target::value_type>>) {
    using Field = field_of_t<E, typename C::value_type>;
    const Field back(shape_of<Field>(node.inner), Field::Start::unwritten);
    backward(node.inner, leaf(redistribute_to(cotangent, back)), gradients);
  }
}
/// Applies the adjoints of the steps, the last step first. The fields between them are computed again.
template <int N, class Step, class E, class C, class All>
void pull(const Iterated<N, Step, E>& node, const C& cotangent, All& gradients) {
  using Field = typename Iterated<N, Step, E>::Result;
  std::vector<Field> states{materialised<Field>(node.inner)};
  for (int k = 1; k < N; ++k) states.push_back(as_expression(node.step(states.back())));
  Field owed = computed<Field>(states.back().shape(), leaf(cotangent));
  for (int k = N - 1; k >= 0; --k) {
    const Field& state = states[static_cast<std::size_t>(k)];
    Gradients<Field> gradient(state);
    backward(as_expression(node.step(VariableLeaf<0, Field>(state))), leaf(owed), static_cast<GradientSink&>(gradient));
    owed = std::get<0>(gradient.finish());
  }
  backward(node.inner, leaf(owed), gradients);
}
template <int Dim, class... E, class C, class All>
void pull(const Concatenated<Dim, E...>& node, const C& cotangent, All& gradients) {
  typename C::Extents from{}, to{}, count{};
  const auto part = [&](const auto& e) {
    using Part = std::decay_t<decltype(e)>;
    for (int d = 0; d < C::rank; ++d) count[static_cast<std::size_t>(d)] = stored_extent(e, d);
    if constexpr (has_variable<Part>) {
      const C own(shape_of<C>(e), C::Start::unwritten);
      copy_block(cotangent, own, from, to, count);
      backward_from(e, own, gradients);
    }
    from[Dim] += count[Dim];
  };
  std::apply([&](const E&... e) { (part(e), ...); }, node.parts);
}

// -- from all places where a node stands in a region to its cotangent -------------------------------------------------

/// Only the node's record knows what a user stored.
template <class Field, FieldWidths Widths, VariableSet Variables, class Part, class C, class All>
void pull(const Stored<Field, Widths, Variables, Part>& node, const C& cotangent, All& gradients) {
  if constexpr (std::is_void_v<Part>)
    node.record->pull(cotangent, gradients);
  else
    backward_from(part_of(node), cotangent, gradients);
}

/// A node whose own file says how it passes a cotangent on.
template <class Node, class C, class All>
concept HasVjp = requires(const Node& node, const C& cotangent, All& gradients) { node.vjp(cotangent, gradients); };

/// A cotangent in the field type that the stage collects.
template <class Node, class C>
auto owed_to(const Node&, const C& cotangent) {
  if constexpr (std::is_arithmetic_v<C>) {
    return cotangent;
  } else {
    using Owed = OwedField<typename Node::Result>;
    if constexpr (std::is_same_v<C, Owed>)
      return cotangent;
    else
      return computed<Owed>(Owed::make_shape(cotangent.mesh(), cotangent.cuts()), leaf(cotangent));
  }
}

/// Passes a node's cotangent on: now, or when all of them are there.
template <class Node, class C, class All>
void pass_on(const Node& node, const C& cotangent, All& gradients) {
  if constexpr (is_deferred<Node>)
    gradients.defer(node, owed_to(node, cotangent));
  else
    CotangentOf<Node>::pass(node, cotangent, gradients);
}

/// A node with a field of values: its cotangent is stored.
template <class Node>
struct CotangentOf {
  template <class Grid, class E>
  static auto store(const Grid& grid, const Node&, const E& term) {
    return stored_cotangent(grid, term);
  }
  template <class C, class Grid, class E>
  static void add(C& cotangent, const Grid&, const Node&, const E& term) {
    cotangent.rebind(evaluated(cotangent, cotangent + term));
  }
  template <class C, class All>
  static void pass(const Node& node, const C& cotangent, All& gradients) {
    if constexpr (HasVjp<Node, C, All>)
      node.vjp(cotangent, gradients);
    else
      pull(node, cotangent, gradients);
  }
};

/// along(x): summed over the dimensions that x does not have; permute(x): its own dimensions in their order.
template <class Inner, int Rank, int... Dims>
struct CotangentOf<Mapped<Inner, Rank, Dims...>> {
  using Node = Mapped<Inner, Rank, Dims...>;

  template <class Grid, class E>
  static auto store(const Grid& grid, const Node&, const E& term) {
    constexpr int rank = Grid::rank;
    // Where each of the node's dimensions stands among those that remain.
    constexpr auto rank_among = [](int d) {
      int before = 0;
      for (const int other : Node::dims) before += other < d;
      return before;
    };
    const auto expression = on_grid(grid, term);
    const auto summed = [&]<std::size_t... D>(std::index_sequence<D...>) {
      return sum_missing(expression, std::integer_sequence<int>{},
                         std::integer_sequence<int, static_cast<int>(D)...>{});
    }(std::make_index_sequence<static_cast<std::size_t>(rank)>{});
    const auto ordered = permute<rank_among(Dims)...>(summed);
    using Field = field_of_t<std::decay_t<decltype(ordered)>>;
    return computed<Field>(shape_of<Field>(ordered), ordered);
  }
  template <class C, class Grid, class E>
  static void add(C& cotangent, const Grid& grid, const Node& node, const E& term) {
    const auto more = store(grid, node, term);
    cotangent.rebind(evaluated(cotangent, cotangent + more));
  }
  template <class C, class All>
  static void pass(const Node& node, const C& cotangent, All& gradients) {
    using Field = field_of_t<Inner, typename C::value_type>;
    if constexpr (C::placements == Field::placements)
      backward_from(node.inner, cotangent, gradients);
    else  // x is whole where its partners are cut
      backward_from(node.inner, redistribute_to(cotangent, Field(shape_of<Field>(node.inner), Field::Start::unwritten)),
                    gradients);
  }

 private:
  /// The term with the grid's extents and cuts, even where it is a number.
  template <class Grid, class E>
  static auto on_grid(const Grid& grid, const E& term) {
    return leaf(stored_cotangent(grid, term));
  }
  template <class E, int... Missing>
  static auto sum_missing(const E& e, std::integer_sequence<int, Missing...>, std::integer_sequence<int>) {
    if constexpr (sizeof...(Missing) == 0)
      return e;
    else
      return sum<Missing...>(e);
  }
  template <class E, int... Missing, int D, int... Rest>
  static auto sum_missing(const E& e, std::integer_sequence<int, Missing...>, std::integer_sequence<int, D, Rest...>) {
    if constexpr (((D == Dims) || ...))
      return sum_missing(e, std::integer_sequence<int, Missing...>{}, std::integer_sequence<int, Rest...>{});
    else
      return sum_missing(e, std::integer_sequence<int, Missing..., D>{}, std::integer_sequence<int, Rest...>{});
  }
};

/// A reduction to one number: its cotangent is the sum over the region. Points that attain an extreme, or are NaN where
/// there is one, share its gradient equally, as in PyTorch.
template <class Op, class Inner, bool Mean>
struct CotangentOf<Reduction<Op, Inner, Mean>> {
  using Node = Reduction<Op, Inner, Mean>;

  template <class Grid, class E>
  static double store(const Grid& grid, const Node&, const E& term) {
    if constexpr (std::is_same_v<typename E::placed, NotPlaced> && Grid::rank == 0) {
      return static_cast<double>(term.bind({}).template row<true, -1>(Position{})(0));
    } else {
      return reduce_over<SumOp, double>(*grid.shape, term);
    }
  }
  template <class Grid, class E>
  static void add(double& cotangent, const Grid& grid, const Node& node, const E& term) {
    cotangent += store(grid, node, term);
  }
  template <class All>
  static void pass(const Node& node, double cotangent, All& gradients) {
    using T = std::conditional_t<std::is_integral_v<typename Inner::value_type>, double, typename Inner::value_type>;
    const auto shape = shape_of<field_of_t<Inner>>(node.inner);
    using Here = Filled<T, typename Inner::placed>;
    if constexpr (std::is_same_v<Op, SumOp>)
      backward(node.inner, Here(static_cast<T>(Mean ? cotangent / node.count() : cotangent), *shape), gradients);
    else if constexpr (std::is_same_v<Op, ProductOp>) {
      const Constant<std::int64_t> zeros(sum(zero_factors(node.inner)).item());
      const Constant<double> others(prod(factors_beside_zeros(node.inner)).item());
      backward(node.inner, product_of_others(node.inner, Constant<double>(cotangent), zeros, others), gradients);
    } else {
      const auto value = static_cast<typename Inner::value_type>(node.item());
      const auto attains = node.inner == value || node.inner != node.inner;
      const auto count = static_cast<double>(sum(where(attains, 1, 0)).item());
      backward(node.inner, where(attains, static_cast<T>(cotangent / count), T(0)), gradients);
    }
  }
};

template <class Grid, class Tuple, class All>
void pass_to_nodes(const Grid& grid, const Tuple& all, All& gradients) {
  std::array<bool, std::tuple_size_v<Tuple> + 1> done{};
  const auto one = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
    using Term = std::tuple_element_t<K, Tuple>;
    if constexpr (is_node_term<Term>) {
      if (done[K]) return;
      using Node = typename Term::node_type;
      const Node& node = std::get<K>(all).node;
      auto cotangent = CotangentOf<Node>::store(grid, node, std::get<K>(all).term);
      const auto same = [&]<std::size_t J>(std::integral_constant<std::size_t, J>) {
        if constexpr (J > K && may_repeat<std::tuple_element_t<J, Tuple>, Node>)
          if (is_repeated(std::get<J>(all).node, node)) {
            CotangentOf<Node>::add(cotangent, grid, node, std::get<J>(all).term);
            done[J] = true;
          }
      };
      [&]<std::size_t... J>(std::index_sequence<J...>) {
        (same(std::integral_constant<std::size_t, J>{}), ...);
      }(std::make_index_sequence<std::tuple_size_v<Tuple>>{});
      pass_on(node, cotangent, gradients);
    }
  };
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    (one(std::integral_constant<std::size_t, K>{}), ...);
  }(std::make_index_sequence<std::tuple_size_v<Tuple>>{});
}

/// The sum of all terms of a variable, where K is its first.
template <std::size_t K, class Tuple, class All>
void add_variable(const Tuple& all, All& gradients) {
  using Term = std::tuple_element_t<K, Tuple>;
  if constexpr (!is_node_term<Term>) {
    constexpr bool is_first = []<std::size_t... J>(std::index_sequence<J...>) {
      return !(is_term_of<Term::index, std::tuple_element_t<J, Tuple>> || ...);
    }(std::make_index_sequence<K>{});
    if constexpr (is_first)
      gradients.template add<Term::index, typename Term::Field>(std::get<0>(sum_of_terms<Term::index, K>(all)));
  }
}

template <class Grid, class E, class P, class All, int... Zero>
void backward_on(const Grid& grid, const E& e, const P& path, All& gradients, Total<Zero...> zero) {
  const auto all = terms(grid, e, path, zero);
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    (add_variable<K>(all, gradients), ...);
  }(std::make_index_sequence<std::tuple_size_v<std::decay_t<decltype(all)>>>{});
  pass_to_nodes(grid, all, gradients);
}

template <class E>
using GridOf = CotangentGrid<typename E::placed>;

/// Zero shifts, one for each dimension of E.
template <class E>
constexpr auto unshifted() {
  return []<std::size_t... D>(std::index_sequence<D...>) {
    return Total<(static_cast<int>(D) * 0)...>{};
  }(std::make_index_sequence<static_cast<std::size_t>(GridOf<E>::rank)>{});
}

/// Adds to the gradients what a cotangent `path` of `e`, on e's grid, owes them.
template <class E, class P, class All>
void backward(const E& e, const P& path, All& gradients) {
  if constexpr (!has_variable<E>)
    return;
  else if constexpr (std::is_same_v<typename E::placed, NotPlaced>)
    backward_on(GridOf<E>{}, e, path, gradients, unshifted<E>());
  else
    backward_on(GridOf<E>{shape_of<typename GridOf<E>::Stored>(e)}, e, path, gradients, unshifted<E>());
}

template <class E, class C, class All>
void backward_from(const E& e, const C& cotangent, All& gradients) {
  using Grid = CotangentGrid<typename FieldLeaf<C>::placed>;
  if constexpr (has_variable<E>) backward_on(Grid{cotangent.shape()}, e, leaf(cotangent), gradients, unshifted<E>());
}

}  // namespace halogen::detail

namespace halogen {

/// For the vjp of a stage of one's own: adds what an operand is owed, a field placed as the operand, to the gradients
/// of the variables in it. Nothing happens if there are none. Collective.
template <Expression E, class Cotangent, class Gradients>
  requires is_sharded<Cotangent>
void add_gradient(const E& operand, const Cotangent& cotangent, Gradients& gradients) {
  detail::backward_from(operand, cotangent, gradients);
}

}  // namespace halogen
