// An exchange for a single launch: each rank brings a box of a stored tensor from the ranks that own its points. The
// box follows from the piece that a rank computes. So every rank knows, without asking, who sends what to whom.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "halogen/core/config.hpp"
#include "halogen/core/prepared.hpp"
#include "halogen/halo/strip_move.hpp"
#include "halogen/run/launch_faults.hpp"
#include "halogen/run/layout.hpp"

namespace halogen {

/// Planes, rows and columns, in global indices.
using SpaceBox = Box<spatial_dimensions>;

/// The strips of a tensor on level `from` with so many channels, for ranks that each want wanted(box), where `box` is
/// the rank's points of level `to`. Points of wanted(box) outside of the field are not sent by any rank.
template <class Wanted>
Strips strips_of_wanted(const Layout& layout, int from, int channels, int to, const Wanted& wanted) {
  const auto overlap = [&](const SpaceBox& a, const SpaceBox& b) {
    Box<2 + spatial_dimensions> both;
    both.side[0] = layout.batch_cut().piece(layout.decomposition().part(layout.rank(), 0));
    both.side[1] = {0, channels};
    for (std::size_t d = 0; d < spatial_dimensions; ++d) both.side[2 + d] = intersect(a.side[d], b.side[d]);
    return both;
  };
  const SpaceBox held = layout.box(from, layout.rank()), own = wanted(layout.box(to, layout.rank()));
  Strips strips;
  for (const int peer : layout.ranks_of_samples()) {
    const auto comes = overlap(own, layout.box(from, peer)), goes = overlap(wanted(layout.box(to, peer)), held);
    if (comes.points() > 0) strips.receives.push_back({peer, comes, comes});
    if (goes.points() > 0) strips.sends.push_back({peer, goes, goes});
  }
  return strips;
}

/// The stored tensor of an operand that is only one.
TensorId stored_operand(const Plan& plan, const Launch& launch, int operand);
#if HALOGEN_BODIES
HALOGEN_INLINE TensorId stored_operand(const Plan& plan, const Launch& launch, int operand) {
  detail::expect_operand(plan, launch, operand, "fetch",
                         "planner.read_field(node), in a vjp planner.read_field_again(node)");
  const Read& read = launch.reads[operand];
  if (read.tensor() >= 0) return read.tensor();
  if (read.gradient() >= 0 && !plan.activations[read.gradient()].reads_value())
    return plan.activations[read.gradient()].gradient;
  if (read.value() >= 0 && plan.values[read.value()].is_raw()) return plan.values[read.value()].sources[0].tensor;
  throw Error("launch " + plan.name_of(launch) + " fetches operand " + std::to_string(operand) +
              ", which is not one stored tensor: read it by Planner::read_field, a gradient by Planner::unmasked");
}
#endif

/// What a launch that brings such boxes of an operand sends. For its traffic().
template <class Wanted>
TrafficUse fetch_traffic(const Layout& layout, const Launch& launch, int operand, const Wanted& wanted) {
  const StoredTensor& tensor = layout.plan().tensors[stored_operand(layout.plan(), launch, operand)];
  const Strips::Traffic sent =
      strips_of_wanted(layout, tensor.level, tensor.channels, launch.level, wanted).traffic(layout.rank());
  TrafficUse use;
  use.messages = sent.messages;
  use.bytes = sent.points * static_cast<index_t>(layout.value_bytes().stored);
  return use;
}

/// The boxes that the launches of an evaluation bring. Each has its memory and its messages, which are made the first
/// time.
template <class S>
class FetchedBoxes {
 public:
  static constexpr int rank = 2 + spatial_dimensions;

  explicit FetchedBoxes(Communicator world) : world_(std::move(world)) {}

  /// The box of operand `operand` of launch `launch`; `source` is the operand's tensor. Collective.
  template <class Wanted>
  TensorView<S> fetch(const execution_space& space, const Layout& layout, int launch, int operand,
                      const StoredTensor& tensor, const StridedView<S, rank>& source, const Wanted& wanted) {
    const auto one = all_.template get<Fetched>(std::array{launch, operand}, [&] {
      const int level = layout.plan().launches[launch].level;
      return std::make_unique<Fetched>(world_, layout, tensor.channels, wanted(layout.box(level, layout.rank())),
                                       strips_of_wanted(layout, tensor.level, tensor.channels, level, wanted));
    });
    settle(space, world_, "halogen::fetch");
    one->move.run(source, one->strided, "halogen::fetch");
    return one->view;
  }

 private:
  struct Fetched {
    detail::StripMove<S, rank> move;
    detail::Lasting<Kokkos::View<S*, memory_space>> values;  ///< 0 outside of the field
    StridedView<S, rank> strided;
    TensorView<S> view;

    Fetched(const Communicator& world, const Layout& layout, int channels, const SpaceBox& box, const Strips& strips)
        : move(world, strips, "a fetched box"),
          values(Kokkos::View<S*, memory_space>("halogen::fetched",
                                                static_cast<std::size_t>(layout.samples() * channels * box.points()))) {
      strided.data = values.data();
      index_t stride = 1;
      for (int d = rank; d-- > 0; stride *= d == 1  ? channels
                                            : d > 1 ? box.side[static_cast<std::size_t>(d - 2)].size()
                                                    : 1) {
        strided.stride[d] = stride;
        if (d > 1) strided.origin[d] = box.side[static_cast<std::size_t>(d - 2)].begin;
      }
      strided.origin[0] = layout.first_sample();
      view = {values.data(),     strided.stride[0], strided.stride[1],
              strided.stride[3], strided.origin[3], strided.origin[4],
              strided.stride[2], strided.origin[2], static_cast<int>(box.side[0].size())};
    }
  };

  Communicator world_;
  detail::Prepared<std::array<int, 2>> all_;  ///< by launch and operand
};

}  // namespace halogen
