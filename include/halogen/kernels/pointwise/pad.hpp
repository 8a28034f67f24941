// Adjoint of a pad that reflects, replicates or repeats. Each point adds the gradients of its images beyond the ends to
// its own gradient.
#pragma once

#include "halogen/kernels/tiles/row_kernels.hpp"

namespace halogen::kernels {

/// Accumulation, for planes, rows and columns: first the point itself, then its images before the field, then those
/// after it.
template <class S>
struct PadBackwardRows {
  using T = compute_type<S>;
  GradientReader<S> padded;
  Resample map[spatial_dimensions];

  index_t scratch_size(index_t columns) const { return columns; }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    each_row(n, c, y, [&](const PlaneAt& plane, index_t at_y) {
      padded.load_row(plane, at_y, x0 + map[2].before(), count, scratch);
      for_each_vector<T>(count,
                         [&]<class V>(index_t i) { store<V>(out + i, load<V>(out + i) + load<V>(scratch + i)); });
      if (!map[2].pads()) return;
      const index_t most = std::max(map[2].before(), map[2].after());  // how far from an end points may have images
      const index_t near = most + 1, far = std::max(near, map[2].from - most - 1);
      const auto images = [&](index_t begin, index_t end) {
        for (index_t x = std::max(begin, x0); x < std::min(end, x0 + count); ++x)
          out[x - x0] = with_images(plane, at_y, x, out[x - x0]);
      };
      images(0, std::min(near, map[2].from));
      images(far, map[2].from);
    });
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    T sum = 0;
    each_row(n, c, y, [&](const PlaneAt& plane, index_t at_y) {
      sum = with_images(plane, at_y, x, sum + padded.at(plane, at_y, x + map[2].before()));
    });
    return sum;
  }

 private:
  /// Calls f(position) for the padded positions of point i's images.
  template <class F>
  KOKKOS_FUNCTION static void each_image(const Resample& map, index_t i, F f) {
    if (!map.pads()) return;
    const Resample::Images images = map.images_of(i);
    for (index_t at = images.low.begin; at < images.low.end; ++at) f(at);
    for (index_t at = images.high.begin; at < images.high.end; ++at) f(at);
  }
  /// The same, and for its own position first.
  template <class F>
  KOKKOS_FUNCTION static void each_position(const Resample& map, index_t i, F f) {
    f(i + map.before());
    each_image(map, i, f);
  }
  template <class F>
  KOKKOS_FUNCTION void each_row(int n, int c, index_t y, F f) const {
    const PlaneAt own = padded.depth.input(n, c);
    each_position(map[0], own.z, [&](index_t z) {
      PlaneAt plane = own;
      plane.z = z;
      each_position(map[1], y, [&](index_t at_y) { f(plane, at_y); });
    });
  }

  /// The sum so far plus the images of column x.
  KOKKOS_FUNCTION T with_images(const PlaneAt& plane, index_t y, index_t x, T sum) const {
    each_image(map[2], x, [&](index_t at) { sum += padded.at(plane, y, at); });
    return sum;
  }
};

}  // namespace halogen::kernels
