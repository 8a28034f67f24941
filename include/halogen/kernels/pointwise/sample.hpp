// Resampling with weights that depend on each dimension alone, and its adjoint. First planes and rows are added, each
// with its weight, then points across, in their order.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/kernels/tiles/row_kernels.hpp"
#include "halogen/stencil/sampling.hpp"

namespace halogen::kernels {

/// What an output reads in each dimension. `depth` is that of the points that the launch computes.
struct Samples {
  SampledWindow of[spatial_dimensions];
  DepthWindow depth;
};

/// Host: what the outputs of a piece of a row read across. It is the same for all rows of a tile. Each thread keeps it
/// for the last piece that it used.
template <class T>
class TapTable {
 public:
  static const TapTable& of_outputs(const SampledWindow& of, index_t begin, index_t count) {
    static thread_local TapTable kept;
    if (kept.begin_ != begin || kept.first_.size() != static_cast<std::size_t>(count) || !(kept.of_ == of))
      kept.fill(of, begin, count);
    return kept;
  }
  /// The first input that an output reads, how many it reads from there on, and their weights.
  struct Taps {
    index_t first, count;
    const T* weight;
  };
  Taps operator[](index_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return {first_[at], start_[at + 1] - start_[at], weights_.data() + start_[at]};
  }

 private:
  void fill(const SampledWindow& of, index_t begin, index_t count) {
    of_ = of, begin_ = begin;
    first_.clear(), weights_.clear(), start_.assign(1, 0);
    for (index_t o = begin; o < begin + count; ++o) {
      first_.push_back(of.reads(o).begin);
      of.template for_each<T>(o, [&](index_t, T weight) { weights_.push_back(weight); });
      start_.push_back(static_cast<index_t>(weights_.size()));
    }
  }
  SampledWindow of_;
  index_t begin_ = 0;
  std::vector<index_t> first_, start_;
  std::vector<T> weights_;
};

template <class S>
struct SampleRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  Samples samples;

  /// Two rows of as many inputs as the outputs of a tile read.
  index_t scratch_size(index_t columns) const { return 2 * width(columns); }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    const Interval across = samples.of[2].input_of({x0, x0 + count});
    T *sum = scratch, *line = scratch + across.size();
    std::fill_n(sum, across.size(), T(0));
    PlaneAt plane = samples.depth.input(n, c);
    samples.of[0].template for_each<T>(plane.z, [&](index_t z, T wz) {
      samples.of[1].template for_each<T>(y, [&](index_t at, T wy) {
        input.load_row({plane.sample, plane.channel, z}, at, across.begin, across.size(), line);
        const T w = wz * wy;
        for_each_vector<T>(across.size(),
                           [&]<class V>(index_t i) { store<V>(sum + i, load<V>(sum + i) + load<V>(line + i) * w); });
      });
    });
    const Beyond beyond = beyond_at(plane.z, y);
    const auto& table = TapTable<T>::of_outputs(samples.of[2], x0, count);
    for (index_t i = 0; i < count; ++i) {
      T value = beyond.is_nothing ? T(0) : beyond.at(samples.of[2], x0 + i);
      const auto taps = table[i];
      const T* from = sum + (taps.first - across.begin);
      for (index_t k = 0; k < taps.count; ++k) value += taps.weight[k] * from[k];
      out[i] = value;
    }
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const PlaneAt plane = samples.depth.input(n, c);
    const Beyond beyond = beyond_at(plane.z, y);
    T value = beyond.is_nothing ? T(0) : beyond.at(samples.of[2], x);
    samples.of[0].template for_each<T>(plane.z, [&](index_t z, T wz) {
      samples.of[1].template for_each<T>(y, [&](index_t down, T wy) {
        samples.of[2].template for_each<T>(x, [&](index_t across, T wx) {
          value += wz * wy * wx * input.at({plane.sample, plane.channel, z}, down, across);
        });
      });
    });
    return value;
  }

 private:
  /// What values beyond the ends add to a row. `added` comes from depth and height. `inside` is the weight of what is
  /// inside the field in these two, by which values beyond the ends across are multiplied.
  struct Beyond {
    bool is_nothing;
    T added, inside;
    KOKKOS_FUNCTION T at(const SampledWindow& across, index_t x) const {
      return added + inside * across.outside<T>(x) * static_cast<T>(across.value);
    }
  };
  KOKKOS_FUNCTION Beyond beyond_at(index_t z, index_t y) const {
    const auto& of = samples.of;
    if (of[0].value == 0 && of[1].value == 0 && of[2].value == 0) return {true, T(0), T(1)};
    const T deep = of[0].template outside<T>(z), down = of[1].template outside<T>(y);
    const T added = deep * static_cast<T>(of[0].value) + (T(1) - deep) * down * static_cast<T>(of[1].value);
    return {false, added, (T(1) - deep) * (T(1) - down)};
  }

  index_t width(index_t columns) const {
    const SampledWindow& of = samples.of[2];
    const index_t read = ceil_div(columns * of.in, of.out) + 4 * ceil_div(of.in, of.out) + 4;
    return of.periodic ? read : std::min(of.in, read);
  }
};

/// The gradient of an input point: the sum of the contributions of all outputs that read it.
template <class S>
struct SampleBackwardRows {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  int first = 0;  ///< first input channel of the source that is differentiated
  Samples samples;

  index_t scratch_size(index_t columns) const {
    const SampledWindow& of = samples.of[2];
    const index_t read = ceil_div(columns * of.out, of.in) + 5 * ceil_div(of.out, of.in) + 8;
    return 2 * (of.periodic ? read : std::min(of.out, read));
  }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    const PlaneAt own = samples.depth.input(n, first + c);
    const Interval planes = samples.of[0].output_of({own.z, own.z + 1}), down = samples.of[1].output_of({y, y + 1}),
                   across = samples.of[2].output_of({x0, x0 + count});
    T *sum = scratch, *line = scratch + across.size();
    std::fill_n(sum, across.size(), T(0));
    for (index_t z = planes.begin; z < planes.end; ++z)
      for (index_t o = down.begin; o < down.end; ++o) {
        const T w = samples.of[0].template weight<T>(z, own.z) * samples.of[1].template weight<T>(o, y);
        if (w == T(0)) continue;
        gradient.load_row({own.sample, own.channel, z}, o, across.begin, across.size(), line);
        for_each_vector<T>(across.size(),
                           [&]<class V>(index_t i) { store<V>(sum + i, load<V>(sum + i) + load<V>(line + i) * w); });
      }
    const auto& table = TapTable<T>::of_outputs(samples.of[2], across.begin, across.size());
    for (index_t i = 0; i < across.size(); ++i) {
      const auto taps = table[i];
      for (index_t k = std::max<index_t>(0, x0 - taps.first); k < std::min(taps.count, x0 + count - taps.first); ++k)
        out[taps.first + k - x0] += taps.weight[k] * sum[i];
    }
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const PlaneAt own = samples.depth.input(n, first + c);
    const Interval planes = samples.of[0].output_of({own.z, own.z + 1}), down = samples.of[1].output_of({y, y + 1}),
                   across = samples.of[2].output_of({x, x + 1});
    T sum = 0;
    for (index_t z = planes.begin; z < planes.end; ++z)
      for (index_t oy = down.begin; oy < down.end; ++oy)
        for (index_t ox = across.begin; ox < across.end; ++ox)
          sum += samples.of[0].template weight<T>(z, own.z) * samples.of[1].template weight<T>(oy, y) *
                 samples.of[2].template weight<T>(ox, x) * gradient.at({own.sample, own.channel, z}, oy, ox);
    return sum;
  }
};

}  // namespace halogen::kernels
