// What kernels evaluate of nodes that shift or bound reads (windowed.hpp), and of indices.
#pragma once

#include "halogen/array/expression/expression.hpp"

namespace halogen {
namespace detail {

template <class Row>
struct ShiftedRow {
  Row inner;
  index_t offset;
  HALOGEN_ROW auto operator()(index_t x) const { return inner(x + offset); }
};

template <class Row, bool Checked, Edge Along>
struct BoundedRow {
  Row inner;
  bool alive;          ///< the row is inside in all dimensions except its own
  index_t begin, end;  ///< beyond them are images or nothing; without images empty if not alive
  HALOGEN_ROW auto operator()(index_t x) const {
    if constexpr (Checked && has_images(Along)) {
      using T = decltype(inner(x));
      return alive ? inner(begin + image_of(Along, x - begin, end - begin)) : T(0);
    } else if constexpr (Checked) {
      using T = decltype(inner(x));
      return x >= begin && x < end ? inner(x) : T(0);
    } else {
      return inner(x);
    }
  }
};

/// Changes the sign if the point that is read is an odd image, in other dimensions (`negated`) or along the row.
template <class Row, bool Along>
struct OddRow {
  Row inner;
  bool negated;
  index_t begin, end;
  HALOGEN_ROW auto operator()(index_t x) const {
    using T = decltype(inner(x));
    const T value = inner(x);
    return negated != (Along && (x < begin || x >= end)) ? static_cast<T>(-value) : value;
  }
};

/// `other` for the whole row if it is outside, and `own` beyond its ends. If both hold, the value of the first
/// dimension.
template <class Row, class T>
struct FilledRow {
  Row inner;
  bool outside, own_is_first;
  T other, own;
  index_t begin, end;
  HALOGEN_ROW T operator()(index_t x) const {
    if ((x < begin || x >= end) && (own_is_first || !outside)) return own;
    return outside ? other : static_cast<T>(inner(x));
  }
};

template <class B, int Dim, int Offset>
struct BoundShift {
  B inner;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(Position at) const {
    if constexpr (Dim == Axis) {
      return make(inner.template row<Checked, Axis>(at));
    } else {
      at[Dim] += Offset;
      return inner.template row<Checked, Axis>(at);
    }
  }
  template <class Row>
  HALOGEN_ROW static ShiftedRow<Row> make(Row row) {
    return {row, Offset};
  }
  template <class T>
  HALOGEN_ROW static ConstantRow<T> make(ConstantRow<T> row) {
    return row;
  }
};

template <class B, Edge... Edges>
struct BoundBounded {
  static constexpr int rank = sizeof...(Edges);
  B inner;
  index_t begin[rank], end[rank];
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    constexpr Edge edges[rank] = {Edges...};
    bool alive = true;
    if constexpr (Checked)
      for (int d = 0; d < rank; ++d)
        alive = alive && (d == Axis || edges[d] != Edge::zero || (at[d] >= begin[d] && at[d] < end[d]));
    if constexpr (Axis < 0)
      return make<Checked, Edge::periodic>(at, inner_row<Checked, Axis>(at), alive, -Access::far, Access::far);
    else if constexpr (edges[Axis] == Edge::periodic)
      return make<Checked, Edge::periodic, Axis>(at, inner_row<Checked, Axis>(at), alive, -Access::far, Access::far);
    else
      return make<Checked, edges[Axis], Axis>(at, inner_row<Checked, Axis>(at), alive, begin[Axis], end[Axis]);
  }

 private:
  /// The row of `at`, or of its image.
  template <bool Checked, int Axis>
  HALOGEN_ROW auto inner_row(const Position& at) const {
    if constexpr (Checked && (has_images(Edges) || ...)) {
      constexpr Edge edges[rank] = {Edges...};
      Position seen = at;
      for (int d = 0; d < rank; ++d)
        if (d != Axis && has_images(edges[d]))
          seen[d] = begin[d] + image_of(edges[d], at[d] - begin[d], end[d] - begin[d]);
      return inner.template row<Checked, Axis>(seen);
    } else {
      return inner.template row<Checked, Axis>(at);
    }
  }
  template <bool Checked, Edge Along, int Axis = -1, class Row>
  HALOGEN_ROW auto make(const Position& at, Row row, bool alive, index_t first, index_t last) const {
    using Bounded = BoundedRow<Row, Checked, Along>;
    const Bounded bounded{row, alive, first, alive || has_images(Along) ? last : first};
    if constexpr (Checked && ((Edges == Edge::odd) || ...)) {
      constexpr Edge edges[rank] = {Edges...};
      bool negated = false;
      for (int d = 0; d < rank; ++d)
        if (d != Axis && edges[d] == Edge::odd) negated = negated != (at[d] < begin[d] || at[d] >= end[d]);
      return OddRow<Bounded, Along == Edge::odd>{bounded, negated, first, last};
    } else {
      return bounded;
    }
  }
};

/// B, but beyond the ends of `filled` dimensions a constant: the value of the first such dimension.
template <class B, class T, int Rank>
struct BoundFilled {
  B inner;
  T value[Rank];
  bool filled[Rank];
  index_t begin[Rank], end[Rank];
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    if constexpr (Checked)
      return make<Axis>(at, inner.template row<true, Axis>(at));
    else
      return inner.template row<false, Axis>(at);
  }

 private:
  template <int Axis, class Row>
  HALOGEN_ROW FilledRow<Row, T> make(const Position& at, Row row) const {
    FilledRow<Row, T> result{row, false, false, T(0), T(0), -Access::far, Access::far};
    for (int d = Rank - 1; d >= 0; --d) {
      if (!filled[d]) continue;
      if (d == Axis) {
        result.own = value[d], result.begin = begin[d], result.end = end[d];
      } else if (at[d] < begin[d] || at[d] >= end[d]) {
        result.outside = true, result.own_is_first = Axis >= 0 && Axis < d, result.other = value[d];
      }
    }
    return result;
  }
};

template <int Dim>
struct BoundIndex {
  index_t image;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    if constexpr (Dim == Axis)
      return Along{image};
    else
      return ConstantRow<index_t>{at[Dim] + image};
  }
  struct Along {
    index_t image;
    HALOGEN_ROW index_t operator()(index_t x) const { return x + image; }
  };
};

}  // namespace detail
}  // namespace halogen
