// Products of two strided tensors, summed over the indices that the result does not have: matrix products and what
// einsum computes. Accumulation: `=`. Each result is one sum in the value type, in the order of the summed indices, in
// any tile. So the bits depend on where a tensor is cut only if a summed index is cut. In a gradient one operand is a
// cotangent. Where it is 0 it adds nothing, even if the other operand is infinite or NaN: on the host a tile whose
// results are not all finite is summed again without such products.
#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>

#include "halogen/core/vector_bytes.hpp"
#include "halogen/kernels/vector/simd.hpp"

namespace halogen::kernels {

/// Loops over Count indices, the last one fastest: extents, and strides in both operands and in the result. A stride is
/// 0 if the tensor does not have the index.
template <int Count>
struct ContractionLoops {
  static constexpr int room = Count > 0 ? Count : 1;
  index_t size[room] = {}, a[room] = {}, b[room] = {}, c[room] = {};

  KOKKOS_FUNCTION index_t points() const {
    index_t points = 1;
    for (int i = 0; i < Count; ++i) points *= size[i];
    return points;
  }
  /// The offset of a point of the loops in the tensor with these strides.
  KOKKOS_FUNCTION index_t offset(const index_t (&stride)[room], index_t point) const {
    index_t offset = 0;
    for (int i = Count - 1; i >= 0; --i) {
      offset += point % size[i] * stride[i];
      point /= size[i];
    }
    return offset;
  }
};

/// Which operand of a product is a cotangent.
enum class Cotangent { none, a, b };

/// On the host a work item is a tile of results. Its operands are copied side by side before they are multiplied. On a
/// device a work item is one result.
template <class T, bool OnHost, int Batch, int Rows, int Columns, int Summed>
struct Contraction {
  const T* a;
  const T* b;
  T* c;
  ContractionLoops<Batch> batch;      ///< indices of all three
  ContractionLoops<Rows> rows;        ///< of a and c
  ContractionLoops<Columns> columns;  ///< of b and c
  ContractionLoops<Summed> summed;    ///< of a and b
  Cotangent cotangent = Cotangent::none;

  static constexpr index_t tile_rows = OnHost ? 96 : 1, tile_columns = OnHost ? 64 : 1;
  KOKKOS_FUNCTION index_t row_tiles() const { return ceil_div(rows.points(), tile_rows); }
  KOKKOS_FUNCTION index_t column_tiles() const { return ceil_div(columns.points(), tile_columns); }
  index_t items() const { return batch.points() * row_tiles() * column_tiles(); }

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t column = item % column_tiles() * tile_columns, rest = item / column_tiles();
    const index_t row = rest % row_tiles() * tile_rows, sample = rest / row_tiles();
    KOKKOS_IF_ON_HOST((if constexpr (OnHost) run_on_host(sample, row, column); else one(sample, row, column);))
    KOKKOS_IF_ON_DEVICE((one(sample, row, column);))
  }

 private:
  static constexpr index_t depth = 512 / static_cast<index_t>(sizeof(T));  ///< summed indices that are copied at once
  static constexpr index_t block_rows = 6;  ///< results in registers: 6 rows of 2 vectors
  static constexpr int vector_lanes = wide_lanes<T>;
  using V = Vector<T, vector_lanes>;
  static_assert(tile_rows == 1 || (tile_rows % block_rows == 0 && tile_columns % (2 * vector_lanes) == 0));

  KOKKOS_FUNCTION bool counts(T p, T q) const {
    return cotangent == Cotangent::none || (cotangent == Cotangent::a ? p : q) != T(0);
  }

  KOKKOS_FUNCTION void one(index_t sample, index_t row, index_t column) const {
    const T* x = a + batch.offset(batch.a, sample) + rows.offset(rows.a, row);
    const T* y = b + batch.offset(batch.b, sample) + columns.offset(columns.b, column);
    T sum = 0;
    for (index_t k = 0; k < summed.points(); ++k) {
      const T p = x[summed.offset(summed.a, k)], q = y[summed.offset(summed.b, k)];
      if (counts(p, q)) sum += p * q;
    }
    c[batch.offset(batch.c, sample) + rows.offset(rows.c, row) + columns.offset(columns.c, column)] = sum;
  }

  void run_on_host(index_t sample, index_t first_row, index_t first_column) const {
    alignas(64) T result[tile_rows * tile_columns] = {};
    const index_t height = rows.points() - first_row < tile_rows ? rows.points() - first_row : tile_rows;
    const index_t width =
        columns.points() - first_column < tile_columns ? columns.points() - first_column : tile_columns;
    index_t x_at[tile_rows], y_at[tile_columns];
    for (index_t i = 0; i < height; ++i) x_at[i] = rows.offset(rows.a, first_row + i);
    for (index_t j = 0; j < width; ++j) y_at[j] = columns.offset(columns.b, first_column + j);
    const T* from_a = a + batch.offset(batch.a, sample);
    const T* from_b = b + batch.offset(batch.b, sample);
    // If one operand is a vector, no copy would be used a second time.
    if (width == 1)
      multiply_vector(from_a, x_at, summed.a, from_b + y_at[0], summed.b, height, result, tile_columns);
    else if (height == 1 && !follow_each_other(y_at, width))
      multiply_vector(from_b, y_at, summed.b, from_a + x_at[0], summed.a, width, result, 1);
    else
      multiply_tile(from_a, x_at, height, from_b, y_at, width, result);
    if (cotangent != Cotangent::none && !all_finite(height, width, result))
      multiply_counted(from_a, x_at, height, from_b, y_at, width, result);
    T* to = c + batch.offset(batch.c, sample);
    for (index_t i = 0; i < height; ++i) {
      T* row = to + rows.offset(rows.c, first_row + i);
      for (index_t j = 0; j < width; ++j)
        row[columns.offset(columns.c, first_column + j)] = result[i * tile_columns + j];
    }
  }

  void multiply_tile(const T* from_a, const index_t* x_at, index_t height, const T* from_b, const index_t* y_at,
                     index_t width, T* result) const {
    alignas(64) T x[depth * tile_rows], y[depth * tile_columns];
    const bool x_dense = follow_each_other(x_at, height), y_dense = follow_each_other(y_at, width);
    const index_t all = summed.points();
    for (index_t first = 0; first < all; first += depth) {
      const index_t count = all - first < depth ? all - first : depth;
      for (index_t k = 0; k < count; ++k) {
        lay_out(from_a + summed.offset(summed.a, first + k), x_at, x_dense, height, tile_rows, x + k * tile_rows);
        lay_out(from_b + summed.offset(summed.b, first + k), y_at, y_dense, width, tile_columns, y + k * tile_columns);
      }
      for (index_t i = 0; i < height; i += block_rows)
        for (index_t j = 0; j < width; j += 2 * vector_lanes)
          multiply(count, x + i, y + j, result + i * tile_columns + j);
    }
  }

  static bool all_finite(index_t height, index_t width, const T* result) {
    int others = 0;
    for (index_t i = 0; i < height; ++i)
      for (index_t j = 0; j < width; ++j) {
        const T value = result[i * tile_columns + j];
        others |= !(value - value == T(0));
      }
    return others == 0;
  }

  /// The same sums without products that do not count.
  void multiply_counted(const T* from_a, const index_t* x_at, index_t height, const T* from_b, const index_t* y_at,
                        index_t width, T* result) const {
    std::fill_n(result, height * tile_columns, T(0));
    for (index_t k = 0; k < summed.points(); ++k) {
      const T *x = from_a + summed.offset(summed.a, k), *y = from_b + summed.offset(summed.b, k);
      for (index_t i = 0; i < height; ++i)
        for (index_t j = 0; j < width; ++j)
          if (counts(x[x_at[i]], y[y_at[j]])) result[i * tile_columns + j] += x[x_at[i]] * y[y_at[j]];
    }
  }

  /// Computes `count` results, each the same sum as in multiply(): lines `at` of one operand times the vector `with`.
  void multiply_vector(const T* from, const index_t* at, const index_t (&stride)[ContractionLoops<Summed>::room],
                       const T* with, const index_t (&with_stride)[ContractionLoops<Summed>::room], index_t count,
                       T* result, index_t step) const {
    constexpr index_t side_by_side = 8;
    const index_t all = summed.points();
    for (index_t i = 0; i < count; i += side_by_side) {
      const index_t lines_here = count - i < side_by_side ? count - i : side_by_side;
      T sum[side_by_side] = {};
      for (index_t k = 0; k < all; ++k) {
        const T factor = with[summed.offset(with_stride, k)];
        const T* line = from + summed.offset(stride, k);
        for (index_t l = 0; l < lines_here; ++l) sum[l] += factor * line[at[i + l]];
      }
      for (index_t l = 0; l < lines_here; ++l) result[(i + l) * step] = sum[l];
    }
  }

  static bool follow_each_other(const index_t* at, index_t count) {
    for (index_t i = 1; i < count; ++i)
      if (at[i] != at[0] + i) return false;
    return true;
  }
  /// Copies values side by side, followed by zeros.
  static void lay_out(const T* from, const index_t* at, bool dense, index_t count, index_t room, T* to) {
    if (dense)
      std::memcpy(static_cast<void*>(to), from + at[0], static_cast<std::size_t>(count) * sizeof(T));
    else
      for (index_t i = 0; i < count; ++i) to[i] = from[at[i]];
    for (index_t i = count; i < room; ++i) to[i] = T(0);
  }

  static void multiply(index_t count, const T* x, const T* y, T* result) {
    V sum[block_rows][2];
    HALOGEN_UNROLL
    for (index_t r = 0; r < block_rows; ++r) {
      sum[r][0] = load<V>(result + r * tile_columns);
      sum[r][1] = load<V>(result + r * tile_columns + vector_lanes);
    }
    for (index_t k = 0; k < count; ++k) {
      const V first = load<V>(y + k * tile_columns), second = load<V>(y + k * tile_columns + vector_lanes);
      HALOGEN_UNROLL
      for (index_t r = 0; r < block_rows; ++r) {
        const T factor = x[k * tile_rows + r];
        sum[r][0] += factor * first;
        sum[r][1] += factor * second;
      }
    }
    HALOGEN_UNROLL
    for (index_t r = 0; r < block_rows; ++r) {
      store(result + r * tile_columns, sum[r][0]);
      store(result + r * tile_columns + vector_lanes, sum[r][1]);
    }
  }
};

}  // namespace halogen::kernels
