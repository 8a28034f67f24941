// Balanced causal attention of a sequence that is cut. If each rank computed with its own neighbouring rows, the last
// rank would compute twice the mean. So rows are first moved: each rank gets an early and a late part
// (attention/ring_schedule.hpp). After the ring the result is moved back. Positions stay those of the whole sequence;
// the caller does not see the other order. Source: the parts of Llama 3's context parallelism (Dubey et al. 2024).
#pragma once

#include <map>
#include <utility>

#include "halogen/attention/ring.hpp"
#include "halogen/attention/rows_move.hpp"
#include "halogen/attention/schedule.hpp"

namespace halogen::detail {

/// The ring and the moves for fields of given shapes, cut as `queries` and `keys`.
template <class T, class S>
class AttentionZigzag {
 public:
  /// Memory of this rank's rows in the order of the ring, one after the other.
  template <class V>
  using Memory = Lasting<Kokkos::View<V*, memory_space>>;

  AttentionZigzag(const Communicator& ranks, int rank, const Cut& queries, const Cut& keys,
                  const kernels::AttentionShape& shape, index_t group)
      : ranks_(ranks),
        schedule_(RingSchedule::zigzag_of(rank, queries, keys)),
        shape_(shape),
        queries_{shape.samples, shape.heads * group, parts_of(queries), schedule_.parts(schedule_.queries)},
        keys_{shape.samples, shape.heads, parts_of(keys), schedule_.parts(schedule_.keys)},
        ring_(ranks, schedule_, shape, group) {}

  AttentionRing<T, S>& ring() { return ring_; }
  kernels::Positions query_positions() const {
    const auto parts = schedule_.piece(schedule_.queries, schedule_.rank);
    return kernels::Positions::of(parts[0], parts[1]);
  }

  template <class V>
  Memory<V> made(AttentionRows of) const {
    return Kokkos::View<V*, memory_space>(
        Kokkos::view_alloc("halogen::zigzag", Kokkos::WithoutInitializing),
        sequence(of).samples * sequence(of).heads * sequence(of).rows(schedule_.rank) * width(of));
  }
  template <class V>
  kernels::HeadRows<V> rows(AttentionRows of, const Memory<V>& memory) const {
    return kernels::HeadRows<V>::packed(memory.data(), sequence(of).heads, sequence(of).rows(schedule_.rank),
                                        width(of));
  }

  /// Rows of a field, moved to the order of the ring.
  template <class V>
  Memory<V> there(AttentionRows of, const kernels::HeadRows<const V>& from) {
    const Memory<V> to = made<V>(of);
    prepared<V>(of, false).run(from, rows(of, to));
    return to;
  }
  /// And back to the rows of a field.
  template <class V>
  void back(AttentionRows of, const Memory<V>& from, const kernels::HeadRows<V>& to) {
    prepared<V>(of, true).run(rows(of, from).read_only(), to);
  }

 private:
  /// A sequence of queries or keys: how ranks hold it as a field and in the ring.
  struct Sequence {
    index_t samples, heads;
    RowParts of_field, of_ring;

    index_t rows(int rank) const {
      index_t count = 0;
      for (const Interval& part : of_ring[static_cast<std::size_t>(rank)]) count += part.size();
      return count;
    }
  };
  const Sequence& sequence(AttentionRows of) const { return are_of_keys(of) ? keys_ : queries_; }
  int width(AttentionRows of) const { return width_of(of, shape_.embedding, shape_.value_embedding); }

  template <class V>
  RowsMove<V>& prepared(AttentionRows of, bool back) {
    if (of == AttentionRows::owed) of = AttentionRows::output;  // of one shape, never at the same time
    const Sequence& rows = sequence(of);
    auto& moves = [this]() -> auto& {
      if constexpr (std::is_same_v<V, T>)
        return computed_;
      else
        return stored_;
    }();
    return moves
        .try_emplace(std::pair(of, back), ranks_, schedule_.rank, back ? rows.of_ring : rows.of_field,
                     back ? rows.of_field : rows.of_ring, rows.samples, rows.heads, width(of))
        .first->second;
  }

  Communicator ranks_;
  RingSchedule schedule_;
  kernels::AttentionShape shape_;
  Sequence queries_, keys_;
  AttentionRing<T, S> ring_;
  template <class V>
  using Moves = std::map<std::pair<AttentionRows, bool>, RowsMove<V>>;
  Moves<T> computed_;
  Moves<S> stored_;
};

}  // namespace halogen::detail
