// Which points of a tensor a launch reads for the points that it computes. A pattern is data and not a function, so
// that halos, tile orders, lifetimes, explain and interpreters can loop over its steps.
#pragma once

#include "halogen/graph/graph.hpp"

namespace halogen {

/// Up to two steps from the points that a launch computes to the points that it reads. They are the same in each
/// dimension. Without a step, the launch reads the points that it computes. If the reader sees a source resampled, that
/// is one step more, which the pattern does not name.
class Pattern {
 public:
  enum class Step : signed char {
    none,
    window,      ///< from points of the node's output to the points of its input that are in their windows
    adjoint,     ///< from points of the node's input to the points of its output whose windows hold them
    resampling,  ///< from points of a source to the points of the reader that are resampled from them
    vector       ///< from any point of a sample to the sample's vector, on a level without points (Level::whole)
  };

  static constexpr Pattern point() { return {}; }
  static constexpr Pattern window() { return Pattern(Step::window); }
  static constexpr Pattern adjoint() { return Pattern(Step::adjoint); }
  /// All points of all windows that hold a point. A backward launch reads them again if each output depends on all of
  /// its inputs.
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
