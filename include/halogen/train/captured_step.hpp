// A trainer's step that is recorded once and then started as one launch.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "halogen/comm/communicator.hpp"
#include "halogen/run/loss_sum.hpp"
#include "halogen/tensor/launch_graph.hpp"

namespace halogen {

/// Numbers that are others once memory of a step has moved or another evaluation was made, of which there are [0].
using StepMemory = std::array<std::size_t, 6>;

namespace detail {

/// Throws CollectiveError where a graph of launches would not hold all that a step over `ranks` does.
inline void check_can_be_recorded(const Communicator& ranks) {
  if (ranks.size() > 1 && ranks.transport_name() == "mpi")
    throw CollectiveError("a step over " + std::to_string(ranks.size()) +
                          " ranks cannot be captured on transport mpi, which moves data when the host calls it: use "
                          "one rank or nccl, or call step()");
}

}  // namespace detail

/// Made by Trainer::capture. Called it is trainer.step(loss, image, label, weight) of the fields given there, which it
/// holds; write the next batch into them (copy_from_host, assign), since assignment rebinds. On a device the first call
/// runs the step, the second records it (tensor/launch_graph.hpp), and from then on each call is one launch: the host
/// neither allocates nor waits. Where memory has moved since (a margin that grew, another optimiser state) it is
/// recorded anew, after another image in between at the second call; all ranks record together. While a tool of Kokkos
/// listens, which waits behind each launch, each call runs the step, and so does a call after accumulate().
/// comm_stats() counts recorded steps once. Elsewhere each call runs the step. The trainer must outlive it. Errors: as
/// step(), but on a device weights that sum to nothing are refused by item(), with nothing updated.
template <class TrainerType, class Loss, class Image, class Label, class Weight, class Graph = LaunchGraph>
class CapturedStep {
 public:
  /// Throws CollectiveError where steps are recorded, but this one cannot be.
  CapturedStep(TrainerType& trainer, const Loss& loss, const Image& image, const Label& label, const Weight& weight)
      : trainer_(trainer), loss_(loss), image_(image), label_(label), weight_(weight) {
    if constexpr (Graph::records) detail::check_can_be_recorded(image.mesh().world());
  }

  auto operator()() {
    if constexpr (Graph::records) {
      if (Kokkos::Tools::profileLibraryLoaded() || trainer_.has_pending()) return step();
      const auto& evaluation = trainer_.bind_step(image_);
      const StepMemory memory = trainer_.memory_of_step(image_, label_, weight_);
      if (std::exchange(evaluations_, memory[0]) == memory[0]) return replay(evaluation, memory);
    }
    return step();  // the first of an evaluation finds out and allocates what no graph can hold
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
