// Between maps and vectors: sums over a rank's points of each sample and channel, and vectors that every point reads.
#pragma once

#include "halogen/core/launched.hpp"
#include "halogen/kernels/device/reduce.hpp"
#include "halogen/kernels/functor_rows.hpp"
#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

/// sums[sample * channels + c] = the sum of what `points` reads of a channel, row by row, in double. One team for each
/// sum.
template <class ExecutionSpace, class Reader>
struct PointSums {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  using T = typename Reader::T;
  Reader points;
  Interval rows, columns;
  int planes, samples, channels;  ///< planes: of one sample
  double* sums;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, index_t{samples} * channels, *this, 0, device::reduce_bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int i = static_cast<int>(team.league_rank()), first = i / channels * planes, c = i % channels;
    HALOGEN_HOST_PART(sums[i] = on_host(first, c);)
    HALOGEN_DEVICE_PART(run_on_device(team, i, first, c);)
  }

 private:
  double on_host(int first, int c) const {
    double sum = 0, unused = 0;
    for (int n = first; n < first + planes; ++n)
      for (index_t y = rows.begin; y < rows.end; ++y)
        in_pieces(columns.begin, columns.size(), [&](index_t x, index_t count) {
          T line[points_at_once];
          points.load_row(n, c, y, x, count, line);
          halogen::kernels::detail::sum_two<T>(
              count,
              [&line]<class V, class D>(index_t k, D& first_sum, D&) {
                first_sum += RowEpilogue<T>::template in_double<T>(load_as<V>(line + k));
              },
              sum, unused);
        });
    return sum;
  }
  template <class V>
  static V load_as(const T* from) {
    if constexpr (std::is_same_v<V, T>)
      return *from;
    else
      return load<V>(from);
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team, int i, int first, int c) const {
    const index_t width = columns.size(), plane = rows.size() * width;
    const RowSums sum = device::sum(team, device::reduce_scratch(team), plane * planes, [&](index_t k, RowSums& own) {
      const index_t within = k % plane;
      own.first += static_cast<double>(points.at(first + static_cast<int>(k / plane), c, rows.begin + within / width,
                                                 columns.begin + within % width));
    });
    if (device::is_first_thread(team)) sums[i] = sum.first;
  }
};

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
    double sum = 0;
    for (int n = 0; n < samples; ++n) sum += static_cast<double>(vectors.at(n, static_cast<int>(c), 0, 0));
    sums[c] = static_cast<typename Reader::T>(sum);
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
