// The result of a trainer's step: its loss and its prediction, as long as their memory is not used again.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "halogen/train/network.hpp"

namespace halogen {

namespace detail {

/// How often a trainer has used the memory of its results: that of losses and predictions, and that of predictions
/// alone. parts: in how many a step runs.
struct ResultUses {
  std::size_t steps = 0, predictions = 0;
  int parts = 1;
};

}  // namespace detail

/// What Trainer::step and accumulate return. It can be read until the next step() or accumulate(), and its prediction
/// until the next predict(), because they use its memory again. Later reads throw Error. The trainer must outlive it.
template <class Net, class Image, PlanKind Plan>
class StepResult {
  using E = typename Net::template EvaluationOf<Plan, Image>;

 public:
  /// expression_value: the loss of a vjp plan, whose evaluation has none. uses: the trainer's, which it counts up.
  StepResult(const Image& image, const std::shared_ptr<E>& evaluation, double expression_value,
             const detail::ResultUses& uses)
      : mesh_(image.mesh()), evaluation_(evaluation), value_(expression_value), now_(uses), then_(uses) {}

  /// The loss before the update, the same on all ranks; waits for the device.
  double item() const {
    if constexpr (Plan == PlanKind::vjp)
      return value_;
    else
      return evaluation()->loss();
  }
  /// The prediction before the update, placed as the image. It is a tuple if the model returns several. Throws Error if
  /// the step ran in micro-batches: only the last one's prediction is still there.
  auto prediction() const {
    if (now_.parts > 1)
      throw Error("prediction() of a step in " + std::to_string(now_.parts) +
                  " micro-batches, which keeps those of the last one alone: call predict(image)");
    if (then_.predictions != now_.predictions)
      throw Error("prediction() of a step before predict(), which used its memory: read it before");
    return Net::template prediction_on<Image>(mesh_, *evaluation());
  }
  /// The layout on this rank of the plan that the step ran: its memory and traffic, explain(layout). With micro-batches
  /// it is that of the last one, which is the largest. It stays until the trainer is given an image of other extents,
  /// cuts or another mesh.
  const Layout& layout() const {
    const auto kept = evaluation_.lock();
    if (!kept) throw Error("layout() of a step whose evaluation another image's has replaced: read it before");
    return kept->layout();
  }

 private:
  std::shared_ptr<E> evaluation() const {
    auto kept = evaluation_.lock();
    if (then_.steps != now_.steps || !kept)
      throw Error(
          "item() or prediction() of an earlier step: a trainer keeps the last one's; read each step's before the "
          "next");
    return kept;
  }

  std::remove_cvref_t<decltype(std::declval<const Image&>().mesh())> mesh_;
  std::weak_ptr<E> evaluation_;  ///< empty once the evaluation of another image has taken its place
  double value_;
  const detail::ResultUses& now_;
  detail::ResultUses then_;
};

}  // namespace halogen
