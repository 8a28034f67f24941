// Moves rows of attention's operands between ranks. Each rank holds some positions of a sequence, before and after the
// move, not necessarily a piece of a cut.
#pragma once

#include <vector>

#include "halogen/attention/head_rows.hpp"
#include "halogen/attention/row_parts.hpp"
#include "halogen/halo/pack.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen::detail {

/// A move prepared for rows of T, (samples, heads, positions, width). One message to each rank that gets rows of this
/// one.
template <class T>
class RowsMove {
 public:
  RowsMove(const Communicator& ranks, int rank, const RowParts& from, const RowParts& to, index_t samples,
           index_t heads, int width)
      : ranks_(ranks),
        samples_(samples),
        heads_(heads),
        width_(width),
        sends_(runs_between(from[static_cast<std::size_t>(rank)], to)),
        receives_(runs_between(to[static_cast<std::size_t>(rank)], from)) {
    sent_ = TransportBuffer<T>("halogen::send", values_of(rows_of(sends_)), Travels::in_messages, ranks);
    received_ = TransportBuffer<T>("halogen::receive", values_of(rows_of(receives_)), Travels::in_messages, ranks);
    exchange_ = ranks.prepare(transfers(receives_, received_), transfers(sends_, sent_), "rows of attention");
  }

  void run(const kernels::HeadRows<const T>& from, const kernels::HeadRows<T>& to) {
    each(sends_, sent_,
         [&](const kernels::HeadRows<T>& packed, const RowRun& run) { copy(packed, at(from, run), run); });
    settle(space_, ranks_, "halogen::rows");
    exchange_.start();
    exchange_.wait();
    each(receives_, received_,
         [&](const kernels::HeadRows<T>& packed, const RowRun& run) { copy(at(to, run), packed.read_only(), run); });
  }

 private:
  static index_t rows_of(const std::vector<RowRun>& runs) {
    index_t rows = 0;
    for (const RowRun& run : runs) rows += run.count;
    return rows;
  }
  index_t values_of(index_t rows) const { return samples_ * heads_ * rows * width_; }

  std::vector<Transfer> transfers(const std::vector<RowRun>& runs, const TransportBuffer<T>& buffer) const {
    std::vector<Transfer> all;
    index_t first = 0;
    for (const RowRun& run : runs) {
      const std::size_t bytes = static_cast<std::size_t>(values_of(run.count)) * sizeof(T);
      if (!all.empty() && all.back().peer == run.peer)
        all.back().bytes += bytes;
      else
        all.push_back({run.peer, buffer.data() + values_of(first), bytes, 0});
      first += run.count;
    }
    return all;
  }

  /// Calls f(rows of the run in the buffer, run) for each run.
  template <class F>
  void each(const std::vector<RowRun>& runs, const TransportBuffer<T>& buffer, F f) const {
    index_t first = 0;
    for (const RowRun& run : runs) {
      f(kernels::HeadRows<T>::packed(buffer.data() + values_of(first), heads_, run.count, width_), run);
      first += run.count;
    }
  }
  template <class V>
  static kernels::HeadRows<V> at(kernels::HeadRows<V> rows, const RowRun& run) {
    rows.data += run.row * rows.row_stride;
    return rows;
  }
  void copy(const kernels::HeadRows<T>& to, const kernels::HeadRows<const T>& from, const RowRun& run) const {
    using Kernel = MoveRows<T, T, false>;
    launch_range(space_, "halogen::move_rows", Kernel::items(samples_ * heads_ * run.count, width_),
                 Kernel{to, from, heads_, run.count, width_});
  }

  execution_space space_;
  Communicator ranks_;
  index_t samples_, heads_;
  int width_;
  std::vector<RowRun> sends_, receives_;
  TransportBuffer<T> sent_, received_;
  Exchange exchange_;
};

}  // namespace halogen::detail
