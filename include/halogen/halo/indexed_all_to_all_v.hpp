// indexed_all_to_all_v: each rank sends chosen rows of its tensor to each rank.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/piece_view.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {
namespace detail {

/// Row i of the buffer is row index[i] of the tensor. One work item a row.
template <class T>
struct CollectRows {
  const T* tensor;
  const index_t* index;
  index_t width;
  T* buffer;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    for (index_t x = 0; x < width; ++x) buffer[i * width + x] = tensor[index[i] * width + x];
  }
};

/// Row i of the tensor is the sum of the buffer's rows place[first[i]] .. place[first[i + 1] - 1], in this order: the
/// same bits each time, which atomic additions would not give.
template <class T>
struct AddRows {
  const T* buffer;
  const index_t* first;
  const index_t* place;
  index_t width;
  T* tensor;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    for (index_t x = 0; x < width; ++x) {
      T sum = 0;
      for (index_t p = first[i]; p < first[i + 1]; ++p) sum += buffer[place[p] * width + x];
      tensor[i * width + x] = sum;
    }
  }
};

inline Kokkos::View<index_t*, memory_space> on_device(const std::vector<index_t>& numbers) {
  Kokkos::View<index_t*, memory_space> view("halogen::rows", numbers.size());
  copy_to_view(view, numbers);
  return view;
}

}  // namespace detail

/// Rows are the slices of dimension 0: their number is each rank's own, the other extents are equal. indices[r] are the
/// rows that this rank sends to rank r, in any order, with repetitions, perhaps none.
///
///            takes                           writes (`=`)                                          emits
///   forward  this rank's tensor              the rows received, those of rank 0 first              all_to_all
///   vjp      a cotangent of those rows       for each row of the tensor the sum over all its uses  all_to_all
///            (float, double, int, int64, uint64)
///
/// all_to_all: one message to each rank that is sent rows, prepared once. Views are row-major in memory_space. To make
/// it is collective (two all_reduces, one all_gather of the counts); throws CollectiveError with one sentence on all
/// ranks for an index outside the tensor, a list of lists of the wrong length, or other extents that differ. Kept and
/// used again it allocates nothing; a view of another shape is an Error of its rank.
///
///   IndexedAllToAllV<float, 2> move(comm, {rows, channels}, indices);
///   move.forward(tensor, received);   // (rows, channels) -> (move.received_rows(), channels)
template <class T, int Rank>
class IndexedAllToAllV {
 public:
  using Extents = std::array<index_t, Rank>;

  IndexedAllToAllV(const Communicator& comm, const Extents& extents, const std::vector<std::vector<index_t>>& indices);

  index_t received_rows() const { return received_[0]; }
  const Extents& received() const { return received_; }

  template <class Tensor, class Received>
  void forward(const Tensor& tensor, const Received& received);

  template <class Received, class Tensor>
    requires Reducible<T>
  void vjp(const Received& cotangent, const Tensor& gradient);

 private:
  TransportBuffer<T> buffer(const char* label, index_t values) const {
    return {label, values, Travels::in_messages, comm_};
  }

  template <class Functor>
  void launch(const char* label, index_t rows, const Functor& functor);

  template <class V>
  void check(const V& view, const Extents& extents, const char* what) const {
    detail::check_shape("indexed_all_to_all_v", comm_, what, view, extents);
  }

  void check_alike(const std::vector<std::vector<index_t>>& indices) const;

  Communicator comm_;
  Extents tensor_, received_;
  index_t width_ = 1;
  detail::Lasting<Kokkos::View<index_t*, memory_space>> index_, first_, place_;
  TransportBuffer<T> out_, in_;
  Exchange there_, back_;
  execution_space space_;
};

template <class T, int Rank>
IndexedAllToAllV<T, Rank>::IndexedAllToAllV(const Communicator& comm, const Extents& extents,
                                            const std::vector<std::vector<index_t>>& indices)
    : comm_(comm), tensor_(extents), received_(extents) {
  check_alike(indices);
  for (std::size_t d = 1; d < Rank; ++d) width_ *= extents[d];
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<index_t> sent, counts(ranks * ranks);
  std::vector<index_t>::iterator own = counts.begin() + comm.rank() * comm.size();
  for (const std::vector<index_t>& rows : indices) {
    *own++ = static_cast<index_t>(rows.size());
    sent.insert(sent.end(), rows.begin(), rows.end());
  }
  comm.all_gather(&counts[static_cast<std::size_t>(comm.rank()) * ranks], ranks * sizeof(index_t), counts.data());
  const auto count = [&](int from, int to) {
    return counts[static_cast<std::size_t>(from) * ranks + static_cast<std::size_t>(to)];
  };
  received_[0] = 0;
  for (int r = 0; r < comm.size(); ++r) received_[0] += count(r, comm.rank());

  index_ = detail::on_device(sent);
  std::vector<index_t> first(static_cast<std::size_t>(extents[0]) + 1, 0), place(sent.size());
  for (const index_t row : sent) ++first[static_cast<std::size_t>(row) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<index_t> next(first.begin(), first.end() - 1);
  for (std::size_t i = 0; i < sent.size(); ++i)
    place[static_cast<std::size_t>(next[static_cast<std::size_t>(sent[i])]++)] = static_cast<index_t>(i);
  first_ = detail::on_device(first);
  place_ = detail::on_device(place);

  out_ = buffer("halogen::send", static_cast<index_t>(sent.size()) * width_);
  in_ = buffer("halogen::receive", received_[0] * width_);
  std::vector<Transfer> outs, ins;
  T *out = out_.data(), *in = in_.data();
  for (int r = 0; r < comm.size(); ++r) {
    const index_t out_values = count(comm.rank(), r) * width_, in_values = count(r, comm.rank()) * width_;
    outs.push_back({r, out, static_cast<std::size_t>(out_values) * sizeof(T)});
    ins.push_back({r, in, static_cast<std::size_t>(in_values) * sizeof(T)});
    out += out_values, in += in_values;
  }
  there_ = comm.prepare(ins, outs, "indexed_all_to_all_v");
  back_ = comm.prepare(outs, ins, "vjp of indexed_all_to_all_v");
}

template <class T, int Rank>
template <class Tensor, class Received>
void IndexedAllToAllV<T, Rank>::forward(const Tensor& tensor, const Received& received) {
  check(tensor, tensor_, "tensor"), check(received, received_, "received view");
  const auto rows = static_cast<index_t>(index_.extent(0));
  launch("halogen::collect_rows", rows, detail::CollectRows<T>{tensor.data(), index_.data(), width_, out_.data()});
  there_.start();
  there_.wait();
  in_.get(space_, received.data(), in_.size());
  settle(space_, comm_, "halogen::rows");
}

template <class T, int Rank>
template <class Received, class Tensor>
  requires Reducible<T>
void IndexedAllToAllV<T, Rank>::vjp(const Received& cotangent, const Tensor& gradient) {
  check(cotangent, received_, "cotangent"), check(gradient, tensor_, "gradient");
  in_.put(space_, cotangent.data(), in_.size());
  settle(space_, comm_, "halogen::rows");
  back_.start();
  back_.wait();
  launch("halogen::add_rows", tensor_[0],
         detail::AddRows<T>{out_.data(), first_.data(), place_.data(), width_, gradient.data()});
}

template <class T, int Rank>
template <class Functor>
void IndexedAllToAllV<T, Rank>::launch(const char* label, index_t rows, const Functor& functor) {
  launch_range(space_, label, rows, functor);
  settle(space_, comm_, "halogen::rows");
}

template <class T, int Rank>
void IndexedAllToAllV<T, Rank>::check_alike(const std::vector<std::vector<index_t>>& indices) const {
  const std::string text = detail::named("indexed_all_to_all_v", comm_);
  detail::check_same_numbers(
      comm_, {tensor_.begin() + 1, tensor_.end()}, [&](std::size_t i, const std::string& a, const std::string& b) {
        return text + "dimension " + std::to_string(i + 1) + " has " + a + " points on one rank and " + b +
               " on another: tensors may differ in dimension 0 only";
      });
  agree(comm_, [&] {
    const std::string own = text + "rank " + std::to_string(comm_.rank());
    if (indices.size() != static_cast<std::size_t>(comm_.size()))
      throw Error(own + " has " + std::to_string(indices.size()) + " lists of rows for " +
                  std::to_string(comm_.size()) + " ranks: give one for each rank");
    for (std::size_t r = 0; r < indices.size(); ++r)
      for (const index_t row : indices[r])
        if (row < 0 || row >= tensor_[0])
          throw Error(own + " sends row " + std::to_string(row) + " to rank " + std::to_string(r) +
                      ", but its tensor has " + std::to_string(tensor_[0]) +
                      " rows: give indices from 0 to less than " + std::to_string(tensor_[0]));
  });
}

/// The same, once, into a new view.
template <class Tensor>
detail::owning_view<Tensor> indexed_all_to_all_v(const Communicator& comm, const Tensor& tensor,
                                                 const std::vector<std::vector<index_t>>& indices) {
  IndexedAllToAllV<typename Tensor::non_const_value_type, static_cast<int>(Tensor::rank())> move(
      comm, detail::extents_of(tensor), indices);
  const auto received = detail::view_of<Tensor>("halogen::received", move.received());
  move.forward(tensor, received);
  return received;
}

}  // namespace halogen
