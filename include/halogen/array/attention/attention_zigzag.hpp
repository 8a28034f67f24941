// Balanced causal attention of a sequence that is cut. If each rank computed with its own neighbouring rows, the last
// rank would compute twice the mean. So rows are first moved: each rank gets an early and a late part
// (placement/ring.hpp). After the ring the result is moved back. Positions stay those of the whole sequence; the caller
// does not see the other order. Source: the parts of Llama 3's context parallelism (Dubey et al. 2024).
#pragma once

#include <memory>
#include <optional>

#include "halogen/array/attention/attention_ring.hpp"
#include "halogen/array/attention/rows_move.hpp"

namespace halogen::detail {

/// The ring and the moves for fields of given shapes, cut as `queries` and `keys`.
template <class T, class S>
class AttentionZigzag {
 public:
  /// Operands and what forward keeps for backward, in the order of the ring.
  struct Kept {
    Lasting<Kokkos::View<S*, memory_space>> query, key, value;
    Lasting<Kokkos::View<T*, memory_space>> output, logsumexp;
  };

  AttentionZigzag(const Communicator& ranks, int rank, const Cut& queries, const Cut& keys,
                  const kernels::AttentionShape& shape, index_t group)
      : ranks_(ranks),
        schedule_{rank, RingSchedule::zigzag(queries.extent(), queries.parts()),
                  RingSchedule::zigzag(keys.extent(), keys.parts()), true, true},
        shape_(shape),
        queries_{shape.samples, shape.heads * group, parts_of(queries), schedule_.parts(schedule_.queries)},
        keys_{shape.samples, shape.heads, parts_of(keys), schedule_.parts(schedule_.keys)},
        ring_(ranks, schedule_, shape, group) {}

  kernels::Positions query_positions() const {
    const auto parts = schedule_.piece(schedule_.queries, schedule_.rank);
    return kernels::Positions::of(parts[0], parts[1]);
  }

  Kept forward(double scale, const kernels::HeadRows<const S>& query, const kernels::HeadRows<const S>& key,
               const kernels::HeadRows<const S>& value, const kernels::PairTerms<T>& terms,
               const kernels::HeadRows<T>& output) {
    const int wide = shape_.value_embedding;
    const Kept kept = operands_moved(query, key, value);
    const auto seen = rows(kept.output, queries_, wide);
    ring_.forward(scale, rows(kept.query, queries_, shape_.embedding).read_only(),
                  rows(kept.key, keys_, shape_.embedding).read_only(), rows(kept.value, keys_, wide).read_only(), terms,
                  seen, rows(kept.logsumexp, queries_, 1));
    back(output_back_, queries_, wide, kept.output, output);
    return kept;
  }

  /// The logsumexp that forward keeps, for the queries that the rank has as a field.
  void bring_logarithms(const Kept& kept, const kernels::HeadRows<T>& to) {
    back(sums_back_, queries_, 1, kept.logsumexp, to);
  }
  /// What forward would keep, if its results are known.
  Kept moved(const kernels::HeadRows<const S>& query, const kernels::HeadRows<const S>& key,
             const kernels::HeadRows<const S>& value, const kernels::HeadRows<const T>& output,
             const kernels::HeadRows<const T>& logsumexp) {
    const Kept kept = operands_moved(query, key, value);
    there(owed_there_, queries_, shape_.value_embedding, output, kept.output);
    there(sums_there_, queries_, 1, logsumexp, kept.logsumexp);
    return kept;
  }

  /// As AttentionRing::backward. From `pulled` it uses the gradient of the output, the terms and the results, which are
  /// placed as the fields.
  void backward(double scale, const Kept& kept, const typename AttentionRing<T, S>::Pulled& pulled) {
    const int width = shape_.embedding, wide = shape_.value_embedding;
    const auto owed = made<T>(queries_, wide);
    there(owed_there_, queries_, wide, pulled.saved.gradient, owed);
    const bool pulls_query = pulled.query.data != nullptr, pulls_keys = pulled.key.data != nullptr;
    const auto dq = pulls_query ? made<T>(queries_, width) : owed;
    const auto dk = pulls_keys ? made<T>(keys_, width) : owed, dv = pulls_keys ? made<T>(keys_, wide) : owed;
    typename AttentionRing<T, S>::Pulled here = pulled;
    here.saved.query = rows(kept.query, queries_, width).read_only();
    here.saved.key = rows(kept.key, keys_, width).read_only();
    here.saved.value = rows(kept.value, keys_, wide).read_only();
    here.saved.gradient = rows(owed, queries_, wide).read_only();
    here.saved.logsumexp = rows(kept.logsumexp, queries_, 1).read_only();
    here.output = rows(kept.output, queries_, wide).read_only();
    if (pulls_query) here.query = rows(dq, queries_, width);
    if (pulls_keys) here.key = rows(dk, keys_, width), here.value = rows(dv, keys_, wide);
    ring_.backward(scale, here);
    if (pulls_query) back(query_back_, queries_, width, dq, pulled.query);
    if (pulls_keys) {
      back(key_back_, keys_, width, dk, pulled.key);
      back(value_back_, keys_, wide, dv, pulled.value);
    }
  }

 private:
  Kept operands_moved(const kernels::HeadRows<const S>& query, const kernels::HeadRows<const S>& key,
                      const kernels::HeadRows<const S>& value) {
    const int wide = shape_.value_embedding;
    const Kept kept{made<S>(queries_, shape_.embedding), made<S>(keys_, shape_.embedding), made<S>(keys_, wide),
                    made<T>(queries_, wide), made<T>(queries_, 1)};
    there(query_there_, queries_, shape_.embedding, query, kept.query);
    there(key_there_, keys_, shape_.embedding, key, kept.key);
    there(value_there_, keys_, wide, value, kept.value);
    return kept;
  }

  /// A sequence of queries or keys: how ranks hold it as a field and in the ring.
  struct Sequence {
    index_t samples, heads;
    RowParts of_field, of_ring;
  };
  template <class V>
  using Move = std::optional<RowsMove<V>>;

  index_t rows_of(const Sequence& sequence) const {
    index_t count = 0;
    for (const Interval& part : sequence.of_ring[static_cast<std::size_t>(schedule_.rank)]) count += part.size();
    return count;
  }
  template <class V>
  Kokkos::View<V*, memory_space> made(const Sequence& sequence, int width) const {
    return Kokkos::View<V*, memory_space>(Kokkos::view_alloc("halogen::zigzag", Kokkos::WithoutInitializing),
                                          sequence.samples * sequence.heads * rows_of(sequence) * width);
  }
  template <class V>
  kernels::HeadRows<V> rows(const Kokkos::View<V*, memory_space>& values, const Sequence& sequence, int width) const {
    return kernels::HeadRows<V>::packed(values.data(), sequence.heads, rows_of(sequence), width);
  }

  template <class V>
  void there(Move<V>& move, const Sequence& sequence, int width, const kernels::HeadRows<const V>& from,
             const Kokkos::View<V*, memory_space>& to) {
    prepared(move, sequence, sequence.of_field, sequence.of_ring, width).run(from, rows(to, sequence, width));
  }
  template <class V>
  void back(Move<V>& move, const Sequence& sequence, int width, const Kokkos::View<V*, memory_space>& from,
            const kernels::HeadRows<V>& to) {
    prepared(move, sequence, sequence.of_ring, sequence.of_field, width)
        .run(rows(from, sequence, width).read_only(), to);
  }
  template <class V>
  RowsMove<V>& prepared(Move<V>& move, const Sequence& sequence, const RowParts& from, const RowParts& to, int width) {
    if (!move) move.emplace(ranks_, schedule_.rank, from, to, sequence.samples, sequence.heads, width);
    return *move;
  }

  Communicator ranks_;
  RingSchedule schedule_;
  kernels::AttentionShape shape_;
  Sequence queries_, keys_;
  AttentionRing<T, S> ring_;
  Move<S> query_there_, key_there_, value_there_;
  Move<T> output_back_, sums_back_, owed_there_, sums_there_, query_back_, key_back_, value_back_;
};

}  // namespace halogen::detail
