// The halo exchanges of a plan. An exchange begins when a tensor is complete. It is polled between tiles that do not
// need it, and finishes before the tiles at the cuts.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "halogen/halo/halo_exchange.hpp"
#include "halogen/run/operands.hpp"

namespace halogen::detail {

template <class S>
class HaloSchedule {
  using Exchange = HaloExchange<S, 2 + spatial_dimensions>;

 public:
  /// Refers to plan, layout and operands. Collective over world.
  HaloSchedule(const Plan& plan, const Layout& layout, const Operands<S>& operands, const Communicator& world);

  /// Starts the exchange of a tensor that is now complete. Only one exchange is under way at a time, because all share
  /// their buffers.
  void start(const execution_space& space, TensorId tensor);

  void finish(const execution_space& space);

  /// Waits for the exchange that is under way and forgets it. This happens if no backward pass followed a forward pass
  /// and read the halo. The memory is then used for something else.
  void drop();

  /// Waits for the packing of the exchange that is under way and starts its messages. Call this before this rank waits
  /// for something else.
  void send();

  /// Runs launch_part(tiling) over all tiles of a launch. The tiles that need no halo under way come first, a part of
  /// them between two polls. The tiles at the cuts come last, when the halo is there.
  template <class LaunchPart>
  void run(const execution_space& space, int launch, LaunchPart launch_part);

  /// Waits for the halo that is under way if the launch reads it.
  void await(const execution_space& space, int launch) {
    if (is_awaited_by(launch)) finish(space);
  }
  /// Whether the launch reads the halo that is under way.
  bool is_awaited_by(int launch) const { return under_way_ >= 0 && waits(orders_[static_cast<std::size_t>(launch)]); }

  /// Runs launch_part(begin, end) over [0, count) for a launch that waits for the halos that it reads.
  template <class LaunchPart>
  void run_blocks(const execution_space& space, int launch, index_t count, LaunchPart launch_part);

 private:
  /// The tiles of a launch in order: first those that read only the rank's own points. `reads` are the tensors whose
  /// halos the others read.
  struct Order {
    std::vector<TensorId> reads;
    std::size_t begin = 0;
    index_t interior = 0;
  };

  bool waits(const Order& order) const { return std::ranges::find(order.reads, under_way_) != order.reads.end(); }

  TransportBuffer<S> buffer(const char* label, const Communicator& world) const;

  Exchange& exchange(TensorId tensor) { return exchanges_[static_cast<std::size_t>(tensor.number)]; }

  /// Polls between parts of a launch. On the host a launch ends before it returns, so a part is a few teams, and MPI
  /// makes progress between two parts. On a device launches queue up, so one part is enough.
  template <class LaunchPart>
  void polled(const execution_space& space, index_t count, LaunchPart launch_part);

  void order_tiles();

  /// Whether the tile needs points of other ranks; adds the tensors to `reads`.
  bool reads_halo(int launch, const kernels::Tile& tile, std::vector<TensorId>& reads) const;

  static constexpr index_t parts = 8;  ///< how often the interior of one launch is polled

  const Plan& plan_;
  const Layout& layout_;
  const Operands<S>& operands_;
  TransportBuffer<S> send_, receive_;
  std::vector<Exchange> exchanges_;
  std::vector<Order> orders_;
  detail::Lasting<Kokkos::View<int*, memory_space>> numbers_;
  TensorId under_way_;
};

template <class S>
HaloSchedule<S>::HaloSchedule(const Plan& plan, const Layout& layout, const Operands<S>& operands,
                              const Communicator& world)
    : plan_(plan),
      layout_(layout),
      operands_(operands),
      send_(buffer("halogen::send", world)),
      receive_(buffer("halogen::receive", world)) {
  for (int t = 0; t < plan.tensors.size(); ++t) {
    exchanges_.emplace_back(layout.tensor(TensorId(t)).strips, world.rank());
    exchanges_.back().connect(world, send_.data(), receive_.data(), "halo of tensor " + std::to_string(t));
  }
  if (std::ranges::any_of(exchanges_, [](const Exchange& exchange) { return exchange.values() > 0; })) order_tiles();
}

template <class S>
void HaloSchedule<S>::start(const execution_space& space, TensorId tensor) {
  Exchange& halo = exchange(tensor);
  if (halo.empty()) return;
  finish(space);
  if (halo.values() > 0) {
    under_way_ = tensor;
    halo.start_behind(space, operands_.strided(tensor));
  }
  halo.copy_own(space, operands_.strided(tensor), operands_.strided(tensor));
}

template <class S>
void HaloSchedule<S>::finish(const execution_space& space) {
  if (under_way_ < 0) return;
  const TensorId tensor = std::exchange(under_way_, TensorId());
  exchange(tensor).finish(space, operands_.strided(tensor));
}

template <class S>
void HaloSchedule<S>::drop() {
  if (under_way_ < 0) return;
  exchange(std::exchange(under_way_, TensorId())).wait();
}

template <class S>
void HaloSchedule<S>::send() {
  if (under_way_ >= 0) exchange(under_way_).send();
}

template <class S>
template <class LaunchPart>
void HaloSchedule<S>::run(const execution_space& space, int launch, LaunchPart launch_part) {
  const kernels::Tiling& tiling = layout_.workspace().tiling(launch);
  if (under_way_ < 0) return launch_part(tiling);
  const Order& order = orders_[static_cast<std::size_t>(launch)];
  const int* numbers = order.reads.empty() ? nullptr : numbers_.data() + order.begin;
  const bool at_cuts_wait = waits(order);
  const index_t interior = at_cuts_wait ? order.interior : tiling.count();
  polled(space, interior, [&](index_t begin, index_t end) { launch_part(tiling.part(numbers, begin, end)); });
  if (!at_cuts_wait) return;
  finish(space);
  if (interior < tiling.count()) launch_part(tiling.part(numbers, interior, tiling.count()));
}

template <class S>
template <class LaunchPart>
void HaloSchedule<S>::run_blocks(const execution_space& space, int launch, index_t count, LaunchPart launch_part) {
  await(space, launch);
  polled(space, count, launch_part);
}

template <class S>
TransportBuffer<S> HaloSchedule<S>::buffer(const char* label, const Communicator& world) const {
  return {label, static_cast<index_t>(layout_.memory().exchange / 2 / sizeof(S)), Travels::in_messages, world};
}

template <class S>
template <class LaunchPart>
void HaloSchedule<S>::polled(const execution_space& space, index_t count, LaunchPart launch_part) {
  constexpr bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;
  const index_t teams = static_cast<index_t>(space.concurrency());
  index_t share = count;
  if (on_host && under_way_ >= 0) share = std::max(teams, ceil_div(ceil_div(count, parts), teams) * teams);
  for (index_t begin = 0; begin < count; begin += share) {
    launch_part(begin, std::min(begin + share, count));
    if (under_way_ >= 0) exchange(under_way_).test();
  }
  send();
}

template <class S>
void HaloSchedule<S>::order_tiles() {
  std::vector<int> all;
  for (int i = 0; i < plan_.launches.size(); ++i) {
    const kernels::Tiling& tiling = layout_.workspace().tiling(i);
    Order order;
    order.begin = all.size();
    std::vector<int> at_cuts;
    for (index_t t = 0; t < tiling.count(); ++t)
      (reads_halo(i, kernels::Tile(tiling, t), order.reads) ? at_cuts : all).push_back(static_cast<int>(t));
    order.interior = static_cast<index_t>(all.size() - order.begin);
    all.insert(all.end(), at_cuts.begin(), at_cuts.end());
    if (order.reads.empty()) all.resize(order.begin);
    orders_.push_back(std::move(order));
  }
  numbers_ = Kokkos::View<int*, memory_space>(Kokkos::view_alloc("halogen::tile_order", Kokkos::WithoutInitializing),
                                              all.size());
  copy_to_view(numbers_, all);
}

template <class S>
bool HaloSchedule<S>::reads_halo(int launch, const kernels::Tile& tile, std::vector<TensorId>& reads) const {
  const Launch& what = plan_.launches[launch];
  const int level = what.level;
  const index_t plane = layout_.owned(level, 0).begin + tile.sample % layout_.planes(level);
  const Interval computed[] = {{plane, plane + 1},
                               intersect(tile.rows, layout_.owned(level, 1)),
                               intersect(tile.columns, layout_.owned(level, 2))};
  bool any = false;
  for (int d = 0; d < spatial_dimensions; ++d)
    LaunchReads(plan_, layout_.levels())
        .for_each(what, d, computed[d], [&](TensorId tensor, const Interval& needed, int) {
          const TensorLayout& at = layout_.tensor(tensor);
          // Images of a dimension that is not cut are copied when the exchange begins.
          if (layout_.level(plan_.tensors[tensor].level).cut[d].parts() == 1 || at.owned[d].contains(needed)) return;
          any = true;
          if (std::ranges::find(reads, tensor) == reads.end()) reads.push_back(tensor);
        });
  return any;
}

}  // namespace halogen::detail
