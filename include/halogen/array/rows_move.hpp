// Rows of attention's operands moved between ranks that hold some positions of a sequence each, where neither end is a
// field's cut.
#pragma once

#include <array>
#include <vector>

#include "halogen/array/head_rows.hpp"
#include "halogen/halo/pack.hpp"
#include "halogen/placement/chunk.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen::detail {

/// The positions that each rank holds, as parts that follow each other in its memory.
using RowParts = std::vector<std::vector<Interval>>;

/// A move prepared for rows of T, (samples, heads, positions, width). One message to each rank that has another's rows.
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
    sent_ = TransportBuffer<T>("halogen::rows_to_send", values_of(rows_of(sends_)), Travels::in_messages, ranks);
    received_ =
        TransportBuffer<T>("halogen::rows_received", values_of(rows_of(receives_)), Travels::in_messages, ranks);
    exchange_ = ranks.prepare(transfers(receives_, received_), transfers(sends_, sent_), "rows of attention");
  }

  void run(const kernels::HeadRows<const T>& from, const kernels::HeadRows<T>& to) {
    each(sends_, sent_, [&](const kernels::HeadRows<T>& packed, const Run& run) { copy(packed, at(from, run), run); });
    settle(space_, ranks_, "halogen::rows");
    exchange_.start();
    exchange_.wait();
    each(receives_, received_,
         [&](const kernels::HeadRows<T>& packed, const Run& run) { copy(at(to, run), packed.read_only(), run); });
  }

 private:
  /// Rows that go to one peer, or come from it; the rank itself is one.
  struct Run {
    int peer;
    index_t row, count;  ///< where they lie among this rank's
  };

  /// What each peer has of this rank's rows, in the order of positions.
  static std::vector<Run> runs_between(const std::vector<Interval>& own, const RowParts& others) {
    std::vector<Run> runs;
    for (std::size_t peer = 0; peer < others.size(); ++peer) {
      index_t before = 0;
      for (const Interval& part : own) {
        for (const Interval& other : others[peer])
          if (const Interval both = intersect(part, other); !both.empty())
            runs.push_back({static_cast<int>(peer), before + both.begin - part.begin, both.size()});
        before += part.size();
      }
    }
    return runs;
  }
  static index_t rows_of(const std::vector<Run>& runs) {
    index_t rows = 0;
    for (const Run& run : runs) rows += run.count;
    return rows;
  }
  index_t values_of(index_t rows) const { return samples_ * heads_ * rows * width_; }

  std::vector<Transfer> transfers(const std::vector<Run>& runs, const TransportBuffer<T>& buffer) const {
    std::vector<Transfer> all;
    index_t first = 0;
    for (const Run& run : runs) {
      const std::size_t bytes = static_cast<std::size_t>(values_of(run.count)) * sizeof(T);
      if (!all.empty() && all.back().peer == run.peer)
        all.back().bytes += bytes;
      else
        all.push_back({run.peer, buffer.data() + values_of(first), bytes, 0});
      first += run.count;
    }
    return all;
  }

  /// Calls f(its rows in the buffer, run) of each run.
  template <class F>
  void each(const std::vector<Run>& runs, const TransportBuffer<T>& buffer, F f) const {
    index_t first = 0;
    for (const Run& run : runs) {
      f(kernels::HeadRows<T>::packed(buffer.data() + values_of(first), heads_, run.count, width_), run);
      first += run.count;
    }
  }
  template <class V>
  static kernels::HeadRows<V> at(kernels::HeadRows<V> rows, const Run& run) {
    rows.data += run.row * rows.row_stride;
    return rows;
  }
  void copy(const kernels::HeadRows<T>& to, const kernels::HeadRows<const T>& from, const Run& run) const {
    using Kernel = MoveRows<T, T, false>;
    launch_range(space_, "halogen::move_rows", Kernel::items(samples_ * heads_ * run.count, width_),
                 Kernel{to, from, heads_, run.count, width_});
  }

  execution_space space_;
  Communicator ranks_;
  index_t samples_, heads_;
  int width_;
  std::vector<Run> sends_, receives_;
  TransportBuffer<T> sent_, received_;
  Exchange exchange_;
};

}  // namespace halogen::detail
