// Several fields for one model, and the one that most models take, seen alike.
#pragma once

#include <tuple>
#include <utility>

#include "halogen/plan/trace.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {

/// Fields in the order of a model's `inputs`: trainer.step(hg::mse, hg::Inputs{x, time, label}, y), and wherever else a
/// network takes an image. It is the first of them as well: all follow its mesh, its cuts and its values' type.
template <class First, class... More>
  requires(is_sharded<First> && (is_sharded<More> && ...))
struct Inputs : First {
  std::tuple<More...> more;
  Inputs(const First& first, const More&... others) : First(first), more(others...) {}
};
template <class First, class... More>
Inputs(First, More...) -> Inputs<First, More...>;

namespace detail {

template <class Image>
struct given {
  static constexpr std::size_t count = 1;
  using first = Image;
  template <std::size_t>
  using field = Image;
};
template <class First, class... More>
struct given<Inputs<First, More...>> {
  static constexpr std::size_t count = 1 + sizeof...(More);
  using first = First;
  template <std::size_t I>
  using field = std::tuple_element_t<I, std::tuple<First, More...>>;
};

template <class Image>
using FirstOf = typename given<Image>::first;

/// Whether X is what a network takes as its image.
template <class X>
inline constexpr bool is_given = is_sharded<FirstOf<X>>;

/// Calls f(field, number) for all inputs but the first.
template <class Image, class F>
void for_each_more(const Image& image, F f) {
  if constexpr (given<Image>::count > 1)
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(std::get<I>(image.more), static_cast<int>(I) + 1), ...);
    }(std::make_index_sequence<given<Image>::count - 1>{});
}

}  // namespace detail
}  // namespace halogen
