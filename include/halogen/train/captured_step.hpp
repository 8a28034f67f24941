// A trainer's step that is recorded once and then started as one launch.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "halogen/comm/communicator.hpp"
#include "halogen/run/loss_sum.hpp"
#include "halogen/tensor/launch_graph.hpp"
#include "halogen/train/field_inputs.hpp"
#include "halogen/train/type_misfits.hpp"

namespace halogen {

/// A fingerprint of what a recorded step uses. It changes when memory of the step has moved or another evaluation was
/// made. Entry 0 counts the evaluations.
using StepMemory = std::array<std::size_t, 6>;

namespace detail {

/// How often the margins of a step's inputs, labels and weights have grown.
template <int Outputs, class Image, class Label, class Weight>
std::array<std::size_t, 3> margin_growths(const Image& image, const Label& label, const Weight& weight) {
  std::array<std::size_t, 3> growths{};
  const auto add = [&]<class Field>(int to, const Field& field) {
    if constexpr (!std::is_same_v<Field, NoWeight>)
      growths[static_cast<std::size_t>(to)] += static_cast<std::size_t>(field.margin_growths());
  };
  add(0, image);
  for_each_more(image, [&](const auto& field, int) { add(0, field); });
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (add(1, one_of<I>(label)), ...), (add(2, one_of<I>(weight)), ...);
  }(std::make_integer_sequence<int, Outputs>{});
  return growths;
}

/// Throws CollectiveError if a graph of launches cannot hold all that a step over `ranks` does.
inline void check_can_be_recorded(const Communicator& ranks) {
  if (ranks.size() > 1 && ranks.transport_name() == "mpi")
    throw CollectiveError("a step over " + std::to_string(ranks.size()) +
                          " ranks cannot be captured on transport mpi, which moves data when the host calls it: use "
                          "one rank or nccl, or call step()");
}

}  // namespace detail

/// Made by Trainer::capture. A call is trainer.step(loss, image, label, weight) of the fields given there, which it
/// holds. Write the next batch into these fields (copy_from_host, assign): assignment would rebind them. The trainer
/// must outlive it.
///
/// On a device the first call runs the step, the second records it (tensor/launch_graph.hpp), and from then on each
/// call is one launch: the host neither allocates nor waits. If memory has moved since the recording (a margin grew,
/// the optimiser's state was replaced), the step is recorded again. If another image was trained in between, that
/// happens at the second call. All ranks record together. comm_stats() counts recorded steps once. Errors are those of
/// step(), but weights that sum to nothing are refused by item(), and nothing is updated.
///
/// A call runs the step and records nothing if there is no device, if a tool of Kokkos listens (it waits after each
/// launch), and after accumulate().
template <class TrainerType, class Loss, class Image, class Label, class Weight, class Graph = LaunchGraph>
class CapturedStep {
 public:
  /// Throws CollectiveError if steps are recorded here, but this one cannot be.
  CapturedStep(TrainerType& trainer, const Loss& loss, const Image& image, const Label& label, const Weight& weight)
      : trainer_(trainer), loss_(loss), image_(image), label_(label), weight_(weight) {
    if constexpr (Graph::records) detail::check_can_be_recorded(image.mesh().world());
  }

  auto operator()() {
    if constexpr (Graph::records) {
      if (Kokkos::Tools::profileLibraryLoaded() || trainer_.has_pending()) return step();
      const auto evaluation = trainer_.bind_step(image_);
      const StepMemory memory = trainer_.memory_of_step(image_, label_, weight_);
      if (std::exchange(evaluations_, memory[0]) == memory[0]) return replay(evaluation, memory);
    }
    return step();  // the first step of an evaluation allocates, which no graph can hold
  }

  /// How often the step was recorded: from the second call on once, unless memory moves.
  int recordings() const { return recordings_; }

 private:
  auto step() { return trainer_.step(loss_, image_, label_, weight_); }

  template <class Evaluation>
  auto replay(const Evaluation& evaluation, const StepMemory& memory) {
    const execution_space space;
    if (recordings_ == 0 || memory != recorded_) {
      graph_.record(space, [this] { step(); });
      recorded_ = memory;
      means_ = evaluation->loss_means();
      ++recordings_;
    }
    graph_.launch(space);
    return trainer_.replayed(image_, evaluation, means_);  // another step may have come between
  }

  TrainerType& trainer_;
  Loss loss_;
  Image image_;
  Label label_;
  Weight weight_;
  Graph graph_;
  StepMemory recorded_{};
  LossMeans means_;
  std::size_t evaluations_ = 0;  ///< of the last call
  int recordings_ = 0;
};

}  // namespace halogen
