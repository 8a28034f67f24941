// The adjoint of a read with Reflect, Odd or ReplicateEdge: a gather, to which the images of points beyond the ends are
// added.
#pragma once

#include "halogen/array/expression/windowed.hpp"

namespace halogen {
namespace detail {

/// The sum over all points i with image(i + S) = j of P(i), odd images with the other sign, along Dim, for a P on a
/// grid of [begin, end).
template <class B, int Dim, int S, Edge E>
struct BoundFolded {
  B inner;
  index_t begin, end;

  template <bool Checked, int Axis>
  KOKKOS_FUNCTION auto row(const Position& at) const {
    if constexpr (Checked)
      return Sum<Axis>{inner, at, begin, end};
    else
      return BoundShift<B, Dim, -S>{inner}.template row<false, Axis>(at);
  }

 private:
  template <int Axis>
  struct Sum {
    B inner;
    Position at;
    index_t begin, end;

    KOKKOS_FUNCTION auto operator()(index_t x) const {
      const index_t j = Dim == Axis ? x : at[Dim];
      constexpr index_t reach = S < 0 ? -S : S;
      const Resample padded{end - begin, end - begin + 2 * reach, false, E};
      const Resample::Images images = padded.images_of(j - begin);
      const Interval& beyond = S < 0 ? images.low : images.high;
      decltype(value(j, x)) sum = 0;
      for (index_t k = beyond.begin - 1; k < beyond.end; ++k) {  // one call: what it inlines may be long
        const index_t i = k < beyond.begin ? j - S : begin + k - reach - S;
        if (i < begin || i >= end) continue;
        const auto share = value(i, x);
        sum += E == Edge::odd && k >= beyond.begin ? -share : share;
      }
      return sum;
    }
    KOKKOS_FUNCTION auto value(index_t i, index_t x) const {
      if constexpr (Dim == Axis) {
        return inner.template row<true, Axis>(at)(i);
      } else {
        Position there = at;
        there[Dim] = i;
        return inner.template row<true, Axis>(there)(x);
      }
    }
  };
};

}  // namespace detail

/// E at index - S along Dim, and beside an end what was read beyond it. `points`: of the grid along Dim.
template <int Dim, int S, Edge Kind, class E>
struct Folded : ExpressionNode<typename E::value_type, typename E::placed> {
  E inner;
  index_t points;
  Folded(E e, index_t count) : inner(std::move(e)), points(count) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }

  index_t extent(int d) const { return inner.extent(d); }
  std::optional<Cut> cut(int d) const { return inner.cut(d); }
  auto bind(const Offsets& image) const {
    return detail::BoundFolded<decltype(inner.bind(image)), Dim, S, Kind>{inner.bind(image), -image[Dim],
                                                                          points - image[Dim]};
  }
  /// Points further from both ends than images lie are a shift; those near them read up to their own index where they
  /// replicate, as far on the other side where they reflect.
  template <class Visit>
  void each_leaf(Access access, Visit&& visit) const {
    constexpr index_t reach = (S < 0 ? -S : S) + 1;
    Access away = access;
    away.offset[Dim] -= reach * access.divisor[Dim];
    away.check_outside(Dim, std::max<index_t>(0, points - 2 * reach));
    access.inside = away.inside;
    constexpr int other = mirrors(Kind) ? S : 0;
    for (int shift = std::min(-S, other); shift <= std::max(-S, other); ++shift) {
      Access read = access;
      read.offset[Dim] += shift * access.divisor[Dim];
      read.read_inside(Dim, points);
      inner.each_leaf(read, visit);
    }
  }
};

}  // namespace halogen
