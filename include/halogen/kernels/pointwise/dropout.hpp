// Kernels of Dropout and similar layers. A random number decides whether a value passes. It belongs to the value's
// place in the whole field.
#pragma once

#include "halogen/core/philox.hpp"
#include "halogen/kernels/rows/whole_field.hpp"

namespace halogen::kernels {

/// Which values are dropped together.
enum class DroppedUnit { point, channel, sample };

/// y = x / (1 - p), or 0 with probability p. It is its own adjoint.
template <class S, class Reader>
struct DropoutRows {
  using T = compute_type<S>;
  Reader input;
  int first = 0;  ///< first channel
  WholeField field;
  RandomStream random;
  DroppedUnit unit;
  double probability;

  index_t scratch_size(index_t) const { return 0; }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T*) const {
    input.load_row(n, first + c, y, x0, count, out);
    if (!random.draws()) return;
    if (unit != DroppedUnit::point) {
      const T factor = factor_of(number(n, first + c));
      for (index_t i = 0; i < count; ++i) out[i] *= factor;
      return;
    }
    const index_t begin = field.row(n, first + c, y) + x0;
    for (index_t block = begin / 4; block * 4 < begin + count; ++block) {  // four numbers at a time
      const auto words = random.bits(static_cast<std::uint64_t>(block));
      for (index_t k = 0; k < 4; ++k) {
        const index_t i = block * 4 + k - begin;
        if (i >= 0 && i < count) out[i] *= factor_of_word(words[static_cast<std::size_t>(k)]);
      }
    }
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const T value = input.at(n, first + c, y, x);
    if (!random.draws()) return value;
    return value * factor_of(unit == DroppedUnit::point ? field.row(n, first + c, y) + x : number(n, first + c));
  }

 private:
  KOKKOS_FUNCTION index_t number(int n, int c) const {
    return unit == DroppedUnit::sample ? field.sample(n) : field.sample(n) * field.channels + c;
  }
  KOKKOS_FUNCTION T factor_of(index_t number) const {
    const auto words = random.bits(static_cast<std::uint64_t>(number / 4));
    return factor_of_word(words[static_cast<std::size_t>(number % 4)]);
  }
  KOKKOS_FUNCTION T factor_of_word(std::uint32_t word) const {
    return static_cast<double>(word) * 0x1p-32 < probability ? T(0) : static_cast<T>(1 / (1 - probability));
  }
};

}  // namespace halogen::kernels
