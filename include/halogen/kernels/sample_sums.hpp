// Sums of products over a rank's points of each sample: for norms and projections of whole fields.
#pragma once

#include "halogen/core/launched.hpp"
#include "halogen/kernels/tiles.hpp"
#include "halogen/kernels/views.hpp"

namespace halogen::kernels {

/// partial[sample * channels + c] = sum of a * b over the points of a channel, row by row, in double.
template <class A, class B>
struct ChannelProducts {
  A a;
  B b;
  Interval rows, columns;
  int planes, channels;  ///< planes: of one sample
  double* partial;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const int sample = static_cast<int>(i / channels), c = static_cast<int>(i % channels);
    double sum = 0;
    for (int n = sample * planes; n < (sample + 1) * planes; ++n)
      for (index_t y = rows.begin; y < rows.end; ++y)
        for (index_t x = columns.begin; x < columns.end; ++x)
          sum += static_cast<double>(a.at(n, c, y, x)) * static_cast<double>(b.at(n, c, y, x));
    partial[i] = sum;
  }
};

/// sums[sample] = the sum over the sample's channels, in their order.
struct AddChannels {
  const double* partial;
  int channels;
  double* sums;
  KOKKOS_FUNCTION void operator()(const index_t sample) const {
    double sum = 0;
    for (int c = 0; c < channels; ++c) sum += partial[sample * channels + c];
    sums[sample] = sum;
  }
};

}  // namespace halogen::kernels
