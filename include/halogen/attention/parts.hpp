// Attention of queries that all ranks have to keys that the ranks share out: each rank attends to its own keys, and the
// results become one by softmax's sums. Forward two all_reduces, backward one, of the queries' rows.
#pragma once

#include <limits>

#include "halogen/attention/head_rows.hpp"
#include "halogen/kernels/sums/maps_and_vectors.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen::detail {

/// The rows of queries of this rank's samples and heads, and what is done with them row by row: one work item a row.
template <class T>
struct PartRows {
  kernels::HeadRows<T> output, logsumexp;
  T *largest, *sums;
  index_t heads, positions;
  int width;
  bool has_keys;  ///< else kernels have written nothing

  struct Largest;  ///< the logsumexp of this rank's keys
  struct Weigh;    ///< a rank's rows times what they weigh beside the largest logsumexp, and the weight
  struct Finish;   ///< rows and logsumexp of all ranks together

  KOKKOS_FUNCTION T* row(const kernels::HeadRows<T>& of, index_t i) const {
    return of.row(i / positions / heads, i / positions % heads, i % positions);
  }
  static constexpr T nothing = -std::numeric_limits<T>::infinity();  ///< logsumexp of no keys
};
template <class T>
struct PartRows<T>::Largest : PartRows<T> {
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    this->largest[i] = this->has_keys ? *this->row(this->logsumexp, i) : this->nothing;
  }
};
template <class T>
struct PartRows<T>::Weigh : PartRows<T> {
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const T own = *this->row(this->logsumexp, i);
    const T weight = !this->has_keys || own == this->nothing ? T(0) : Kokkos::exp(own - this->largest[i]);
    const T* from = this->row(this->output, i);
    T* to = this->sums + i * (this->width + 1);
    for (int e = 0; e < this->width; ++e) to[e] = weight == T(0) ? T(0) : weight * from[e];
    to[this->width] = weight;
  }
};
template <class T>
struct PartRows<T>::Finish : PartRows<T> {
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const T* from = this->sums + i * (this->width + 1);
    const T weight = from[this->width];
    T* to = this->row(this->output, i);
    for (int e = 0; e < this->width; ++e) to[e] = weight == T(0) ? T(0) : from[e] / weight;
    *this->row(this->logsumexp, i) = weight == T(0) ? this->nothing : this->largest[i] + Kokkos::log(weight);
  }
};

/// Prepared for queries of one shape: the memory that the ranks add up.
template <class T>
class AttentionParts {
 public:
  AttentionParts(const Communicator& ranks, index_t samples, index_t heads, index_t positions, int width)
      : ranks_(ranks), heads_(heads), positions_(positions), rows_(samples * heads * positions) {
    largest_ = TransportBuffer<T>("halogen::largest", rows_, Travels::in_collectives, ranks);
    sums_ = TransportBuffer<T>("halogen::parts", rows_ * (width + 1), Travels::in_collectives, ranks);
  }

  /// A rank's result and logsumexp become those of all keys.
  void join(const execution_space& space, const kernels::HeadRows<T>& output, const kernels::HeadRows<T>& logsumexp,
            int width, bool has_keys) {
    if (ranks_.size() == 1) return;
    const PartRows<T> rows{output, logsumexp, largest_.data(), sums_.data(), heads_, positions_, width, has_keys};
    launch_range(space, "halogen::attention_parts", rows_, typename PartRows<T>::Largest{rows});
    settle(space, ranks_, "halogen::attention_parts");
    ranks_.all_reduce(largest_.data(), static_cast<std::size_t>(rows_), ReduceOp::max);
    launch_range(space, "halogen::attention_parts", rows_, typename PartRows<T>::Weigh{rows});
    settle(space, ranks_, "halogen::attention_parts");
    ranks_.all_reduce(sums_.data(), static_cast<std::size_t>(rows_ * (width + 1)));
    launch_range(space, "halogen::attention_parts", rows_, typename PartRows<T>::Finish{rows});
  }
  /// A rank's share of the queries' gradient becomes the gradient. `width`: at most that of the constructor.
  void add(const execution_space& space, const kernels::HeadRows<T>& gradient, int width, bool has_keys) {
    if (ranks_.size() == 1) return;
    const auto packed = kernels::HeadRows<T>::packed(sums_.data(), heads_, positions_, width);
    if (has_keys)
      move(space, packed, gradient, width);
    else
      launch_range(space, "halogen::attention_parts", rows_ * width, kernels::SetZero<T>{sums_.data()});
    settle(space, ranks_, "halogen::attention_parts");
    ranks_.all_reduce(sums_.data(), static_cast<std::size_t>(rows_ * width));
    move(space, gradient, packed, width);
  }

 private:
  void move(const execution_space& space, const kernels::HeadRows<T>& to, const kernels::HeadRows<T>& from, int width) {
    using Move = MoveRows<T, T, false>;
    launch_range(space, "halogen::attention_parts", Move::items(rows_, width),
                 Move{to, from.read_only(), heads_, positions_, width});
  }

  Communicator ranks_;
  index_t heads_, positions_, rows_;
  TransportBuffer<T> largest_, sums_;
};

}  // namespace halogen::detail
