// Host: the rows that a window needs. They are read once into a ring in L2, with the prologue applied and the columns
// sorted by their stride phase.
#pragma once

#include <limits>

#include "halogen/kernels/tiles/tiles.hpp"

namespace halogen::kernels {

/// A window in rows and columns: the numbers that kernels need of it.
struct PlaneWindow {
  int kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  index_t padding[2] = {0, 0};  ///< may be negative in an adjoint

  HALOGEN_FUNCTION index_t span(int d) const { return index_t{kernel[d] - 1} * dilation[d] + 1; }
  HALOGEN_FUNCTION index_t first_input(int d, index_t output) const { return output * stride[d] - padding[d]; }
  HALOGEN_FUNCTION index_t input(int d, index_t output, int tap) const {
    return first_input(d, output) + index_t{tap} * dilation[d];
  }
};

using WindowShape [[deprecated("it is called PlaneWindow")]] = PlaneWindow;

/// A ring of input rows, with all channels, for one tile of columns. Output x reads tap k at [tap(k) + x - first].
template <class T, class Reader>
class WindowRows {
 public:
  /// rows: how many outputs of a column are computed at once.
  WindowRows(const Reader& reader, const PlaneWindow& shape, int channels, index_t columns, index_t rows)
      : reader_(reader), shape_(shape), channels_(channels), slots_((rows - 1) * shape.stride[0] + shape.span(0)) {
    const index_t inputs = (columns - 1) * shape.stride[1] + shape.span(1);
    phase_pitch_ = ceil_div(inputs, shape.stride[1]) + slack;
    phase_pitch_ = ceil_div(phase_pitch_, lanes<T>) * lanes<T>;
    pitch_ = phase_pitch_ * shape.stride[1] + lanes<T>;  // not a power of two, because rows must not share cache sets
  }

  std::size_t bytes() const {
    return Scratch::bytes_of<T>(static_cast<std::size_t>(channels_ * slots_ * pitch_)) +
           (shape_.stride[1] > 1 ? Scratch::bytes_of<T>(static_cast<std::size_t>(pitch_)) : 0);
  }

  void begin(Scratch& scratch, int sample, Interval columns) {
    rows_ = scratch.take<T>(static_cast<std::size_t>(channels_ * slots_ * pitch_));
    if (shape_.stride[1] > 1) line_ = scratch.take<T>(static_cast<std::size_t>(pitch_));
    sample_ = sample;
    first_ = shape_.first_input(1, columns.begin);
    inputs_ = (columns.size() - 1) * shape_.stride[1] + shape_.span(1);
    next_ = std::numeric_limits<index_t>::min();
    // What is after the last input is multiplied by zero gradients or dropped. It must still be a finite number.
    const index_t keep = shape_.stride[1] > 1 ? 0 : inputs_;
    for (index_t row = 0; row < channels_ * slots_; ++row)
      std::memset(rows_ + row * pitch_ + keep, 0, static_cast<std::size_t>(pitch_ - keep) * sizeof(T));
  }

  /// Reads the rows that output row y needs and that are not yet in the ring.
  void advance_to(index_t y) {
    const index_t begin = shape_.first_input(0, y), end = begin + shape_.span(0);
    for (next_ = next_ > begin ? next_ : begin; next_ < end; ++next_)
      for (int c = 0; c < channels_; ++c) read(c, next_);
  }

  const T* row(int channel, index_t y, int tap) const {
    return rows_ + (channel * slots_ + floor_mod(shape_.input(0, y, tap), slots_)) * pitch_;
  }
  index_t channel_stride() const { return slots_ * pitch_; }
  index_t tap(int k) const {
    const index_t at = index_t{k} * shape_.dilation[1];
    return at % shape_.stride[1] * phase_pitch_ + at / shape_.stride[1];
  }

 private:
  static constexpr index_t slack = 6 * lanes<T>;  // a micro-kernel may read, and drop, a whole block beyond the end

  void read(int c, index_t y) {
    T* to = rows_ + (c * slots_ + floor_mod(y, slots_)) * pitch_;
    const int stride = shape_.stride[1];
    if (stride == 1) return reader_.load_row(sample_, c, y, first_, inputs_, to);
    reader_.load_row(sample_, c, y, first_, inputs_, line_);
    for (int phase = 0; phase < stride; ++phase)
      for (index_t i = phase, o = phase * phase_pitch_; i < inputs_; i += stride) to[o++] = line_[i];
  }

  const Reader& reader_;
  const PlaneWindow& shape_;
  index_t channels_, slots_, pitch_ = 0, phase_pitch_ = 0;
  T* rows_ = nullptr;
  T* line_ = nullptr;
  int sample_ = 0;
  index_t first_ = 0, inputs_ = 0, next_ = 0;
};

}  // namespace halogen::kernels
