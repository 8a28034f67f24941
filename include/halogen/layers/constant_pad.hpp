// ConstantPad1d, 2d, 3d<Value, Points...> and ZeroPad1d, 2d, 3d<Points...>: the field with points of one value around
// it, as torch.nn's. Value: a std::ratio. Points: one number, one for each dimension (depth, height, width), or two for
// each dimension, before and after the field.
//
//   x: (N, C, H, W) -> y: (N, C, H + points before and after, W + ...); signals and volumes likewise
//
//   placements of x          placements of y     forward and backward
//   Shard<2> and beyond      the same, derived   halo exchanges, if y's cut is not x's
//   Shard<0>, Replicate      the same            nothing
//   Shard<1>, Partial        does not compile: why::channels_are_cut, why::input_is_partial
//
// y is stored. A convolution that needs zeros should use its own Padding, which stores nothing. Nothing is added, so
// bits do not depend on the mesh. vjp: the part of y's gradient inside the field.
#pragma once

#include "halogen/layers/crop.hpp"

namespace halogen {
namespace detail {

struct ConstantPadForward {
  static constexpr const char* label = "halogen::constant_pad";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::ConstantPadRows<S>{
        OffsetForward::rows_of(at, at.value(0), 1, 0),
        static_cast<compute_type<S>>(at.node().template as<ConstantPadConstants>().value)};
  }
};
constexpr void constant_pad_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<ConstantPadForward>(node).read(planner.read(node, Pattern::window())));
}
inline constexpr Operation constant_pad_operation{"constant_pad", constant_pad_forward, offset_vjp};

namespace types {
template <class Self, int Dimensions, class Value, int... Points>
struct ConstantPadLayer : OffsetLayer<Self, Dimensions, constant_pad_operation> {
  static constexpr Window window(int d) { return pad_window<Dimensions, Points...>(d); }
  static constexpr ConstantPadConstants constants{{{}, {-window(0).padding, -window(1).padding, -window(2).padding}},
                                                  static_cast<double>(Value::num) / Value::den};
};
}  // namespace types

}  // namespace detail

template <class Value, int... Points>
struct ConstantPad1d : detail::types::ConstantPadLayer<ConstantPad1d<Value, Points...>, 1, Value, Points...> {};
template <class Value, int... Points>
struct ConstantPad2d : detail::types::ConstantPadLayer<ConstantPad2d<Value, Points...>, 2, Value, Points...> {};
template <class Value, int... Points>
struct ConstantPad3d : detail::types::ConstantPadLayer<ConstantPad3d<Value, Points...>, 3, Value, Points...> {};
template <int... Points>
struct ZeroPad1d : ConstantPad1d<std::ratio<0>, Points...> {};
template <int... Points>
struct ZeroPad2d : ConstantPad2d<std::ratio<0>, Points...> {};
template <int... Points>
struct ZeroPad3d : ConstantPad3d<std::ratio<0>, Points...> {};

}  // namespace halogen
