// A scale and a shift of each channel of each sample, as readers and epilogues apply them. affine_tables.hpp makes
// them.
#pragma once

#include "halogen/core/config.hpp"

namespace halogen::kernels {

/// y = scale * (x - center) + shift, for a point or a vector of points.
template <class T>
struct ScaleAndShift {
  T scale = 1, shift = 0, center = 0;

  template <class V>
  HALOGEN_FUNCTION V operator()(V x) const {
    return (x - center) * scale + shift;
  }
};

/// A scale and a shift as readers apply them, with tables over (n, c): y = scale * (x - center) + shift. The center is
/// the mean, rounded to T, so that a large mean costs no digits.
template <class T>
struct Affine {
  const T* scale = nullptr;
  const T* shift = nullptr;
  const double* mean = nullptr;
  int channels = 0;

  HALOGEN_FUNCTION ScaleAndShift<T> at(index_t index) const {
    return {scale[index], shift[index], static_cast<T>(mean[index])};
  }
};

}  // namespace halogen::kernels
