// What the backward kernels of attention read.
#pragma once

#include <Kokkos_Core.hpp>

#include <limits>

#include "halogen/kernels/attention/attention_pairs.hpp"

namespace halogen::kernels {

/// d of every query, packed. There is one work item for each query.
template <class T>
struct AttentionDots {
  HeadRows<const T> gradient, output;
  index_t heads = 0, queries = 0;
  int width = 0;
  T* dots = nullptr;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const index_t sample = i / queries / heads, head = i / queries % heads;
    const T* g = gradient.row(sample, head, i % queries);
    const T* o = output.row(sample, head, i % queries);
    T sum = 0;
    bool counts = false;
    for (int e = 0; e < width; ++e) sum += g[e] * o[e], counts |= g[e] != T(0);
    dots[i] = counts ? sum : uncounted_dot<T>;
  }
};

/// What the backward kernels share.
template <class T, class S>
struct AttentionSaved {
  AttentionShape shape;
  HeadRows<const S> query, key, value;
  PairTerms<T> terms;
  HeadRows<const T> gradient;   ///< of the output
  HeadRows<const T> logsumexp;  ///< rows of 1 value
  const T* dots = nullptr;      ///< packed

  HALOGEN_FUNCTION T dot(index_t sample, index_t head, index_t position) const {
    return dots[(sample * shape.heads + head) * shape.queries + position];
  }
  /// A query that saw nothing contributes nothing: exp(logit - infinity) = 0.
  HALOGEN_FUNCTION T log_of_sum(index_t sample, index_t head, index_t position) const {
    const T log = *logsumexp.row(sample, head, position);
    return log < std::numeric_limits<T>::lowest() ? std::numeric_limits<T>::infinity() : log;
  }
};

}  // namespace halogen::kernels
