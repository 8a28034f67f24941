// The ways in which attention of a sequence that is cut is computed, and which of them sends least. By heads, one
// all-to-all gives each rank all points of some heads. The rank computes attention of these heads alone, and another
// all-to-all brings the result back (Jacobs et al. 2023, DeepSpeed Ulysses).
#pragma once

#include <optional>
#include <string>

#include "halogen/attention/ring_schedule.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/philox.hpp"

namespace halogen {

/// How attention is computed if mesh dimensions cut the sequence.
enum class ContextParallel {
  automatic,   ///< by heads if ranks divide them and it sends less forward, else zigzag if causal, else the ring
  ring,        ///< keys and values travel round the ranks while kernels work
  zigzag,      ///< a ring with causal rows moved, so that all ranks compute equally much (attention/zigzag.hpp)
  all_to_all,  ///< by heads; a CollectiveError if ranks do not divide them, or the bias is cut along queries or heads
  /// By heads if ranks divide them, else every rank gathers all keys and values, and backward all queries. The result
  /// and the gradients of query, key and value have the same bits as on one rank.
  deterministic
};

struct AttentionOptions {
  bool is_causal = false;                      ///< query i sees keys 0..i, for any lengths
  std::optional<double> scale = std::nullopt;  ///< factor of the logits; 1 / sqrt(E) by default
  bool enable_gqa = false;  ///< query heads are a multiple of key heads: head h sees the keys of head h / multiple
  ContextParallel parallel = ContextParallel::automatic;  ///< the way, if the sequence is cut
  double dropout_p = 0;      ///< each value of softmax is 0 with this probability, else divided by 1 - dropout_p
  Generator generator = {};  ///< of dropout, which depends on it and on global positions
};

namespace detail {

/// The extents that decide the way, of all ranks together.
struct AttentionWay {
  index_t query_heads = 0, key_heads = 0, queries = 0, keys = 0, width = 0;  ///< width: of a key plus a value
  int ranks = 1;                                                             ///< that cut the sequence
  int parts = 1;                                                             ///< of the heads, if those ranks cut them
  bool is_causal = false;                                                    ///< then a piece visits half of the ranks
  index_t moved_queries = 0, moved_keys = 0;  ///< if causal: rows that change ranks for a zigzag ring
  bool bias_is_cut = false;                   ///< along queries or heads: by heads a rank would lack rows

  static AttentionWay of(const Cut& queries, const Cut& keys, bool is_causal) {
    return {.queries = queries.extent(),
            .keys = keys.extent(),
            .ranks = queries.parts(),
            .parts = queries.parts(),
            .is_causal = is_causal,
            .moved_queries = is_causal ? moved_for_zigzag(queries) : 0,
            .moved_keys = is_causal ? moved_for_zigzag(keys) : 0};
  }

  static constexpr index_t rows_that_move = 64;  ///< of a rank: automatic does not move fewer rows

  constexpr bool divides() const { return query_heads % parts == 0 && key_heads % parts == 0; }
  constexpr bool can_go_by_heads() const { return divides() && !bias_is_cut; }
  /// Values of a sample that all ranks together send forward.
  constexpr index_t by_gathering() const { return key_heads * keys * width * (ranks - 1); }
  constexpr index_t by_ring() const { return by_gathering() / (is_causal ? 2 : 1); }
  constexpr index_t by_heads() const {
    return (query_heads * queries + key_heads * keys) * width * (ranks - 1) / ranks;
  }
  constexpr index_t by_zigzag() const {
    return (query_heads * moved_queries + key_heads * moved_keys) * width + by_gathering();
  }

  /// The way: ring, zigzag, all_to_all, or gathered, which is called deterministic. Throws CollectiveError if the
  /// requested way is not possible.
  ContextParallel chosen(ContextParallel asked) const {
    using enum ContextParallel;
    if (ranks == 1 || asked == ring || (asked == zigzag && !is_causal)) return ring;
    if (asked == automatic) {
      const bool moves = is_causal && queries == keys && queries >= rows_that_move * ranks && !bias_is_cut;
      if (can_go_by_heads() && by_heads() < (moves ? by_zigzag() : by_ring())) return all_to_all;
      return moves ? zigzag : ring;
    }
    if (asked == deterministic && can_go_by_heads()) return all_to_all;
    if (bias_is_cut)
      throw CollectiveError(
          "attention: the bias is cut along queries or heads, so a rank lacks what its new rows or heads ask: give it "
          "Replicate there, or use ContextParallel::ring");
    if (asked == all_to_all && !divides())
      throw CollectiveError("attention by heads: " + std::to_string(parts) + " ranks would share " +
                            std::to_string(query_heads) + " heads of queries and " + std::to_string(key_heads) +
                            " of keys, which they do not divide: use as many heads, or ContextParallel::ring");
    return asked;
  }
};

/// For explain: a way, what all ranks send forward by it and what they would send by others. `of_value`: bytes of a
/// value of all samples.
std::string words_of(const AttentionWay& goes, ContextParallel chosen, index_t of_value);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string words_of(const AttentionWay& goes, ContextParallel chosen, index_t of_value) {
  const auto bytes = [of_value](index_t values) { return std::to_string(values * of_value); };
  const std::string ring = bytes(goes.by_ring()), heads = bytes(goes.by_heads());
  if (chosen == ContextParallel::deterministic)
    return "attention, deterministic: keys and values are gathered, and backward queries (" +
           bytes(goes.by_gathering()) + " bytes; round the ranks " + ring + ")";
  if (chosen == ContextParallel::all_to_all)
    return "attention, by heads: all-to-alls of queries, keys, values and the result (" + heads +
           " bytes; round the ranks " + ring + ")";
  return "attention, keys and values go round the ranks that cut the sequence" +
         (chosen == ContextParallel::zigzag
              ? ", causal rows moved before and after so that all compute as much (" + bytes(goes.by_zigzag())
              : " (" + ring) +
         " bytes; by heads" +
         (goes.can_go_by_heads() ? " " + heads
          : goes.bias_is_cut     ? ": the bias is cut"
                                 : ": the ranks do not divide them") +
         ")";
}
#endif

}  // namespace detail
}  // namespace halogen
