// How attention in a network identifies points on any mesh: by their numbers in the field, or by rows of a table of
// relative positions.
#pragma once

#include <memory>
#include <string>

#include "halogen/array/evaluate/stage.hpp"
#include "halogen/attention/sequence_numbers.hpp"
#include "halogen/layers/attention/attention_options.hpp"

namespace halogen::detail {

/// Points are numbered by rows of the table of distances, or of the field. `centre`: the entry of the table for a query
/// and key at the same point.
struct AttentionNumbering : Numbering {
  index_t centre = 0;
};

/// Throws CollectiveError if the table is made for smaller fields.
template <AttentionLayerOptions Options, class Shape>
AttentionNumbering attention_numbering(const Shape& shape) {
  const std::string option = Options.learns_bias() ? "RelativeBias" : "DistanceBias";
  AttentionNumbering result;
  index_t next = 1;
  for (std::size_t d = shape.cuts().size(); d-- > 2;) {
    const index_t extent = shape.cuts()[d].extent();
    result.stride[d] = next;
    if constexpr (Options.grid_dimensions == 0) {
      next *= extent;
    } else {
      const index_t most = Options.grid[d - 2];
      if (extent > most)
        throw CollectiveError("attention: the field has " + std::to_string(extent) + " points in dimension " +
                              std::to_string(d) + ", " + option + " is of " + std::to_string(most) + ": give " +
                              option + " the largest extents of the level");
      result.centre += (most - 1) * next;
      next *= 2 * most - 1;
    }
  }
  return result;
}

/// Null if attention needs no numbers. Tokens: how many tokens come before the points of the keys. OfTokens: the
/// queries are these tokens.
template <AttentionLayerOptions Options, int Tokens = 0, bool OfTokens = false, class Field, class Other>
std::shared_ptr<const PairNumbers> pair_numbers(const Field& of_queries, const Other& of_keys) {
  if constexpr (!Options.numbers_points()) {
    return nullptr;
  } else {
    using Query = field_of_t<Field>;
    using Key = field_of_t<Other>;
    const auto queries = shape_of<Query>(of_queries);
    const auto keys = shape_of<Key>(of_keys);
    AttentionNumbering of_query = attention_numbering<Options>(*queries);
    AttentionNumbering of_key = attention_numbering<Options>(*keys);
    of_query.first = of_key.first = of_key.listed = Tokens;
    auto made = std::make_shared<PairNumbers>();
    made->keys = sequence_numbers<2, Key>(*keys, of_key);
    made->queries =
        OfTokens ? made->keys : sequence_numbers<2, Query>(*queries, of_query);  // the list begins with tokens
    made->count = count_of_numbers<2, Query>(*queries, of_query);
    made->of_table = Options.grid_dimensions > 0;
    made->centre = of_query.centre;
    if (made->of_table) made->tokens = Tokens, made->distances = Options.distances();
    if constexpr (Options.parallel == ContextParallel::deterministic) {
      if (!OfTokens) made->query_order = sequence_order<2, Query>(*queries, of_query);
      made->key_order = sequence_order<2, Key>(*keys, of_key);
    }
    return made;
  }
}

}  // namespace halogen::detail
