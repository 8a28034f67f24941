// The largest of points that do not form a window: of the intervals of an adaptive pool, and of a whole field. Of equal
// points the first in row order counts, as in PyTorch. A NaN is larger than all others.
#pragma once

#include <limits>

#include "halogen/kernels/pointwise/max_pool.hpp"
#include "halogen/kernels/pointwise/sample.hpp"

namespace halogen::kernels {

/// The largest of the points that one output of an adaptive pool reads, and where it is.
template <class T>
struct Largest {
  T value = T(0);
  index_t z = -1, y = -1, x = -1;
};
template <class S>
HALOGEN_FUNCTION Largest<compute_type<S>> largest_of(const ValueReader<S>& input, const Samples& samples, PlaneAt plane,
                                                     index_t y, index_t x) {
  using T = compute_type<S>;
  Largest<T> best;
  const Interval planes = samples.of[0].reads(plane.z), rows = samples.of[1].reads(y), columns = samples.of[2].reads(x);
  for (plane.z = planes.begin; plane.z < planes.end; ++plane.z)
    for (index_t at_y = rows.begin; at_y < rows.end; ++at_y)
      for (index_t at_x = columns.begin; at_x < columns.end; ++at_x) {
        const T value = input.at(plane, at_y, at_x);
        if (best.z < 0 || (best.value == best.value && detail::exceeds(value, best.value)))
          best = {value, plane.z, at_y, at_x};
      }
  return best;
}

template <class S>
struct AdaptiveMaxRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  Samples samples;

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    return largest_of(input, samples, samples.depth.input(n, c), y, x).value;
  }
};

template <class S>
struct AdaptiveMaxBackwardRows {
  using T = compute_type<S>;
  ValueReader<S> input;  ///< of the one source that is differentiated
  GradientReader<S> gradient;
  int first;  ///< the source's first channel among those of the input
  Samples samples;

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const PlaneAt own = samples.depth.input(n, c);
    const Interval planes = samples.of[0].output_of({own.z, own.z + 1}), down = samples.of[1].output_of({y, y + 1}),
                   across = samples.of[2].output_of({x, x + 1});
    T sum = 0;
    for (index_t z = planes.begin; z < planes.end; ++z)
      for (index_t oy = down.begin; oy < down.end; ++oy)
        for (index_t ox = across.begin; ox < across.end; ++ox) {
          const auto best = largest_of(input, samples, {own.sample, own.channel, z}, oy, ox);
          if (best.z == own.z && best.y == y && best.x == x)
            sum += gradient.at({own.sample, first + own.channel, z}, oy, ox);
        }
    return sum;
  }
};

/// A rank's points of one channel of a sample, numbered as in the whole field.
struct FieldPoints {
  Interval rows, columns;
  int planes;  ///< of a sample on this rank
  index_t first_plane, height, width;

  HALOGEN_FUNCTION index_t count() const { return planes * rows.size() * columns.size(); }
  /// Calls f(plane of the sample, y, x, position in the whole field) for the rank's k-th point.
  template <class F>
  HALOGEN_FUNCTION auto point(index_t k, F f) const {
    const index_t x = columns.begin + k % columns.size(), rest = k / columns.size();
    const index_t y = rows.begin + rest % rows.size(), plane = rest / rows.size();
    return f(static_cast<int>(plane), y, x, ((first_plane + plane) * height + y) * width + x);
  }
};

/// For each channel of each sample the largest value in [0, count), and 1 in [count, 2 count) if a point is NaN.
template <class ExecutionSpace, class S>
struct PointMaxima {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  ValueReader<S> input;
  FieldPoints points;
  int samples, channels;
  double* maxima;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, index_t{samples} * channels, *this, 0, 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const index_t entry = team.league_rank();
    const int first = static_cast<int>(entry / channels) * points.planes, c = static_cast<int>(entry % channels);
    double largest = -std::numeric_limits<double>::infinity();
    int nans = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, points.count()),
        [&](index_t k, double& most, int& found) {
          const auto value = points.point(k, [&](int plane, index_t y, index_t x, index_t) {
            return static_cast<double>(input.at(first + plane, c, y, x));
          });
          if (value != value) found = 1;
          if (value > most) most = value;
        },
        Kokkos::Max<double>(largest), Kokkos::Max<int>(nans));
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      maxima[entry] = largest;
      maxima[index_t{samples} * channels + entry] = nans > 0 ? 1 : 0;
    });
  }
};
/// A vector for each sample from these numbers.
template <class S>
struct MaximumRows {
  using T = compute_type<S>;
  const double* maxima;
  int channels, samples;

  KOKKOS_FUNCTION T at(int n, int c, index_t, index_t) const {
    const index_t entry = index_t{n} * channels + c;
    return maxima[index_t{samples} * channels + entry] > 0 ? std::numeric_limits<T>::quiet_NaN()
                                                           : static_cast<T>(maxima[entry]);
  }
};

/// For each channel of each sample the position of the first point that has the largest value; infinity if none has.
template <class ExecutionSpace, class S>
struct FirstLargest {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  ValueReader<S> input;
  TensorView<S> largest;  ///< vectors; `first` is the first channel of them
  int first;
  FieldPoints points;
  int samples, channels;
  double* positions;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, index_t{samples} * channels, *this, 0, 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    using T = compute_type<S>;
    const index_t entry = team.league_rank();
    const int n = static_cast<int>(entry / channels), c = static_cast<int>(entry % channels);
    const T most = static_cast<T>(largest.at(n, first + c, 0, 0));
    double position = std::numeric_limits<double>::infinity();
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, points.count()),
        [&](index_t k, double& lowest) {
          points.point(k, [&](int plane, index_t y, index_t x, index_t at) {
            const T value = static_cast<T>(static_cast<S>(input.at(n * points.planes + plane, c, y, x)));
            const bool is_largest = most == most ? value == most : value != value;
            if (is_largest && static_cast<double>(at) < lowest) lowest = static_cast<double>(at);
          });
        },
        Kokkos::Min<double>(position));
    Kokkos::single(Kokkos::PerTeam(team), [&] { positions[entry] = position; });
  }
};
/// This point gets the gradient of the vector, the others get 0.
template <class S>
struct FirstLargestRows {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  FieldPoints points;
  int first, channels;
  const double* positions;

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const int sample = n / points.planes;
    const index_t plane = points.first_plane + n % points.planes;
    const auto at = static_cast<double>((plane * points.height + y) * points.width + x);
    return positions[index_t{sample} * channels + c] == at ? gradient.at(sample, first + c, 0, 0) : T(0);
  }
};

}  // namespace halogen::kernels
