// Attention by its definition, with its gradients: plain loops that Halogen has no part in.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/array.hpp"

namespace support {

struct AttentionResult {
  Array<double, 4> output, query, key, value;
};

/// Output and gradients of sum(output * g), pair by pair of those that are seen.
inline AttentionResult plain_attention(const Array<double, 4>& q, const Array<double, 4>& k, const Array<double, 4>& v,
                                       const Array<double, 4>& g, bool is_causal) {
  const auto zeros = [](const Array<double, 4>& like) {
    return Array<double, 4>(like.extents, [](auto) { return 0.0; });
  };
  AttentionResult result{zeros(g), zeros(q), zeros(k), zeros(v)};
  const auto [n, heads, length, embedding] = q.extents;
  const index_t keys = k.extents[2], width = v.extents[3];
  const double scale = 1 / std::sqrt(static_cast<double>(embedding));
  for_each_index(Index<3>{n, heads, length}, [&, embedding = embedding](Index<3> i) {
    const auto at = [&](const Array<double, 4>& a, index_t position, index_t e) {
      return a.offset({i[0], i[1], position, e});
    };
    const auto seen = static_cast<std::size_t>(is_causal ? std::min(keys, i[2] + 1) : keys);
    std::vector<double> p(seen), slope(seen);
    double sum = 0, dot = 0;
    for (std::size_t j = 0; j < seen; ++j) {
      const auto key = static_cast<index_t>(j);
      for (index_t e = 0; e < embedding; ++e) p[j] += scale * q.values[at(q, i[2], e)] * k.values[at(k, key, e)];
      sum += p[j] = std::exp(p[j]);
    }
    for (std::size_t j = 0; j < seen; ++j) {
      const auto key = static_cast<index_t>(j);
      p[j] /= sum;
      for (index_t e = 0; e < width; ++e) {
        result.output.values[at(g, i[2], e)] += p[j] * v.values[at(v, key, e)];
        result.value.values[at(v, key, e)] += p[j] * g.values[at(g, i[2], e)];
        slope[j] += g.values[at(g, i[2], e)] * v.values[at(v, key, e)];
      }
      dot += p[j] * slope[j];
    }
    for (std::size_t j = 0; j < seen; ++j)
      for (index_t e = 0; e < embedding; ++e) {
        const auto key = static_cast<index_t>(j);
        const double share = scale * p[j] * (slope[j] - dot);
        result.query.values[at(q, i[2], e)] += share * k.values[at(k, key, e)];
        result.key.values[at(k, key, e)] += share * q.values[at(q, i[2], e)];
      }
  });
  return result;
}

}  // namespace support
