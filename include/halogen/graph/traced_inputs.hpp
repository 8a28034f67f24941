// The inputs of a model that takes several, in the order of its forward's arguments:
//
//   struct Denoiser : hg::Module<Denoiser> {
//     using inputs = std::tuple<hg::FieldInput<3>, hg::VectorInput<1>, hg::VectorInput<1, hg::Indices>>;
//     constexpr hg::Traced forward(hg::Traced x, hg::Traced time, hg::TracedIndices label) const;
//   };
//
// The first input is a field. All other inputs that are fields have the points of the first.
#pragma once

#include <tuple>
#include <type_traits>

#include "halogen/graph/graph.hpp"

namespace halogen {

/// Option of an input: it holds integers (std::int32_t or std::int64_t), such as classes.
struct Indices {};
/// Option of an input: nobody wants its gradient, and it is not computed.
struct WithoutGradient {};

namespace detail::types {
template <int Channels, bool Whole, class... Options>
struct InputOf {
  static_assert(((std::is_same_v<Options, Indices> || std::is_same_v<Options, WithoutGradient>)&&...),
                "options of an input are Indices and WithoutGradient");
  static constexpr bool integer = (std::is_same_v<Options, Indices> || ...);
  static_assert(Channels > 0 && (Channels == 1 || !integer), "an input has channels, one of Indices has one");
  static constexpr InputShape shape{Channels, Whole, integer,
                                    !integer && !(std::is_same_v<Options, WithoutGradient> || ...)};
  using traced = std::conditional_t<integer, TracedIndices, Traced>;
};
}  // namespace detail::types

/// (N, Channels, H, W), or with as many dimensions as the first input.
template <int Channels, class... Options>
struct FieldInput : detail::types::InputOf<Channels, false, Options...> {};
/// (N, Channels): a vector for each sample, equal on all ranks that share the sample's points.
template <int Channels, class... Options>
struct VectorInput : detail::types::InputOf<Channels, true, Options...> {};

namespace detail {

template <class ModelType>
struct inputs_of {
  using type = std::tuple<>;  ///< one input, with any number of channels
};
template <class ModelType>
  requires requires { typename ModelType::inputs; }
struct inputs_of<ModelType> {
  using type = typename ModelType::inputs;
  static_assert(std::tuple_size_v<type> >= 1 && std::tuple_size_v<type> <= most_inputs, "a model takes 1 to 4 inputs");
  static_assert(!std::tuple_element_t<0, type>::shape.whole && !std::tuple_element_t<0, type>::shape.integer,
                "the first input of a model is a FieldInput of numbers: the others lie as it does");
};

}  // namespace detail
}  // namespace halogen
