// Numbers of points in the whole field, which do not depend on the mesh.
#pragma once

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels {

/// Where a rank's points are in the whole field.
struct WholeField {
  index_t first_sample = 0, channels = 1;
  index_t extent[spatial_dimensions] = {1, 1, 1};
  index_t first_plane = 0;
  int planes = 1;

  KOKKOS_FUNCTION index_t sample(int n) const { return first_sample + n / planes; }
  KOKKOS_FUNCTION index_t plane(int n) const { return first_plane + n % planes; }
  KOKKOS_FUNCTION index_t row(int n, int c, index_t y) const {
    return (sample(n) * channels + c) * extent[0] * extent[1] * extent[2] + place(n, y);
  }
  /// The number of a row's first point among the points of a sample.
  KOKKOS_FUNCTION index_t place(int n, index_t y) const { return (plane(n) * extent[1] + y) * extent[2]; }
};

}  // namespace halogen::kernels
