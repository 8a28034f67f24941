// Attention by its definition, with its gradients: plain loops that Halogen has no part in.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/array.hpp"

namespace support {

struct AttentionResult {
  Array<double, 4> output, query, key, value;
  Array<double, 4> bias;  ///< (N, H, L, S)
};

/// Output and gradients of sum(output * g), pair by pair of those that are seen. bias({sample, head, query, key}) is
/// added to a logit and hides the pair where it is -infinity; kept({...}) multiplies its share afterwards.
template <class Bias, class Kept>
AttentionResult plain_attention(const Array<double, 4>& q, const Array<double, 4>& k, const Array<double, 4>& v,
                                const Array<double, 4>& g, bool is_causal, Bias bias, Kept kept) {
  const auto zeros = [](const Array<double, 4>& like) {
    return Array<double, 4>(like.extents, [](auto) { return 0.0; });
  };
  const auto [n, heads, length, embedding] = q.extents;
  const index_t keys = k.extents[2], width = v.extents[3];
  AttentionResult result{zeros(g), zeros(q), zeros(k), zeros(v), {{n, heads, length, keys}, [](auto) { return 0.0; }}};
  const double scale = 1 / std::sqrt(static_cast<double>(embedding));
  for_each_index(Index<3>{n, heads, length}, [&, embedding = embedding](Index<3> i) {
    const auto at = [&](const Array<double, 4>& a, index_t position, index_t e) {
      return a.offset({i[0], i[1], position, e});
    };
    std::vector<index_t> seen;
    for (index_t j = 0; j < (is_causal ? std::min(keys, i[2] + 1) : keys); ++j)
      if (bias(Index<4>{i[0], i[1], i[2], j}) > -std::numeric_limits<double>::infinity()) seen.push_back(j);
    std::vector<double> p(seen.size()), slope(seen.size()), share(seen.size());
    double sum = 0, dot = 0;
    for (std::size_t j = 0; j < seen.size(); ++j) {
      for (index_t e = 0; e < embedding; ++e) p[j] += scale * q.values[at(q, i[2], e)] * k.values[at(k, seen[j], e)];
      sum += p[j] = std::exp(p[j] + bias(Index<4>{i[0], i[1], i[2], seen[j]}));
    }
    for (std::size_t j = 0; j < seen.size(); ++j) {
      p[j] /= sum;
      share[j] = p[j] * kept(Index<4>{i[0], i[1], i[2], seen[j]});
      for (index_t e = 0; e < width; ++e) {
        result.output.values[at(g, i[2], e)] += share[j] * v.values[at(v, seen[j], e)];
        result.value.values[at(v, seen[j], e)] += share[j] * g.values[at(g, i[2], e)];
        slope[j] += g.values[at(g, i[2], e)] * v.values[at(v, seen[j], e)];
      }
      dot += share[j] * slope[j];
    }
    for (std::size_t j = 0; j < seen.size(); ++j) {
      const double pulled = share[j] * slope[j] - p[j] * dot;
      result.bias.values[result.bias.offset({i[0], i[1], i[2], seen[j]})] = pulled;
      for (index_t e = 0; e < embedding; ++e) {
        result.query.values[at(q, i[2], e)] += scale * pulled * k.values[at(k, seen[j], e)];
        result.key.values[at(k, seen[j], e)] += scale * pulled * q.values[at(q, i[2], e)];
      }
    }
  });
  return result;
}
inline AttentionResult plain_attention(const Array<double, 4>& q, const Array<double, 4>& k, const Array<double, 4>& v,
                                       const Array<double, 4>& g, bool is_causal) {
  return plain_attention(
      q, k, v, g, is_causal, [](auto) { return 0.0; }, [](auto) { return 1.0; });
}

}  // namespace support
