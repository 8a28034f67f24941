// A user's functor of points as kernels read it. It takes several values at one point, or one value at neighbouring
// points, and parameters of each channel. Derivatives come from dual numbers (kernels/rows/dual.hpp).
#pragma once

#include "halogen/kernels/rows/dual.hpp"
#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels {

/// Calls piece(begin, count) for pieces of a row of at most points_at_once points.
template <class Piece>
void in_pieces(index_t x0, index_t count, Piece piece) {
  for (index_t begin = x0; begin < x0 + count; begin += points_at_once)
    piece(begin, begin + points_at_once < x0 + count ? points_at_once : x0 + count - begin);
}

/// What a functor takes in addition to values: one number for each parameter and channel, or for all channels.
template <class T, int Count>
struct ChannelValues {
  const T* of[Count > 0 ? Count : 1] = {};
  int step[Count > 0 ? Count : 1] = {};  ///< from a channel's number to the next one's: 0 or 1

  /// f(values..., parameters of the channel...)
  template <class F, class... Values>
  KOKKOS_FORCEINLINE_FUNCTION T call(const F& f, int channel, Values... values) const {
    return call(std::make_integer_sequence<int, Count>{}, f, channel, values...);
  }

 private:
  template <int... P, class F, class... Values>
  KOKKOS_FORCEINLINE_FUNCTION T call(std::integer_sequence<int, P...>, const F& f, [[maybe_unused]] int channel,
                                     Values... values) const {
    return static_cast<T>(f(values..., of[P][channel * step[P]]...));
  }
};

/// f of Inputs values of the same channels at each point. It is 0 beyond the field, as any value is.
template <class S, class F, int Inputs, int Parameters>
struct MappedReader {
  using T = compute_type<S>;
  using stored_type = S;
  static constexpr bool computes_points =
      true;  // a device's rows have nothing to find once (kernels/rows/device_rows.hpp)
  ValueReader<S> inputs[Inputs];
  ChannelValues<T, Parameters> parameters;
  Frame frame;
  DepthWindow depth;

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const { return at(depth.input(n, c), y, x); }
  HALOGEN_FUNCTION T at(const PlaneAt& plane, index_t y, index_t x) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y) || frame.outside(2, x)) return T(0);
    return at_inputs(std::make_integer_sequence<int, Inputs>{}, plane, y, x);
  }

  /// Host: no row is in memory as it is read.
  static constexpr int tensors = 1;
  const S* address(int, int, int, index_t, index_t) const { return nullptr; }
  const T* standing_row(const PlaneAt&, index_t, index_t, index_t) const { return nullptr; }

  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    load_row(depth.input(n, c), y, x0, count, out);
  }
  void load_row(const PlaneAt& plane, index_t y, index_t x0, index_t count, T* out) const {
    if (frame.outside(0, plane.z) || frame.outside(1, y)) return (void)std::memset(out, 0, count * sizeof(T));
    detail::read_inside(frame, x0, count, out, [&](index_t begin, index_t size, T* to) {
      in_pieces(begin, size, [&](index_t x, index_t points) {
        T lines[Inputs][points_at_once];
        for (int i = 0; i < Inputs; ++i) inputs[i].load_row(plane, y, x, points, lines[i]);
        map_lines(std::make_integer_sequence<int, Inputs>{}, plane.channel, lines, points, to + (x - begin));
      });
    });
  }

 private:
  template <int... I>
  KOKKOS_FORCEINLINE_FUNCTION T at_inputs(std::integer_sequence<int, I...>, const PlaneAt& plane, index_t y,
                                          index_t x) const {
    return parameters.call(F{}, plane.channel, inputs[I].at(plane, y, x)...);
  }
  template <int... I>
  void map_lines(std::integer_sequence<int, I...>, int channel, const T (&lines)[Inputs][points_at_once],
                 index_t points, T* out) const {
    for (index_t x = 0; x < points; ++x) out[x] = parameters.call(F{}, channel, lines[I][x]...);
  }
};

/// f of one value at neighbouring points, for each point of the field. It is 0 beyond the field. Shape has `count`
/// neighbours within `radius`. The I-th is down<I> rows and across<I> columns away.
template <class S, class F, int Parameters, class Shape>
struct StencilReader {
  using T = compute_type<S>;
  using stored_type = S;
  static constexpr int radius = Shape::radius;
  ValueReader<S> input;
  ChannelValues<T, Parameters> parameters;
  Frame frame;         ///< of the points that it computes
  index_t shift[2]{};  ///< from a point to the same point of the input, down and across, if the input is padded

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const { return at<F>(n, c, y, x); }

  /// The same for another functor. It is not inlined: a stencil's gradient calls one functor for each neighbour, and a
  /// compiler for devices would put all of them into one function.
  template <class G>
  KOKKOS_FUNCTION HALOGEN_NOINLINE T at(int n, int c, index_t y, index_t x) const {
    if (frame.outside(1, y) || frame.outside(2, x)) return T(0);
    return at_neighbours<G>(std::make_integer_sequence<int, Shape::count>{}, n, c, y + shift[0], x + shift[1]);
  }

  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    if (frame.outside(1, y)) return (void)std::memset(out, 0, count * sizeof(T));
    detail::read_inside(frame, x0, count, out, [&](index_t begin, index_t size, T* to) {
      in_pieces(begin, size, [&](index_t x, index_t points) {
        T lines[2 * radius + 1][points_at_once + 2 * radius];
        for (int r = 0; r <= 2 * radius; ++r)
          input.load_row(n, c, y + shift[0] + r - radius, x + shift[1] - radius, points + 2 * radius, lines[r]);
        T* const row = to + (x - begin);
        for (index_t i = 0; i < points; ++i)
          row[i] = of_lines(std::make_integer_sequence<int, Shape::count>{}, c, lines, i + radius);
      });
    });
  }

 private:
  template <class G, int... I>
  KOKKOS_FORCEINLINE_FUNCTION T at_neighbours(std::integer_sequence<int, I...>, int n, int c, index_t y,
                                              index_t x) const {
    return parameters.call(G{}, c, input.at(n, c, y + Shape::template down<I>, x + Shape::template across<I>)...);
  }
  template <int... I>
  T of_lines(std::integer_sequence<int, I...>, int c, const T (&lines)[2 * radius + 1][points_at_once + 2 * radius],
             index_t x) const {
    return parameters.call(F{}, c, lines[Shape::template down<I> + radius][x + Shape::template across<I>]...);
  }
};

/// The gradient of a functor's result times the functor's partial derivative. A parameter's gradient is a sum of these,
/// and the gradient of an input at the same point is one. Partial is a MappedReader or a StencilReader of PartialOf<F,
/// Index>.
template <class S, class Partial>
struct SlopeReader {
  using T = compute_type<S>;
  using stored_type = S;
  static constexpr bool computes_points = true;
  GradientReader<S> gradient;
  Partial partial;

  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const T g = gradient.at(n, c, y, x), slope = partial.at(n, c, y, x);
    return g == T(0) ? T(0) : g * slope;
  }
  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    partial.load_row(n, c, y, x0, count, out);
    in_pieces(x0, count, [&](index_t x, index_t points) {
      T line[points_at_once];
      gradient.load_row(n, c, y, x, points, line);
      for (index_t i = 0; i < points; ++i) out[x - x0 + i] = line[i] == T(0) ? T(0) : line[i] * out[x - x0 + i];
    });
  }
};

/// The gradient of a stencil's input. Each point adds the contributions of the points that read it, in the order of the
/// neighbours.
template <class S, class F, int Parameters, class Shape>
struct StencilBackwardRows {
  using T = compute_type<S>;
  template <int I>
  using Of = StencilReader<S, PartialOf<F, I>, Parameters, Shape>;
  GradientReader<S> gradient;
  StencilReader<S, F, Parameters, Shape> stencil;
  int first = 0;  ///< first input channel of the source that is differentiated

  index_t scratch_size(index_t columns) const { return columns; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    add_rows(std::make_integer_sequence<int, Shape::count>{}, n, first + c, y - stencil.shift[0], x0 - stencil.shift[1],
             count, out, scratch);
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    return sum_at(std::make_integer_sequence<int, Shape::count>{}, n, first + c, y - stencil.shift[0],
                  x - stencil.shift[1]);
  }

 private:
  template <int I>
  SlopeReader<S, Of<I>> owed() const {
    Of<I> partial{stencil.input, stencil.parameters, stencil.frame, {stencil.shift[0], stencil.shift[1]}};
    return {gradient, partial};
  }
  template <int... I>
  void add_rows(std::integer_sequence<int, I...>, int n, int c, index_t y, index_t x0, index_t count, T* out,
                T* scratch) const {
    const auto add = [&](const auto& slope, int down, int across) {
      if (stencil.frame.outside(1, y - down)) return;
      slope.load_row(n, c, y - down, x0 - across, count, scratch);
      for (index_t i = 0; i < count; ++i) out[i] += scratch[i];
    };
    (add(owed<I>(), Shape::template down<I>, Shape::template across<I>), ...);
  }
  template <int... I>
  KOKKOS_FUNCTION T sum_at(std::integer_sequence<int, I...>, int n, int c, index_t y, index_t x) const {
    T sum = 0;
    ((sum += owed_at<I>(n, c, y - Shape::template down<I>, x - Shape::template across<I>)), ...);
    return sum;
  }
  template <int I>
  KOKKOS_FUNCTION T owed_at(int n, int c, index_t y, index_t x) const {
    return gradient.at(n, c, y, x) * stencil.template at<PartialOf<F, I>>(n, c, y, x);
  }
};

}  // namespace halogen::kernels
