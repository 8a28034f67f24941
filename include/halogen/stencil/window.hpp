// The window algebra, in one dimension: the only place that knows which inputs an output needs.
#pragma once

#include <algorithm>

#include "halogen/core/config.hpp"
#include "halogen/placement/cut.hpp"
#include "halogen/stencil/boundary.hpp"
#include "halogen/stencil/halo.hpp"

namespace halogen {

/// Dimensions that a window has: depth, height, width, in this order everywhere. A plane is a volume of depth 1.
inline constexpr int spatial_dimensions = 3;

/// The tiles of the global grid that hold the points.
constexpr Interval whole_tiles(const Interval& points, index_t tile) {
  return {floor_div(points.begin, tile) * tile, ceil_div(points.end, tile) * tile};
}

/// How an output lies among inputs that no window of one size holds (stencil/sampling.hpp).
enum class Sampling : signed char { none, adaptive, nearest, nearest_exact, linear, cubic };

/// What becomes of a window that would leave the field: it goes on there, where the boundary speaks; or, of windows
/// that keep the extents, it is moved so that it stays inside, or holds the points at and before its own alone, or the
/// field is divided into windows, and the first and the last hold fewer points (stencil/neighborhood.hpp).
enum class WindowEnds : signed char { passed, shifted, causal, divided };

/// Output o reads inputs o * stride - padding + k * dilation, 0 <= k < kernel (torch.nn.Conv2d, MaxPool2d).
/// Transposed, the same with the roles exchanged: output i * stride - padding + k * dilation reads input i
/// (torch.nn.ConvTranspose2d).
struct Window {
  int kernel = 1, stride = 1, dilation = 1, padding = 0;
  int more_padding = 0;   ///< at the end, than at the beginning
  bool periodic = false;  ///< only where a whole field of inputs is a whole number of steps (layers/read_padded.hpp)
  bool transposed = false;
  int output_padding = 0;  ///< transposed: outputs more, at the end
  bool ceil = false;       ///< the last window may leave the field, where it begins in it or before (ceil_mode)
  int outputs = 0;         ///< where positive: so many of any field, and nothing else of this is asked
  Sampling sampling = Sampling::none;         ///< where not none: by extents, and up and down (SampledWindow)
  bool corners = false, antialiases = false;  ///< of a sampling
  int up = 0, down = 0;           ///< of a sampling: outputs are up / down times as dense; 0: as the extents say
  Edge beyond = Edge::replicate;  ///< of a sampling: what its taps read beyond an end, where it is not periodic
  double value = 0;               ///< of a sampling: what stands beyond an Edge::zero
  Edge pads = Edge::zero;         ///< else: a pad, whose output o is the input's point o - padding, or that one's image
  WindowEnds ends = WindowEnds::passed;  ///< where not passed: a neighbourhood, and padding is not asked
  int shift = 0;                         ///< divided: a window begins at this point

  constexpr bool operator==(const Window&) const = default;

  /// Inputs from the first to the last tap of one output (transposed: outputs of one input).
  HALOGEN_FUNCTION constexpr index_t span() const { return index_t{kernel - 1} * dilation + 1; }
  [[deprecated("it is called span()")]] HALOGEN_FUNCTION constexpr index_t footprint() const { return span(); }

  /// PyTorch's formulas, where padding is alike on both sides: floor((input + 2 padding - span) / stride) + 1,
  /// ceil of it, and transposed (input - 1) stride - 2 padding + span + output_padding; 0 where nothing fits.
  constexpr index_t output_extent(index_t input) const {
    if (outputs > 0) return outputs;
    if (transposed) return std::max<index_t>(0, (input - 1) * stride - 2 * padding + span() + output_padding);
    const index_t room = input + padding_of_both() - span();
    if (room < 0) return 0;
    if (!ceil) return room / stride + 1;
    const index_t extent = ceil_div(room, index_t{stride}) + 1;
    return extent - ((extent - 1) * stride >= input + padding);
  }

  /// One window for all that make the same extents and cuts of the same input.
  constexpr Window of_extents() const {
    Window window = *this;
    window.periodic = false;
    if (outputs > 0) return {.outputs = outputs};
    if (is_pad()) window.pads = Edge::replicate;
    if (!transposed) return window;
    if (stride == 1 && 2 * padding == span() - 1 + output_padding) return {};
    return {.kernel = static_cast<int>(span()) - 2 * padding + output_padding, .stride = stride, .transposed = true};
  }

  /// Whether another such window makes the same extents and cuts of every input: 3 x 3 with padding 1 and 1 x 1, of one
  /// stride.
  constexpr bool makes_extents_of(const Window& other) const {
    const bool exact = transposed || other.transposed || is_pad() || other.is_pad() || ceil || other.ceil ||
                       outputs > 0 || other.outputs > 0;
    if (exact) return of_extents() == other.of_extents();
    return stride == other.stride && span() - padding_of_both() == other.span() - other.padding_of_both();
  }

  /// At the beginning and at the end together.
  constexpr index_t padding_of_both() const { return 2 * index_t{padding} + more_padding; }

  constexpr bool is_pad() const { return pads != Edge::zero; }

  /// Smallest interval of inputs that the outputs need (transposed: unless stride and dilation leave gaps); may leave
  /// the field, where the boundary speaks.
  constexpr Interval input_of(const Interval& outputs) const { return transposed ? holding(outputs) : taps(outputs); }

  /// The same where outputs of a field of `extent` points are computed in whole tiles on the global grid of multiples
  /// of `tile`. What only outputs beyond the field would read is not needed.
  constexpr Interval input_of_tiles(const Interval& outputs, index_t tile, index_t extent) const {
    if (outputs.empty()) return {};
    return intersect(input_of(whole_tiles(outputs, tile)), input_of({0, extent}));
  }
  constexpr Interval output_of_tiles(const Interval& inputs, index_t tile, index_t extent) const {
    if (inputs.empty()) return {};
    return intersect(output_of(whole_tiles(inputs, tile)), output_of({0, extent}));
  }

  /// The adjoint: an interval that holds all outputs which read any of the inputs, the smallest unless stride and
  /// dilation leave gaps; may leave the output field.
  HALOGEN_FUNCTION constexpr Interval output_of(const Interval& inputs) const {
    return transposed ? taps(inputs) : holding(inputs);
  }

  /// Bound of what a rank must read beyond its own piece when the output is cut at ceil(c / stride); the last piece,
  /// which takes outputs beyond ceil(extent / stride), may need more.
  constexpr Halo halo() const {
    const int before = padding;                                // the first output starts at c or later
    const int after = static_cast<int>(span()) - 1 - padding;  // the last output starts at c' - 1 or before
    return {before, after};
  }

 private:
  HALOGEN_FUNCTION constexpr Interval taps(const Interval& steps) const {
    if (steps.empty()) return {};
    const index_t begin = steps.begin * stride - padding;
    return {begin, (steps.end - 1) * stride - padding + span()};
  }
  HALOGEN_FUNCTION constexpr Interval holding(const Interval& points) const {
    if (points.empty()) return {};
    return {ceil_div(points.begin + padding - (span() - 1), stride), floor_div(points.end - 1 + padding, stride) + 1};
  }
};

/// Resampling from `from` to `to` points, as PyTorch's `size=`. Nearest: output o reads input floor(o * from / to).
/// Linear (align_corners=False): output o stands at (o + 1/2) * from / to - 1/2, clamped to the field, between two
/// inputs. Extends periodically by itself: o + to reads from + what o reads.
/// With an edge, a pad, behind the field of `more` points more than before it: output o reads input o - before(), or,
/// beyond the ends, that point's image. A periodic edge has no images to look up: the inputs go on beyond their ends,
/// and so do the outputs, with their own extent as period.
struct Resample {
  index_t from = 1, to = 1;
  bool linear = false;
  Edge edge = Edge::zero;
  index_t more = 0;

  constexpr bool operator==(const Resample&) const = default;

  HALOGEN_FUNCTION constexpr bool pads() const { return edge != Edge::zero; }
  HALOGEN_FUNCTION constexpr bool wraps() const { return edge == Edge::periodic; }
  HALOGEN_FUNCTION constexpr bool doubles() const { return to == 2 * from && !pads(); }
  HALOGEN_FUNCTION constexpr index_t before() const { return (to - from - more) / 2; }
  HALOGEN_FUNCTION constexpr index_t after() const { return before() + more; }

  /// Nearest, pads: the input that is read.
  HALOGEN_FUNCTION constexpr index_t source(index_t output) const {
    if (wraps()) return output - before();
    if (pads()) return image_of(edge, output - before(), from);
    return from == to ? output : floor_div(output * from, to);
  }

  /// Pads: the outputs that read input i are i + before(), and those beyond either end in `low` and `high`.
  struct Images {
    Interval low, high;
  };
  HALOGEN_FUNCTION constexpr Images images_of(index_t input) const {
    const index_t last = from - 1, width = before();
    if (wraps()) {  // the outputs beyond one end stand, one period further, beyond the other
      const index_t low = input - after(), high = input + to - from + width;
      return {{low, low + (low < 0)}, {high, high + (high >= to)}};
    }
    if (edge == Edge::replicate)
      return {{0, input == 0 ? width : 0}, {width + from, width + from + (input == last ? after() : 0)}};
    const index_t low = width - input, high = width + 2 * last - input;
    return {{low, low + (input > 0 && low >= 0)}, {high, high + (input < last && high < to)}};
  }

  /// Linear: the two inputs that are read, and how far between them in units of 1 / (2 to).
  struct Between {
    index_t first, second, part;
  };
  HALOGEN_FUNCTION constexpr Between between(index_t output) const {
    const index_t image = floor_div(output, to), along = (2 * (output - image * to) + 1) * from - to;
    const index_t at = along < 0 ? 0 : along, first = at / (2 * to);
    return {image * from + first, image * from + (first + 1 < from ? first + 1 : first), at % (2 * to)};
  }

  constexpr Interval input_of(const Interval& outputs) const {
    if (outputs.empty()) return {};
    if (linear) return {between(outputs.begin).first, between(outputs.end - 1).second + 1};
    if (pads()) return sources(outputs);
    return {source(outputs.begin), source(outputs.end - 1) + 1};
  }

  /// Outputs that read any of the inputs.
  HALOGEN_FUNCTION constexpr Interval output_of(const Interval& inputs) const {
    if (inputs.empty()) return {};
    if (linear) {
      const index_t image = floor_div(inputs.begin, from), begin = inputs.begin - image * from;
      return {image * to + (begin == 0 ? 0 : first_from(begin - 1)), end_before(inputs.end)};
    }
    if (pads()) return readers(inputs);
    return {ceil_div(inputs.begin * to, from), ceil_div(inputs.end * to, from)};
  }

 private:
  /// Pads: what holds all images of outputs, and all outputs that are images of inputs. An image moves away from its
  /// end as its point does, so that ends of intervals suffice.
  constexpr Interval sources(const Interval& outputs) const {
    const Interval points{outputs.begin - before(), outputs.end - before()};
    if (wraps()) return points;
    const auto images = [&](const Interval& beyond) -> Interval {
      if (beyond.empty()) return {};
      const index_t first = image_of(edge, beyond.begin, from), last = image_of(edge, beyond.end - 1, from);
      return hull(Interval{first, first + 1}, Interval{last, last + 1});
    };
    const Interval ends = hull(images({points.begin, std::min<index_t>(points.end, 0)}),
                               images({std::max(points.begin, from), points.end}));
    return hull(intersect(points, {0, from}), ends);
  }
  HALOGEN_FUNCTION constexpr Interval readers(const Interval& inputs) const {
    Interval all{inputs.begin + before(), inputs.end + before()};
    if (wraps()) return hull(hull(all, images_of(inputs.begin).low), images_of(inputs.end - 1).high);
    const index_t lowest = before(), highest = from - 1 - after();  // whose reflections lie furthest out
    for (const index_t input : {inputs.begin, lowest, highest, inputs.end - 1}) {
      if (input < inputs.begin || input >= inputs.end) continue;
      const Images images = images_of(input);
      all = hull(all, hull(images.low, images.high));
    }
    return all;
  }

  /// Linear: the first output of the field whose `first` is at least `input`, 0 <= input < from.
  HALOGEN_FUNCTION constexpr index_t first_from(index_t input) const {
    return input == 0 ? 0 : ceil_div(to * (2 * input + 1) - from, 2 * from);
  }
  HALOGEN_FUNCTION constexpr index_t end_before(index_t input) const {
    const index_t image = floor_div(input, from);
    return image * to + first_from(input - image * from);
  }
};

}  // namespace halogen
