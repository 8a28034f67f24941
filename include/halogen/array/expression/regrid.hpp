// Nodes whose grid differs from their operand's: slice, pad, permute, transpose, along. They change index maps and move
// no data. Points that a kernel then needs from other ranks are part of its one halo exchange.
#pragma once

#include <string>

#include "halogen/array/expression/functions.hpp"

namespace halogen {
namespace detail {

template <class Row, bool Strided>
struct ReslicedRow {
  Row inner;
  index_t begin, step;
  HALOGEN_ROW auto operator()(index_t x) const { return inner(Strided ? x * step + begin : x + begin); }
};

template <class B, int Dim, bool Strided>
struct BoundResliced {
  B inner;
  index_t begin, step;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(Position at) const {
    if constexpr (Dim == Axis) {
      return make(inner.template row<Checked, Axis>(at));
    } else {
      at[Dim] = at[Dim] * step + begin;
      return inner.template row<Checked, Axis>(at);
    }
  }
  template <class Row>
  HALOGEN_ROW ReslicedRow<Row, Strided> make(Row row) const {
    return {row, begin, step};
  }
};

template <class Row>
struct SpreadRow {
  Row inner;
  bool alive;
  index_t begin, step;  ///< step 0: the row does not run along the spread dimension
  HALOGEN_ROW auto operator()(index_t x) const {
    using T = decltype(inner(x));
    if (step == 0) return alive ? inner(x) : T(0);
    return floor_mod(x - begin, step) == 0 ? inner(floor_div(x - begin, step)) : T(0);
  }
};

template <class B, int Dim>
struct BoundSpread {
  B inner;
  index_t begin, step;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(Position at) const {
    if constexpr (Dim == Axis) {
      return make(inner.template row<Checked, Axis>(at), true, step);
    } else {
      const bool alive = floor_mod(at[Dim] - begin, step) == 0;
      at[Dim] = floor_div(at[Dim] - begin, step);
      return make(inner.template row<Checked, Axis>(at), alive, 0);
    }
  }
  template <class Row>
  HALOGEN_ROW SpreadRow<Row> make(Row row, bool alive, index_t row_step) const {
    return {row, alive, begin, row_step};
  }
};

/// The inner dimension of dimension Axis of the outer grid; -1 if it is none of Dims.
template <int Axis, int... Dims>
HALOGEN_FUNCTION constexpr int inner_axis() {
  const int dims[] = {Dims...};
  for (int j = 0; j < static_cast<int>(sizeof...(Dims)); ++j)
    if (dims[j] == Axis) return j;
  return -1;
}

/// Position and axis of an inner node whose dimension j is dimension Dims[j] of the outer node.
template <class B, int... Dims>
struct BoundMapped {
  B inner;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    constexpr int dims[] = {Dims...};
    constexpr int axis = inner_axis<Axis, Dims...>();
    Position mapped{};
    for (int j = 0; j < static_cast<int>(sizeof...(Dims)); ++j) mapped[j] = at[dims[j]];
    return inner.template row<Checked, axis>(mapped);
  }
};

template <int... Dims>
constexpr bool all_differ() {
  const int dims[] = {Dims..., -1};
  for (std::size_t i = 0; i < sizeof...(Dims); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (dims[i] == dims[j]) return false;
  return true;
}

/// The placement code in the outer grid for a code in the inner grid.
template <int Code, int... Dims>
constexpr int place_code() {
  const int dims[] = {Dims...};
  return Code >= 0 ? dims[Code < 0 ? 0 : Code] : any_code;
}

template <class Where, int Rank, class Dims>
struct place_along;
template <class M, int R, int... Codes, int Rank, int... Dims>
struct place_along<Placed<M, R, Codes...>, Rank, std::integer_sequence<int, Dims...>> {
  using type = Placed<M, Rank, place_code<Codes, Dims...>()...>;
};

/// Shared by slice and pad: the cut of a grid of `count` points. Its i-th point is point begin + i * step of another
/// grid.
inline Cut resliced(const Cut& cut, index_t begin, index_t step, index_t count) {
  Cut result = cut;
  for (index_t& bound : result.bounds) bound = std::clamp<index_t>(ceil_div(bound - begin, step), 0, count);
  result.bounds.front() = 0;
  result.bounds.back() = count;
  return result;
}

}  // namespace detail

/// `count` points of E along Dim, starting at `begin`, `step` apart. Made by slice and pad.
template <int Dim, class E, bool Strided>
struct Resliced : ExpressionNode<typename E::value_type, typename E::placed> {
  using grid_tag = void;
  E inner;
  index_t begin, step, count;
  detail::NodeIdentity identity;
  Resliced(E e, index_t first, index_t stride, index_t points)
      : inner(std::move(e)), begin(first), step(stride), count(points) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  static constexpr int source_dimension(int d) { return d == Dim ? detail::own_points : d; }

  index_t extent(int d) const { return d == Dim ? count : inner.extent(d); }
  std::optional<Cut> cut(int d) const {
    const std::optional<Cut> cut = inner.cut(d);
    return d == Dim && cut ? detail::resliced(*cut, begin, step, count) : cut;
  }
  auto bind(Offsets image) const {
    image[Dim] *= step;
    return detail::BoundResliced<decltype(inner.bind(image)), Dim, Strided>{inner.bind(image), begin, step};
  }
  template <class Visit>
  void each_leaf(Access access, Visit&& visit) const {
    // A slice of a spread does not occur: only gradients spread, and they read the result directly.
    access.scale[Dim] *= step;
    access.offset[Dim] = access.offset[Dim] * step + begin * access.divisor[Dim];
    access.regridded = true;
    inner.each_leaf(access, visit);
  }
};

/// A grid of `count` points with E at begin, begin + step, ... along Dim and 0 elsewhere: the adjoint of a slice.
template <int Dim, class E>
struct Spread : ExpressionNode<typename E::value_type, typename E::placed> {
  using grid_tag = void;
  E inner;
  index_t begin, step, count;
  Spread(E e, index_t first, index_t stride, index_t points)
      : inner(std::move(e)), begin(first), step(stride), count(points) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  static constexpr int source_dimension(int d) { return d == Dim ? detail::own_points : d; }

  index_t extent(int d) const { return d == Dim ? count : inner.extent(d); }
  std::optional<Cut> cut(int d) const { return d == Dim ? std::nullopt : inner.cut(d); }
  auto bind(const Offsets& image) const {
    return detail::BoundSpread<decltype(inner.bind(image)), Dim>{inner.bind(image), begin, step};
  }
  template <class Visit>
  void each_leaf(Access access, Visit&& visit) const {
    access.offset[Dim] -= begin * access.divisor[Dim];
    access.divisor[Dim] *= step;
    access.regridded = true;
    inner.each_leaf(access, visit);
  }
};

/// E on a grid of Rank dimensions (-n: as many as the other operands have, at least n). Dimension j of E is dimension
/// Dims[j] of the grid. E is constant along the others. Made by along (some others) and permute (none).
template <class E, int Rank, int... Dims>
struct Mapped
    : ExpressionNode<typename E::value_type, typename detail::place_along<typename E::placed, Rank,
                                                                          std::integer_sequence<int, Dims...>>::type> {
  static constexpr std::array<int, sizeof...(Dims)> dims{Dims...};
  static constexpr bool is_transparent = true;
  E inner;
  detail::NodeIdentity identity;
  explicit Mapped(E e) : inner(std::move(e)) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  template <class Other>
  auto with_operands(Other other) const {
    return Mapped<Other, Rank, Dims...>(std::move(other));
  }
  void sign(detail::Signature&) const {}
  static constexpr int source_dimension(int d) {
    if (Rank <= 0 || d >= Rank) return detail::own_points;  // its partners say how many dimensions there are
    return inner_dimension(d) < 0 ? detail::same_points : inner_dimension(d);
  }

  static constexpr int inner_dimension(int d) {
    for (std::size_t j = 0; j < dims.size(); ++j)
      if (dims[j] == d) return static_cast<int>(j);
    return -1;
  }
  index_t extent(int d) const { return inner_dimension(d) < 0 ? -1 : inner.extent(inner_dimension(d)); }
  /// A dimension that is not cut here may be cut in the other operands, so any cut fits.
  std::optional<Cut> cut(int d) const {
    const std::optional<Cut> cut = inner_dimension(d) < 0 ? std::nullopt : inner.cut(inner_dimension(d));
    return cut && cut->parts() > 1 ? cut : std::nullopt;
  }
  auto bind(const Offsets& image) const {
    Offsets mapped{};
    for (std::size_t j = 0; j < dims.size(); ++j) mapped[j] = image[static_cast<std::size_t>(dims[j])];
    return detail::BoundMapped<decltype(inner.bind(mapped)), Dims...>{inner.bind(mapped)};
  }
  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    Access mapped;
    mapped.regridded = access.regridded;
    mapped.inside = access.inside;
    mapped.reading = access.reading;
    for (std::size_t j = 0; j < dims.size(); ++j) {
      const auto d = static_cast<std::size_t>(dims[j]);
      mapped.source[j] = access.source[d];
      mapped.scale[j] = access.scale[d];
      mapped.offset[j] = access.offset[d];
      mapped.divisor[j] = access.divisor[d];
      mapped.edge[j] = access.edge[d];
      mapped.extent[j] = access.extent[d];
    }
    inner.each_leaf(mapped, visit);
  }
};

namespace detail {

template <int Dim, class X>
concept HasDimension = FieldOperand<X> && (Dim >= 0 && Dim < placed_at<X>::rank);

/// Throws CollectiveError for a dimension that has no extent.
template <class E>
void check_closed(const E& e, int d, const char* what) {
  if (e.extent(d) < 0)
    throw CollectiveError(std::string(what) + " of dimension " + std::to_string(d) +
                          ", which keep_dimensions or along left to fit any extent: assign the expression to a field "
                          "first, where it has 1 point");
}

template <int Dim, bool Strided, class X>
auto make_slice(const X& x, index_t begin, index_t end, index_t step) {
  const auto inner = as_expression(x);
  check_closed(inner, Dim, "slice");
  if (begin < 0 || end > inner.extent(Dim) || begin >= end || step < 1)
    throw CollectiveError(
        "slice [" + std::to_string(begin) + ", " + std::to_string(end) + ") with step " + std::to_string(step) +
        " of dimension " + std::to_string(Dim) + " with " + std::to_string(inner.extent(Dim)) +
        " points: give 0 <= begin < end <= " + std::to_string(inner.extent(Dim)) + " and a step of 1 or more");
  return Resliced<Dim, expression_of<X>, Strided>(inner, begin, step, ceil_div(end - begin, step));
}

}  // namespace detail

/// Points [begin, end) of dimension Dim, as u[begin:end] in PyTorch. A point stays on its rank: a field made from the
/// slice has derived cuts, and nothing moves. Together with other operands the slice is read through a halo. Throws
/// CollectiveError if the range leaves the field.
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto slice(const X& x, index_t begin, index_t end) {
  return detail::make_slice<Dim, false>(x, begin, end, 1);
}
/// The same with a step, as u[begin:end:step].
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto slice(const X& x, index_t begin, index_t end, index_t step) {
  return detail::make_slice<Dim, true>(x, begin, end, step);
}
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void slice(const X& x, index_t begin, index_t end, index_t step = 1) = delete;

/// `before` and `after` zeros at the ends of dimension Dim, as torch.nn.functional.pad. From points to the faces
/// between them: pad<D>(h, 1, 0) and pad<D>(h, 0, 1) are the points on either side of N + 1 faces.
template <int Dim, FieldOperand X>
  requires detail::HasDimension<Dim, X>
auto pad(const X& x, index_t before, index_t after) {
  const auto inner = detail::zero_bounded(as_expression(x));
  detail::check_closed(inner, Dim, "pad");
  if (before < 0 || after < 0 || before > detail::most_bytes || after > detail::most_bytes)
    throw CollectiveError("pad by " + std::to_string(before) + " and " + std::to_string(after) +
                          " points of dimension " + std::to_string(Dim) +
                          ": give 0 or more, at most 2^60; slice takes points away");
  return Resliced<Dim, std::decay_t<decltype(inner)>, false>(inner, -before, 1, inner.extent(Dim) + before + after);
}
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void pad(const X& x, index_t before, index_t after) = delete;

/// Dimension d of the result is dimension Dims[d] of x, as torch.permute. Nothing moves: Shard<Dims[d]> becomes
/// Shard<d>.
template <int... Dims, FieldOperand X>
  requires(sizeof...(Dims) == placed_at<X>::rank)
auto permute(const X& x) {
  // Mapped takes the inverse: the place of the operand's dimension j in the result.
  return [&]<std::size_t... J>(std::index_sequence<J...>) {
    static_assert(((detail::inner_axis<static_cast<int>(J), Dims...>() >= 0) && ...),
                  "permute names every dimension of its operand once");
    return Mapped<expression_of<X>, static_cast<int>(sizeof...(Dims)),
                  detail::inner_axis<static_cast<int>(J), Dims...>()...>(as_expression(x));
  }(std::make_index_sequence<sizeof...(Dims)>{});
}

/// Dimensions A and B exchanged, as torch.transpose.
template <int A, int B, FieldOperand X>
  requires(detail::HasDimension<A, X> && detail::HasDimension<B, X>)
auto transpose(const X& x) {
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return permute<(static_cast<int>(D) == A ? B : static_cast<int>(D) == B ? A : static_cast<int>(D))...>(x);
  }(std::make_index_sequence<placed_at<X>::rank>{});
}
template <int A, int B, FieldOperand X,
          class Why = why::no_such_dimension<(detail::HasDimension<A, X> ? B : A), placed_at<X>::rank>>
  requires(!detail::HasDimension<A, X> || !detail::HasDimension<B, X>)
void transpose(const X& x) = delete;

/// x along dimensions Dims of the other operands, constant along all other dimensions: u * along<1>(v) scales the
/// columns of u by a vector v. Along a mesh dimension that cuts u in a dimension that v does not have, v must be
/// Replicate.
template <int... Dims, FieldOperand X>
  requires(sizeof...(Dims) == placed_at<X>::rank)
auto along(const X& x) {
  static_assert(((Dims >= 0 && Dims < max_rank) && ...), "along names dimensions of its partners");
  static_assert(detail::all_differ<Dims...>(), "along names each dimension of its partners once");
  constexpr int least = std::max({1, Dims + 1 ...});
  return Mapped<expression_of<X>, -least, Dims...>(as_expression(x));
}

}  // namespace halogen
