// The numbers of a rank's points, brought from the ranks that keep them, and their gradients, taken back.
#pragma once

#include <utility>
#include <vector>

#include "halogen/kernels/sums/maps_and_vectors.hpp"
#include "halogen/run/parameters/point_transfers.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen::detail {

/// One bucket. Its memory is made once; a step allocates nothing.
template <class T>
class PointMove {
 public:
  /// Local. over_group: whether the ranks of the group have different points or samples, so that
  /// their gradients are added.
  PointMove(PointTransfers transfers, const Communicator& group, bool over_group);

  int bucket() const { return transfers_.bucket(); }
  index_t needed() const { return transfers_.needed(); }
  /// What this rank needs, valid after arrive(); and its gradient.
  const T* values() const { return values_.data(); }
  T* gradient() const { return gradient_.data(); }

  /// Starts to bring the values. `own` is this rank's piece.
  void gather(const execution_space& space, const T* own);
  void arrive() { there_.wait(); }

  /// Starts to take the gradient back.
  void reduce(const execution_space& space);
  /// Writes the sum of all ranks' gradients, in the order of the ranks, to this rank's piece.
  void finish(const execution_space& space, T* own, index_t piece);

 private:
  PointTransfers transfers_;
  Communicator group_;
  bool over_group_;
  detail::Lasting<Kokkos::View<int*, memory_space>> places_;
  TransportBuffer<T> values_, gradient_, sent_;
  Exchange there_, back_;  // declared after the buffers, so that messages end first
};

template <class T>
PointMove<T>::PointMove(PointTransfers transfers, const Communicator& group, bool over_group)
    : transfers_(std::move(transfers)),
      group_(group),
      over_group_(over_group),
      places_(Kokkos::View<int*, memory_space>("halogen::places_of_points", transfers_.places().size())),
      values_("halogen::values_of_points", transfers_.needed(), Travels::in_messages, group),
      gradient_("halogen::gradient_of_points", transfers_.needed(), Travels::in_messages, group),
      sent_("halogen::sent_points", transfers_.sent(), Travels::in_messages, group) {
  copy_to_view(places_, transfers_.places());
  std::vector<Transfer> to_values, from_sent, from_gradient, to_sent;
  T *values = values_.data(), *gradient = gradient_.data(), *sent = sent_.data();
  for (const PointTransfers::Part& part : transfers_.comes()) {
    const std::size_t bytes = static_cast<std::size_t>(part.count) * sizeof(T);
    to_values.push_back({part.rank, values, bytes});
    if (over_group || part.rank == transfers_.number()) from_gradient.push_back({part.rank, gradient, bytes});
    values += part.count, gradient += part.count;
  }
  for (const PointTransfers::Part& part : transfers_.goes()) {
    const std::size_t bytes = static_cast<std::size_t>(part.count) * sizeof(T);
    from_sent.push_back({part.rank, sent, bytes});
    if (over_group || part.rank == transfers_.number()) to_sent.push_back({part.rank, sent, bytes});
    sent += part.count;
  }
  there_ = group.prepare(to_values, from_sent, "numbers of points");
  back_ = group.prepare(to_sent, from_gradient, "gradients of numbers of points");
}

template <class T>
void PointMove<T>::gather(const execution_space& space, const T* own) {
  launch_range(space, "halogen::collect_points", transfers_.sent(),
               kernels::CollectValues<T>{own, places_.data(), sent_.data()});
  settle(space, group_, "halogen::collect_points");
  there_.start();
}

template <class T>
void PointMove<T>::reduce(const execution_space& space) {
  there_.wait();  // gradients are received into the memory from which these messages are sent
  settle(space, group_, "halogen::gradient_of_points");
  back_.start();
}

template <class T>
void PointMove<T>::finish(const execution_space& space, T* own, index_t piece) {
  back_.wait();
  launch_range(space, "halogen::no_gradient", piece, kernels::SetZero<T>{own});
  index_t first = 0;
  for (const PointTransfers::Part& part : transfers_.goes()) {
    if ((over_group_ || part.rank == transfers_.number()) && part.count > 0)
      launch_range(space, "halogen::add_points", part.count,
                   kernels::AddAtPlaces<T>{sent_.data() + first, places_.data() + first, own});
    first += part.count;
  }
}

}  // namespace halogen::detail
