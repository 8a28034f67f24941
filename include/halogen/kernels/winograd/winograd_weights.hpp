// The weights' gradient together with the input gradient, by Winograd's algorithm on the host. One pass over the
// output's gradient computes both, which share its transform B^T g B. Let x be the convolution's input on the tiles of
// the input gradient. Then the flipped dw is G^T [sum over tiles of (B^T g B) . (A x A^T)] G. Each rank sums over its
// own inputs, which need no halo. A point whose gradient is 0 adds nothing, as in winograd_weight_gradient.hpp.
// Accumulation: in the value type within a tile of the launch, in double across tiles, in the order of their numbers.
#pragma once

#include "halogen/kernels/winograd/winograd_weight_gradient.hpp"

namespace halogen::kernels {

/// What an input gradient sums for the weights in addition to its outputs. The convolution's inputs are on the same
/// grid as these outputs, point by point. Partial results [tile][weights' outputs * channels * depth * Window * Window,
/// then the gradients' sums].
template <class S, int Window>
struct WeightsBeside {
  using T = compute_type<S>;

  ValueReader<S> input;  ///< the input of the convolution, at its own points
  int channels = 0;      ///< of the input
  int gradients = 0;     ///< channels of the output's gradient, each one once for every plane of the window
  int depth = 1;         ///< planes of the window, an odd number
  bool bias = false;     ///< whether gradients are summed too; else their sums are 0
  T* partial = nullptr;

  int outputs() const { return gradients / depth; }
  index_t weight_count() const { return index_t{gradients} * channels * Window * Window; }
  index_t partial_size() const { return weight_count() + outputs(); }

  /// The sums of the gradients. Rows are added as they are read. Each row of the tile counts once, in the window's
  /// middle plane.
  struct Sums {
    const WeightsBeside& of;
    int sample;
    Interval own[2];
    double* sums;

    static std::size_t bytes(const WeightsBeside& of) {
      return Scratch::bytes_of<double>(static_cast<std::size_t>(of.outputs()));
    }
    Sums(const WeightsBeside& of_, Scratch& scratch, const Tile& part, const Interval (&owned)[2])
        : of(of_),
          sample(part.sample),
          own{intersect(part.rows, owned[0]), intersect(part.columns, owned[1])},
          sums(scratch.take<double>(static_cast<std::size_t>(of_.outputs()))) {
      std::fill_n(sums, of.outputs(), 0.0);
    }
    void see(int channel, index_t y, index_t x, const T* line, index_t count) {
      if (!of.bias || channel % of.depth != of.depth / 2 || !own[0].contains({y, y + 1})) return;
      const Interval here = intersect(own[1], {x, x + count});
      sums[channel / of.depth] += static_cast<double>(detail::sum_in_lanes<T>(line + (here.begin - x), here.size()));
    }
    /// Stores the sums of a pair of channels at all taps of the flipped window, for a tile of the launch. Where they
    /// are not finite, they are summed again, of what `reader` reads of the gradient: point (y, x) reads tap (i, j) at
    /// (y - padding[0] + i, x - padding[1] + j).
    template <class Reader>
    void keep_weights(index_t tile, int gradient, int channel, T (&taps)[Window * Window], const Reader& reader,
                      const index_t (&padding)[2]) const {
      constexpr int count = Window * Window;
      if (!detail::all_finite(taps, count))
        detail::sum_counted_taps<Window>(sample, of.input, channel, reader, gradient, own[0], own[1], padding, taps);
      const int plane = of.depth - 1 - gradient % of.depth;
      const index_t window = (index_t{gradient / of.depth} * of.channels + channel) * of.depth + plane;
      std::reverse_copy(taps, taps + count, of.partial + tile * of.partial_size() + window * count);
    }
    void keep(index_t tile) const {
      for (int o = 0; o < of.outputs(); ++o)
        of.partial[tile * of.partial_size() + of.weight_count() + o] = static_cast<T>(sums[o]);
    }
  };
};

/// The Beside of a WinogradConvolution over gradients.
template <class S, int Window>
struct WinogradWeights : WeightsBeside<S, Window> {
  using Base = WeightsBeside<S, Window>;
  using T = typename Base::T;
  using Base::channels, Base::input, Base::gradients;

  index_t lines() const { return channels; }
  index_t calls(const WinogradTransforms<T>& all) const { return sums(all).calls(); }
  const S* address(int sample, int channel, index_t y, index_t x) const {
    return input.address(0, sample, channel, y, x);
  }

  /// The work on one team's tile.
  class Work {
   public:
    static std::size_t bytes(const WinogradWeights& of, const WinogradTransforms<T>& all, index_t columns) {
      return of.rows(columns).bytes() + Scratch::bytes_of<T>(of.sums(all).size()) + Base::Sums::bytes(of);
    }

    Work(const WinogradWeights& of, const WinogradTransforms<T>& all, index_t columns, Scratch& scratch,
         const Tile& part, const Interval (&owned)[2])
        : of_(of), rows_(of.rows(columns)), sums_(of.sums(all)), part_(part), bias_(of, scratch, part, owned) {
      rows_.take(scratch);
      rows_.set_readable(bias_.own[0], bias_.own[1]);
      sums_.data = scratch.take<T>(sums_.size());
      std::fill_n(sums_.data, sums_.size(), T(0));
    }

    void see(int channel, index_t y, index_t x, const T* line, index_t count) { bias_.see(channel, y, x, line, count); }

    /// Reads the inputs of the row of tiles at y.
    void read(index_t y) {
      y_ = y;
      for (index_t row = y; row < y + tile; ++row)
        rows_.read(part_.sample, row, part_.columns.begin, ceil_div(part_.columns.size(), tile) * tile);
    }

    /// Adds tiles [t, t + count) of that row. Their gradients are transformed.
    void add(const WinogradTransforms<T>& all, index_t t, index_t count, LinesAhead& ahead) const {
      detail::transform_tiles<tile, tile>(rows_, y_, t, count, all.right, all.right_pitch);
      sums_.add(all, count, ahead);
    }

    template <class Reader>
    void finish(index_t number, const Reader& gradient, const index_t (&padding)[2]) const {
      for (int g = 0; g < of_.gradients; ++g)
        for (int c = 0; c < of_.channels; c += lanes<T>) {
          Vector<T> w[Window][Window];
          sums_.weights(g, c, w);
          for (int l = 0; l < lanes<T> && c + l < of_.channels; ++l) {
            T taps[Window * Window];
            for (int k = 0; k < Window * Window; ++k) taps[k] = w[k / Window][k % Window][l];
            bias_.keep_weights(number, g, c + l, taps, gradient, padding);
          }
        }
      bias_.keep(number);
    }

   private:
    const WinogradWeights& of_;
    ChannelRows<T, ValueReader<S>> rows_;
    detail::ProductSums<T> sums_;
    const Tile& part_;
    typename Base::Sums bias_;
    index_t y_ = 0;
  };

 private:
  static constexpr int tile = winograd_tile(Window);

  ChannelRows<T, ValueReader<S>> rows(index_t columns) const { return {input, channels, columns, tile}; }
  static detail::ProductSums<T> sums(const WinogradTransforms<T>& all) {
    return {nullptr, all.left_width, all.right_width};
  }
};

}  // namespace halogen::kernels
