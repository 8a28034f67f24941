// Which points of a tensor a launch reads for the points that it computes: data, not functions, so that halos, tile
// orders, lifetimes, explain and interpreters are loops over it.
#pragma once

#include "halogen/graph/graph.hpp"

namespace halogen {

/// Up to two steps from the points that a launch computes to those that it reads, in each dimension alike. No step: the
/// same points. What the reader sees resampled is one step more, which no pattern names.
class Pattern {
 public:
  enum class Step : signed char {
    none,
    window,      ///< from points of the node's output to those of its input that their windows hold
    adjoint,     ///< from points of the node's input to those of its output whose windows hold them
    resampling,  ///< from points of a source to those of the reader that are resampled from them
    vector       ///< from any point of a sample to the sample's vector, on a level without points (Level::whole)
  };

  static constexpr Pattern point() { return {}; }
  static constexpr Pattern window() { return Pattern(Step::window); }
  static constexpr Pattern adjoint() { return Pattern(Step::adjoint); }
  /// Of the windows that hold a point, all points: what a backward launch reads again where each output depends on all
  /// of its inputs.
  static constexpr Pattern neighbours() { return Pattern(Step::adjoint, Step::window); }
  static constexpr Pattern resampling() { return Pattern(Step::resampling); }
  static constexpr Pattern vector() { return Pattern(Step::vector); }

  constexpr Pattern() = default;
  constexpr Step step(int i) const { return steps_[i]; }
  static constexpr int steps = 2;
  constexpr bool is_point() const { return steps_[0] == Step::none; }
  constexpr bool operator==(const Pattern&) const = default;

 private:
  constexpr explicit Pattern(Step first, Step second = Step::none) : steps_{first, second} {}
  Step steps_[steps] = {Step::none, Step::none};
};

}  // namespace halogen
