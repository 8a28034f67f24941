// The gradient of what is broadcast: the sum over the points at which it was read.
#pragma once

#include "halogen/autograd/backward.hpp"

namespace halogen::detail {

template <class Grid, class E, unsigned Mask, class P, int... S>
auto node_terms(const Grid&, const Broadcast<E, Mask>& e, const P& path, Total<S...> shift) {
  if constexpr (((S == 0) && ...)) {
    return std::tuple(NodeTerm<Broadcast<E, Mask>, P>{e, path});
  } else {  // what is read at a distance is the operand moved, along the dimensions that it has
    auto inner = [&]<std::size_t... D>(std::index_sequence<D...>) {
      return shifted<0>(e.inner, Total<(names_dimension(Mask, static_cast<int>(D)) ? 0 : S)...>{});
    }(std::make_index_sequence<sizeof...(S)>{});
    static_cast<void>(shift);
    using Node = Broadcast<decltype(inner), Mask>;
    return std::tuple(NodeTerm<Node, P>{Node(inner), path});
  }
}

template <class Inner, unsigned Mask>
struct CotangentOf<Broadcast<Inner, Mask>> {
  using Node = Broadcast<Inner, Mask>;
  static constexpr int rank = Inner::placed::rank;

  template <class Grid, class E>
  static auto store(const Grid& grid, const Node&, const E& term) {
    const auto whole = stored_cotangent(grid, term);  // with the grid's extents and cuts, even where it is a number
    if constexpr (Mask + 1 == 1u << rank) {
      using T = typename std::decay_t<decltype(whole)>::value_type;
      using Field = typename field_of<T, typename Inner::placed>::type;
      std::array<Cut, rank> cuts;
      cuts.fill(Cut::chunk(1, 1));
      const auto shape = Field::make_shape(whole.mesh(), cuts);
      const auto total = static_cast<T>(reduce_over<SumOp, double>(*whole.shape(), leaf(whole)));
      return computed<Field>(shape, Filled<T, typename FieldLeaf<Field>::placed>(total, *shape));
    } else {
      const auto summed = sum_over(leaf(whole), std::make_integer_sequence<int, rank>{});
      using Field = field_of_t<std::decay_t<decltype(summed)>>;
      return computed<Field>(shape_of<Field>(summed), summed);
    }
  }
  template <class C, class Grid, class E>
  static void add(C& cotangent, const Grid& grid, const Node& node, const E& term) {
    cotangent = cotangent + store(grid, node, term);
  }
  template <class C, class All>
  static void pass(const Node& node, const C& cotangent, All& gradients) {
    using Field = field_of_t<Inner, typename C::value_type>;
    if constexpr (C::placements == Field::placements)
      backward_from(node.inner, cotangent, gradients);
    else  // it is whole where its partners are cut
      backward_from(node.inner, redistribute_to(cotangent, Field(shape_of<Field>(node.inner), Field::Start::unwritten)),
                    gradients);
  }

 private:
  template <class E, int... Summed>
  static auto sum_over(const E& e, std::integer_sequence<int>, std::integer_sequence<int, Summed...>) {
    return sum<Summed...>(e, keep_dimensions);
  }
  template <class E, int D, int... Rest, int... Summed>
  static auto sum_over(const E& e, std::integer_sequence<int, D, Rest...>, std::integer_sequence<int, Summed...>) {
    if constexpr (names_dimension(Mask, D))
      return sum_over(e, std::integer_sequence<int, Rest...>{}, std::integer_sequence<int, Summed..., D>{});
    else
      return sum_over(e, std::integer_sequence<int, Rest...>{}, std::integer_sequence<int, Summed...>{});
  }
  template <class E, int... All>
  static auto sum_over(const E& e, std::integer_sequence<int, All...> all) {
    return sum_over(e, all, std::integer_sequence<int>{});
  }
};

}  // namespace halogen::detail
