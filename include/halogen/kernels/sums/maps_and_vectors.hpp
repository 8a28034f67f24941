// Between maps and vectors: vectors that follow from sums over points, and vectors that every point reads.
#pragma once

#include "halogen/core/launched.hpp"
#include "halogen/kernels/rows/functor_rows.hpp"
#include "halogen/kernels/sums/merge.hpp"

namespace halogen::kernels {

template <class T>
struct SetZero {
  T* values;
  KOKKOS_FUNCTION void operator()(const index_t i) const { values[i] = T(0); }
};

/// Copies the values at some places of an array, one after the other.
template <class T>
struct CollectValues {
  const T* from;
  const int* place;
  T* to;
  KOKKOS_FUNCTION void operator()(const index_t i) const { to[i] = from[place[i]]; }
};
/// Adds values to these places. No place occurs twice.
template <class T>
struct AddAtPlaces {
  const T* from;
  const int* place;
  T* to;
  KOKKOS_FUNCTION void operator()(const index_t i) const { to[place[i]] += from[i]; }
};

/// sum += term, for two arrays of the same size.
template <class T>
struct AddArrays {
  T* sum;
  const T* term;
  KOKKOS_FUNCTION void operator()(const index_t i) const { sum[i] += term[i]; }
};

/// The same vector for each sample.
template <class S>
struct SameVectorRows {
  using T = compute_type<S>;
  const T* vector;

  KOKKOS_FUNCTION T at(int, int c, index_t, index_t) const { return vector[c]; }
};

/// sums[c] = the sum over samples of what a reader of vectors reads, in double.
template <class Reader>
struct SumSamples {
  Reader vectors;
  int samples;
  typename Reader::T* sums;

  KOKKOS_FUNCTION void operator()(const index_t c) const {
    sums[c] = static_cast<typename Reader::T>(merged<double>(samples, [&](index_t n) {
      return static_cast<double>(vectors.at(static_cast<int>(n), static_cast<int>(c), 0, 0));
    }));
  }
};

/// A vector for each sample from such sums.
template <class S>
struct MeanRows {
  using T = compute_type<S>;
  const double* sums;
  int channels;
  double count;  ///< the sums are divided by it

  KOKKOS_FUNCTION T at(int n, int c, index_t, index_t) const {
    return static_cast<T>(sums[index_t{n} * channels + c] / count);
  }
};

/// Every point of a map gets the entry of its vector, times `scale`.
template <class S, class Reader>
struct BroadcastRows {
  using T = compute_type<S>;
  Reader vector;
  int planes, first;  ///< planes of one sample; the first channel that is read
  T scale;

  index_t scratch_size(index_t) const { return 0; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    std::fill_n(out, count, at(n, c, y, x0));
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t, index_t) const { return vector.at(n / planes, first + c, 0, 0) * scale; }
};

}  // namespace halogen::kernels
