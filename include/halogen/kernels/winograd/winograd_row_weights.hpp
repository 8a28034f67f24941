// The weights' gradient together with an input gradient that transforms down the columns only
// (kernels/winograd/winograd_rows.hpp). One pass over the output's gradient computes both, which share its transform
// B^T g. Let x be the convolution's input on the points of the input gradient. Then tap k across of the flipped dw is
// G^T [sum over tiles and points of (B^T g, moved by k) . (A x)]. A point whose gradient is 0 adds nothing, as in
// winograd_weight_gradient.hpp. Accumulation: in each lane in the value type within a tile of the launch, then over the
// lanes; in double across tiles, in the order of their numbers.
#pragma once

#include "halogen/kernels/winograd/winograd_rows.hpp"
#include "halogen/kernels/winograd/winograd_weights.hpp"

namespace halogen::kernels {
namespace detail {

inline constexpr int line_channels = vector_registers >= 32 ? 8 : 3;  ///< whose sums of all taps one micro-kernel has

/// sums[c][k] += sum over points of moved[x + k] * channels[c][x], in lanes. Not inlined, because g++ would then spill
/// registers.
template <class T, int Window, int Channels>
[[gnu::noinline]] void correlate_lines(const T* moved, const T* channels, index_t channel_stride, index_t points,
                                       T* sums) {
  constexpr int lanes = wide_lanes<T>;
  using V = Vector<T, lanes>;
  V sum[Channels][Window];
  HALOGEN_UNROLL
  for (int c = 0; c < Channels; ++c) HALOGEN_UNROLL
  for (int k = 0; k < Window; ++k) sum[c][k] = load<V>(sums + (c * Window + k) * lanes);
  for (index_t x = 0; x < points; x += lanes) {
    V m[Window];
    HALOGEN_UNROLL
    for (int k = 0; k < Window; ++k) m[k] = load<V>(moved + x + k);
    HALOGEN_UNROLL
    for (int c = 0; c < Channels; ++c) {
      const V v = load<V>(channels + c * channel_stride + x);
      HALOGEN_UNROLL
      for (int k = 0; k < Window; ++k) sum[c][k] += m[k] * v;
    }
  }
  HALOGEN_UNROLL
  for (int c = 0; c < Channels; ++c) HALOGEN_UNROLL
  for (int k = 0; k < Window; ++k) store(sums + (c * Window + k) * lanes, sum[c][k]);
}

}  // namespace detail

/// The Beside of a WinogradRows over gradients.
template <class S, int Window>
struct WinogradRowWeights : WeightsBeside<S, Window> {
  using Base = WeightsBeside<S, Window>;
  using T = typename Base::T;

  /// The work on one team's tile.
  class Work {
   public:
    static std::size_t bytes(const WinogradRowWeights& of, index_t columns) {
      return Lines(of.input, of.channels, columns).bytes() + Scratch::bytes_of<T>(size(of)) + Base::Sums::bytes(of);
    }

    Work(const WinogradRowWeights& of, index_t columns, Scratch& scratch, const Tile& part, const Interval (&owned)[2])
        : of_(of), lines_(of.input, of.channels, columns), part_(part), bias_(of, scratch, part, owned) {
      lines_.take(scratch);
      lines_.set_readable(bias_.own[0], bias_.own[1]);
      sums_ = scratch.take<T>(size(of));
      std::fill_n(sums_, size(of), T(0));
    }

    void see(int channel, index_t y, index_t x, const T* line, index_t count) { bias_.see(channel, y, x, line, count); }

    /// Adds the row of tiles at y. Its gradients are transformed.
    template <class Gradients>
    void add(const Gradients& gradients, index_t y) {
      lines_.read(part_.sample, part_.columns, y, y);
      T* sums = sums_;
      for (int p = 0; p < winograd_points; ++p)
        for (int g = 0; g < of_.gradients; ++g) {
          const T* moved = gradients.product(p) + g * gradients.pitch();
          int c = 0;
          for (; c + most <= of_.channels; c += most) add_channels<most>(moved, p, c, sums);
          for (; c < of_.channels; ++c) add_channels<1>(moved, p, c, sums);
        }
    }

    template <class Reader>
    void finish(index_t number, const Reader& gradient, const index_t (&padding)[2]) const {
      for (int g = 0; g < of_.gradients; ++g)
        for (int c = 0; c < of_.channels; ++c) {
          T taps[Window * Window];
          for (int k = 0; k < Window; ++k) {
            T u[winograd_points], w[Window];
            for (int p = 0; p < winograd_points; ++p) {
              const T* from = sums_ + (((index_t{p} * of_.gradients + g) * of_.channels + c) * Window + k) * lanes;
              u[p] = from[0];
              for (int l = 1; l < lanes; ++l) u[p] += from[l];
            }
            detail::transform_weight_gradient<T>(u, w);
            for (int i = 0; i < Window; ++i) taps[i * Window + k] = w[i];
          }
          bias_.keep_weights(number, g, c, taps, gradient, padding);
        }
      bias_.keep(number);
    }

   private:
    using Lines = TransformedLines<T, ValueReader<S>, winograd_tile(Window)>;
    static constexpr int lanes = wide_lanes<T>, most = detail::line_channels;

    static std::size_t size(const WinogradRowWeights& of) {
      return static_cast<std::size_t>(winograd_points * of.gradients * of.channels * Window * lanes);
    }

    template <int Channels>
    void add_channels(const T* moved, int p, int c, T*& sums) const {
      detail::correlate_lines<T, Window, Channels>(moved, lines_.product(p) + c * lines_.pitch(), lines_.pitch(),
                                                   part_.columns.size(), sums);
      sums += Channels * Window * lanes;
    }

    const WinogradRowWeights& of_;
    Lines lines_;
    const Tile& part_;
    typename Base::Sums bias_;
    T* sums_ = nullptr;
  };
};

}  // namespace halogen::kernels
