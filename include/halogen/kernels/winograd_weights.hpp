// Weights' gradient beside the input gradient, by Winograd's algorithm on the host: one pass over the output's gradient
// serves both, which share its transform B^T g B. With x the convolution's input on the tiles of the input gradient,
// dw, flipped, = G^T [sum over tiles of (B^T g B) . (A x A^T)] G: each rank sums over its own inputs, which need no
// halo. Accumulation: value type within a tile of the launch, double across tiles, in the order of their numbers.
#pragma once

#include "halogen/kernels/winograd_weight_gradient.hpp"

namespace halogen::kernels {

/// The Beside of a WinogradConvolution over gradients whose outputs lie on the same grid, point by point. Partial
/// results [tile][weights' outputs * channels * depth * Window * Window, then the gradients' sums].
template <class S, int Window>
struct WinogradWeights {
  using T = compute_type<S>;

  ValueReader<S> input;  ///< the convolution's, on its own points
  int channels = 0;      ///< of these
  int gradients = 0;     ///< channels of the output's gradient, each once for every plane of the window
  int depth = 1;         ///< planes of the window, an odd number
  bool bias = false;     ///< whether gradients are summed as well; else their sums stand as 0
  T* partial = nullptr;

  int outputs() const { return gradients / depth; }
  index_t weight_count() const { return index_t{gradients} * channels * Window * Window; }
  index_t partial_size() const { return weight_count() + outputs(); }

  index_t lines() const { return channels; }
  index_t calls(const WinogradTransforms<T>& all) const { return sums(all).calls(); }
  const S* address(int sample, int channel, index_t y, index_t x) const {
    return input.address(0, sample, channel, y, x);
  }

  /// Of one team's tile.
  class Work {
   public:
    static std::size_t bytes(const WinogradWeights& of, const WinogradTransforms<T>& all, index_t columns) {
      return of.rows(columns).bytes() + Scratch::bytes_of<T>(of.sums(all).size()) +
             Scratch::bytes_of<double>(static_cast<std::size_t>(of.outputs()));
    }

    Work(const WinogradWeights& of, const WinogradTransforms<T>& all, index_t columns, Scratch& scratch,
         const Tile& part, const Interval (&owned)[2])
        : of_(of),
          rows_(of.rows(columns)),
          sums_(of.sums(all)),
          part_(part),
          own_{intersect(part.rows, owned[0]), intersect(part.columns, owned[1])} {
      rows_.take(scratch);
      rows_.set_readable(own_[0], own_[1]);
      sums_.data = scratch.take<T>(sums_.size());
      std::fill_n(sums_.data, sums_.size(), T(0));
      bias_ = scratch.take<double>(static_cast<std::size_t>(of.outputs()));
      std::fill_n(bias_, of.outputs(), 0.0);
    }

    /// A row of gradients as it is read: each of the tile's own is once, in the window's middle plane.
    void see(int channel, index_t y, index_t x, const T* line, index_t count) {
      if (!of_.bias || channel % of_.depth != of_.depth / 2 || !own_[0].contains({y, y + 1})) return;
      const Interval own = intersect(own_[1], {x, x + count});
      bias_[channel / of_.depth] += static_cast<double>(detail::sum_in_lanes<T>(line + (own.begin - x), own.size()));
    }

    /// The inputs of the row of tiles at y.
    void read(index_t y) {
      y_ = y;
      for (index_t row = y; row < y + tile; ++row)
        rows_.read(part_.sample, row, part_.columns.begin, ceil_div(part_.columns.size(), tile) * tile);
    }

    /// Tiles [t, t + count) of that row, whose gradients are transformed.
    void add(const WinogradTransforms<T>& all, index_t t, index_t count, LinesAhead& ahead) const {
      const T* from[tile];
      for (int i = 0; i < tile; ++i) from[i] = rows_.row(y_ + i) + t * tile * all.right_width;
      detail::transform_tiles<T, tile>(from, all.right_width, count, all.right, all.right_pitch);
      sums_.add(all, count, ahead);
    }

    void finish(index_t number) const {
      T* to = of_.partial + number * of_.partial_size();
      for (int g = 0; g < of_.gradients; ++g)
        for (int c = 0; c < of_.channels; c += lanes<T>) {
          Vector<T> w[Window][Window];
          sums_.weights(g, c, w);
          const int plane = of_.depth - 1 - g % of_.depth;
          for (int l = 0; l < lanes<T> && c + l < of_.channels; ++l) {
            T* last = to + ((index_t{g / of_.depth} * of_.channels + c + l) * of_.depth + plane + 1) * Window * Window;
            for (int i = 0; i < Window; ++i)
              for (int j = 0; j < Window; ++j) *--last = w[i][j][l];
          }
        }
      for (int o = 0; o < of_.outputs(); ++o) to[of_.weight_count() + o] = static_cast<T>(bias_[o]);
    }

   private:
    const WinogradWeights& of_;
    ChannelRows<T, ValueReader<S>> rows_;
    detail::ProductSums<T> sums_;
    const Tile& part_;
    Interval own_[2];
    double* bias_;
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
