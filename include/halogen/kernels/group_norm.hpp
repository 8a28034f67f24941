// From partial sums to a norm's tables, and its vjp's: small kernels around the one collective.
//   forward:  merge tiles -> all_gather (count, mean, M2) -> merge ranks -> scale, shift, mean, 1 / deviation
//   backward: merge tiles -> all_reduce (sum of gamma g, sum of gamma g xhat) -> slope, offset; gamma's, beta's
//   gradient
#pragma once

#include "halogen/kernels/row_sums.hpp"

namespace halogen::kernels {

/// Moments of group g of sample n on this rank, tiles and channels in order. One work item per (n, g).
struct MergeMoments {
  const RowSums* partial;  ///< [n * tiles + tile][channel]
  index_t tiles;           ///< per sample
  int channels, groups;
  RowSums* result;  ///< [n * groups + g]

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const index_t n = i / groups;
    const int size = channels / groups, first = static_cast<int>(i % groups) * size;
    RowSums sums;
    for (index_t tile = n * tiles; tile < (n + 1) * tiles; ++tile)
      for (int c = first; c < first + size; ++c) sums.merge_moments(partial[tile * channels + c]);
    result[i] = sums;
  }
};

/// Tables of one norm over (n, c); mean and inverse deviation stay in double.
template <class T>
struct NormTables {
  T* scale;
  T* shift;
  T* slope;
  T* offset;
  double* mean;
  double* inverse_deviation;
};

/// Merges all ranks' moments in rank order; y = gamma (x - mean) / deviation + beta as scale and shift.
template <class T>
struct FinishMoments {
  const RowSums* gathered;  ///< [rank][n * groups + g]
  int ranks;
  index_t count;  ///< samples * groups
  int channels, groups;
  double epsilon;
  const T* gamma;
  const T* beta;
  NormTables<T> tables;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    RowSums sums;
    for (int r = 0; r < ranks; ++r) sums.merge_moments(gathered[r * count + i]);
    const double inverse = 1.0 / Kokkos::sqrt(sums.third / sums.first + epsilon);
    const int size = channels / groups, first = static_cast<int>(i % groups) * size;
    for (int c = first; c < first + size; ++c) {
      const index_t at = i / groups * channels + c;
      const double scale = static_cast<double>(gamma[c]) * inverse;
      tables.mean[at] = sums.second;
      tables.inverse_deviation[at] = inverse;
      tables.scale[at] = static_cast<T>(scale);
      tables.shift[at] = static_cast<T>(static_cast<double>(beta[c]) - scale * sums.second);
    }
  }
};

/// Per channel: gradients of gamma and beta on this rank (added over samples and, with `accumulate`, activations),
/// and per (n, g) the two sums that the input's gradient needs. One work item per group.
template <class T>
struct MergeNormSums {
  const RowSums* partial;
  index_t tiles;
  int samples, channels, groups;
  const T* gamma;
  NormTables<T> tables;
  T* gamma_gradient;
  T* beta_gradient;
  bool accumulate;
  double* result;  ///< [n * groups + g][2]

  KOKKOS_FUNCTION void operator()(const index_t g) const {
    const int size = channels / groups, first = static_cast<int>(g) * size;
    for (int n = 0; n < samples; ++n) result[2 * (n * groups + g)] = result[2 * (n * groups + g) + 1] = 0;
    for (int c = first; c < first + size; ++c) {
      double by_gamma = 0, by_beta = 0;
      for (int n = 0; n < samples; ++n) {
        RowSums sums;
        for (index_t tile = n * tiles; tile < (n + 1) * tiles; ++tile) sums.add(partial[tile * channels + c]);
        const double along = sums.second * tables.inverse_deviation[n * channels + c];
        by_beta += sums.first;
        by_gamma += along;
        result[2 * (n * groups + g)] += static_cast<double>(gamma[c]) * sums.first;
        result[2 * (n * groups + g) + 1] += static_cast<double>(gamma[c]) * along;
      }
      gamma_gradient[c] = static_cast<T>(by_gamma + (accumulate ? static_cast<double>(gamma_gradient[c]) : 0.0));
      beta_gradient[c] = static_cast<T>(by_beta + (accumulate ? static_cast<double>(beta_gradient[c]) : 0.0));
    }
  }
};

/// dx = scale g - (s1 + xhat s2) / (deviation count), as slope * x + offset beside scale * g.
template <class T>
struct FinishNormSums {
  const double* sums;  ///< [n * groups + g][2], over all ranks
  double count;        ///< points of a group over all ranks
  int channels, groups;
  NormTables<T> tables;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const int size = channels / groups, first = static_cast<int>(i % groups) * size;
    const double s1 = sums[2 * i] / count, s2 = sums[2 * i + 1] / count;
    for (int c = first; c < first + size; ++c) {
      const index_t at = i / groups * channels + c;
      const double inverse = tables.inverse_deviation[at];
      const double slope = -inverse * inverse * s2;
      tables.slope[at] = static_cast<T>(slope);
      tables.offset[at] = static_cast<T>(-inverse * s1 - slope * tables.mean[at]);
    }
  }
};

}  // namespace halogen::kernels
