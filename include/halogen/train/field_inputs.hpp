// Several fields for one model, and the one that most models take, seen alike.
#pragma once

#include <tuple>
#include <type_traits>
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
namespace types {
/// Something for each output of a model, in their order.
template <class... Each>
struct ByOutput {
  static constexpr int outputs = sizeof...(Each);
  std::tuple<Each...> each;
};
}  // namespace types
using types::ByOutput;
}  // namespace detail

/// Labels of a model of several outputs: hg::Labels{height, kind}. One field alone is the label of all outputs.
template <class... Fields>
struct Labels : detail::ByOutput<Fields...> {
  explicit Labels(const Fields&... fields) : detail::ByOutput<Fields...>{{fields...}} {}
};
/// Weight fields, or hg::no_weight for an output without. One field alone weighs all outputs.
template <class... Fields>
struct Weights : detail::ByOutput<Fields...> {
  explicit Weights(const Fields&... fields) : detail::ByOutput<Fields...>{{fields...}} {}
};

namespace detail {

/// For how many outputs it is given; 0: for any number.
template <class X>
inline constexpr int count_given = [] {
  if constexpr (requires(const X& x) { x.each; })
    return X::outputs;
  else
    return 0;
}();

/// What is given for the Number-th output, or for all.
template <int Number, class X>
const auto& one_of(const X& x) {
  if constexpr (count_given<X> > 0)
    return std::get<Number>(x.each);
  else
    return x;
}
template <int Number, class X>
using OneOf = std::remove_cvref_t<decltype(one_of<Number>(std::declval<const X&>()))>;

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
