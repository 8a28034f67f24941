// The same points with other dimensions. select, squeeze, unsqueeze and expand are index maps; unflatten and flatten
// are stages. None of them moves a point that the owner of the result already has.
//
//   u placed as                     the result on that mesh dimension
//   Replicate                       Replicate
//   Shard<d>                        the same dimension, as it is counted in the result
//   Shard<D>, unflatten<D>          Shard<D>: the first size is cut; up to inner - 1 points move over a bound
//   Shard<A>, flatten<A, B>         Shard<A>: nothing moves
//   Shard<D>, select or squeeze<D>  refused: a point lies on one rank; redistribute first
//   Shard<d>, flatten, A < d <= B   refused: neighbours of the result would lie on all ranks
#pragma once

#include <limits>
#include <numeric>
#include <string>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/stages/explain_expression.hpp"

namespace halogen {
namespace detail {

/// Positions of a node with one more dimension, at one index of that dimension.
template <class B, int Dim>
struct BoundSelected {
  B inner;
  index_t index;
  template <bool Checked, int Axis>
  HALOGEN_ROW auto row(const Position& at) const {
    Position of{};
    for (int d = 0; d + 1 < max_rank; ++d) of[d < Dim ? d : d + 1] = at[d];
    of[Dim] = index;
    return inner.template row < Checked, Axis >= Dim ? Axis + 1 : Axis > (of);
  }
};

template <class Where, int Dim, int From, int To>
struct reshaped_place;
template <class M, int Rank, int... Codes, int Dim, int From, int To>
struct reshaped_place<Placed<M, Rank, Codes...>, Dim, From, To> {
  using type = Placed<M, Rank + To - From, (Codes >= Dim + From ? Codes + To - From : Codes)...>;
};

/// The first mesh dimension that cuts one of dimensions [First, Last]; -1 for none.
template <class X, int First, int Last>
constexpr int cutting() {
  using Where = placed_at<X>;
  for (std::size_t i = 0; i < Where::codes.size(); ++i)
    if (Where::codes[i] >= First && Where::codes[i] <= Last) return static_cast<int>(i);
  return -1;
}
template <int Dim, class X>
concept HasWhole = HasDimension<Dim, X> && cutting<X, Dim, Dim>() < 0;
template <int Dim, class X>
using WhyNotWhole = why::redistribute_operand<cutting<X, Dim, Dim>(), Shard<Dim>, Replicate>;

}  // namespace detail

/// E at one index of dimension Dim. Dim is not cut. Made by select and squeeze.
template <int Dim, class E>
struct Selected
    : ExpressionNode<typename E::value_type, typename detail::reshaped_place<typename E::placed, Dim, 1, 0>::type> {
  using grid_tag = void;
  E inner;
  index_t index;
  detail::NodeIdentity identity;
  Selected(E e, index_t i) : inner(std::move(e)), index(i) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  static constexpr int source_dimension(int d) { return d < Dim ? d : d + 1; }

  index_t extent(int d) const { return inner.extent(d < Dim ? d : d + 1); }
  std::optional<Cut> cut(int d) const { return inner.cut(d < Dim ? d : d + 1); }
  auto bind(const Offsets& image) const {
    Offsets of{};
    for (std::size_t d = 0; d + 1 < of.size(); ++d) of[d < Dim ? d : d + 1] = image[d];
    of[Dim] = 0;
    return detail::BoundSelected<decltype(inner.bind(of)), Dim>{inner.bind(of), index};
  }
  template <class Visit>
  void each_leaf(const Access& access, Visit&& visit) const {
    Access of = access;
    for (std::size_t d = max_rank - 1; d > Dim; --d) {
      of.source[d] = access.source[d - 1];
      of.scale[d] = access.scale[d - 1];
      of.offset[d] = access.offset[d - 1];
      of.divisor[d] = access.divisor[d - 1];
      of.edge[d] = access.edge[d - 1];
      of.extent[d] = access.extent[d - 1];
    }
    of.fix(Dim, index);
    inner.each_leaf(of, visit);
  }
};

namespace detail {

/// E's dimensions of one point before and after those that change.
template <int Dim, int From, int To>
constexpr unsigned single_reshaped(unsigned single) {
  return (single & ((1u << Dim) - 1u)) | (single >> (Dim + From) << (Dim + To));
}
template <class E, int Dim, int From, int To>
using ReshapedField =
    typename field_with_single<typename E::value_type, typename reshaped_place<typename E::placed, Dim, From, To>::type,
                               single_reshaped<Dim, From, To>(one_point<E>::single)>::type;

}  // namespace detail

/// The points of E with its dimensions [Dim, Dim + From) replaced by To others. Made by flatten (To 1) and unflatten
/// (From 1).
template <class E, int Dim, int From, int To>
struct Reshaped : detail::FieldStage<Reshaped<E, Dim, From, To>, detail::ReshapedField<E, Dim, From, To>> {
  static_assert(From == 1 || To == 1);
  using Source = detail::field_of_t<E>;
  using Result = detail::ReshapedField<E, Dim, From, To>;
  static constexpr const char* text =
      To == 1 ? "flatten, nothing moves" : "unflatten, points beside a bound move where its dimension is cut";
  E inner;
  std::array<index_t, To> sizes;
  Reshaped(E e, const std::array<index_t, To>& s) : inner(std::move(e)), sizes(s) {}

  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }

  index_t extent(int d) const {
    if (d >= Dim && d < Dim + To) return sizes[static_cast<std::size_t>(d - Dim)];
    return detail::stored_extent(inner, d < Dim ? d : d + From - To);
  }

  Result compute() const { return reshaped(detail::materialised<Source>(inner)); }

  Result reshaped(Source source) const;
  /// A field of the result's shape with the dimensions that E has, cut as E.
  template <class Field, class C>
  Field restored(const C& of) const;
};

namespace detail {

/// Points that are consecutive in both of two pieces: rows, or the shorter rows if rows are joined.
template <class T, int From, int To>
struct ReshapePoints {
  StridedView<T, From> from;
  StridedView<T, To> to;
  index_t from_begin[From], from_size[From], to_begin[To], to_size[To];

  KOKKOS_FUNCTION index_t points() const {
    if (!runs_on_host) return 1;
    return from_size[From - 1] < to_size[To - 1] ? from_size[From - 1] : to_size[To - 1];
  }
  index_t items() const {
    index_t all = 1;
    for (int d = 0; d < From; ++d) all *= from_size[d];
    return all == 0 ? 0 : all / points();
  }
  template <int Rank>
  KOKKOS_FUNCTION static T* place(const StridedView<T, Rank>& view, const index_t* begin, const index_t* size,
                                  index_t point) {
    T* place = view.data;
    for (int d = Rank - 1; d >= 0; --d) {
      place += (begin[d] + point % size[d] - view.origin[d]) * view.stride[d];
      point /= size[d];
    }
    return place;
  }
  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t first = item * points();
    copy_row(place<To>(to, to_begin, to_size, first), to.stride[To - 1],
             const_cast<const T*>(place<From>(from, from_begin, from_size, first)), from.stride[From - 1], points());
  }
};

/// Copies points in the order of memory between two fields whose pieces have the same points.
template <class From, class To>
void reshape_pieces(const From& from, const To& to) {
  const execution_space space;
  ReshapePoints<typename From::value_type, From::rank, To::rank> kernel{
      strided_view(from), strided_view(to), {}, {}, {}, {}};
  for (int d = 0; d < From::rank; ++d)
    kernel.from_begin[d] = from.offset(d), kernel.from_size[d] = from.local_extent(d);
  for (int d = 0; d < To::rank; ++d) kernel.to_begin[d] = to.offset(d), kernel.to_size[d] = to.local_extent(d);
  launch_range(space, "halogen::reshape", kernel.items(), kernel);
  space.fence("halogen::reshape");
}

/// The cut whose bounds are those of `cut`, counted in groups of `inner` points.
inline Cut in_groups(const Cut& cut, index_t inner) {
  Cut groups = cut;
  for (index_t& bound : groups.bounds) bound = ceil_div(bound, inner);
  return groups;
}
inline Cut in_points(const Cut& groups, index_t inner) {
  Cut points = groups;
  for (index_t& bound : points.bounds) bound *= inner;
  return points;
}

/// The decomposition of `like` with another cut of dimension d.
template <class Field>
Field recut(const Field& like, int d, const Cut& cut) {
  std::array<Cut, Field::rank> cuts = like.cuts();
  cuts[static_cast<std::size_t>(d)] = cut;
  return Field(Field::make_shape(like.mesh(), cuts), Field::Start::unwritten);
}

}  // namespace detail

template <class E, int Dim, int From, int To>
auto Reshaped<E, Dim, From, To>::reshaped(Source source) const -> Result {
  index_t inner_points = 1;  // points for one index of the first new dimension
  for (int d = 1; d < (To > 1 ? To : From); ++d)
    inner_points *= To > 1 ? sizes[static_cast<std::size_t>(To > 1 ? d : 0)] : source.extent(Dim + d);
  Cut cut = source.cut(Dim);
  if constexpr (To > 1) {
    cut = detail::in_groups(cut, inner_points);
    if (const Cut whole = detail::in_points(cut, inner_points); whole != source.cut(Dim))
      source = redistribute_to(source, detail::recut(source, Dim, whole));
  } else {
    cut = detail::in_points(cut, inner_points);
  }
  std::array<Cut, Result::rank> cuts;
  for (int d = 0; d < Result::rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (d == Dim)
      cuts[i] = cut;
    else if (d > Dim && d < Dim + To)
      cuts[i] = Cut::chunk(sizes[static_cast<std::size_t>(d - Dim)], 1);
    else
      cuts[i] = source.cut(d < Dim ? d : d + From - To);
  }
  const Result result(Result::make_shape(source.mesh(), cuts), Result::Start::unwritten);
  detail::reshape_pieces(source, result);
  return result;
}

template <class E, int Dim, int From, int To>
template <class Field, class C>
Field Reshaped<E, Dim, From, To>::restored(const C& of) const {
  const Field like(detail::shape_of<Field>(inner), Field::Start::unwritten);
  if constexpr (To == 1) {
    detail::reshape_pieces(of, like);
    return like;
  } else {
    const Cut cut = detail::in_points(of.cut(Dim), like.extent(Dim) / of.extent(Dim));
    if (cut == like.cut(Dim)) {
      detail::reshape_pieces(of, like);
      return like;
    }
    const Field whole = detail::recut(like, Dim, cut);
    detail::reshape_pieces(of, whole);
    return redistribute_to(whole, like);
  }
}

namespace detail {

/// Sizes that make up `extent`, one of them perhaps -1.
template <std::size_t Count>
std::array<index_t, Count> sizes_of(int d, index_t extent, std::array<index_t, Count> sizes) {
  index_t product = 1, open = 0;
  std::string text;
  bool fits = true;
  for (const index_t size : sizes) {
    text += (text.empty() ? "" : " x ") + std::to_string(size);
    if (size == -1) {
      ++open;
    } else {
      fits = fits && size >= 1 && size <= std::numeric_limits<index_t>::max() / product;
      product *= fits ? size : 1;
    }
  }
  fits = fits && open <= 1 && (open == 1 ? extent % product == 0 : product == extent);
  if (!fits)
    throw CollectiveError("unflatten of dimension " + std::to_string(d) + " with " + std::to_string(extent) +
                          " points into " + text + ": give sizes whose product is " + std::to_string(extent) +
                          ", one of them perhaps -1");
  for (index_t& size : sizes)
    if (size == -1) size = extent / product;
  return sizes;
}

/// Dimension d of an operand is dimension d of the result, or d + 1 after Dim.
template <int Dim, class E>
auto unsqueezed(const E& e) {
  return [&]<std::size_t... J>(std::index_sequence<J...>) {
    return Mapped<E, E::placed::rank + 1,
                  (static_cast<int>(J) < Dim ? static_cast<int>(J) : static_cast<int>(J) + 1)...>(e);
  }(std::make_index_sequence<static_cast<std::size_t>(E::placed::rank)>{});
}

/// Of an operand that is mapped already: one map, so that its gradient is one sum.
template <int Dim, class E, int Rank, int... Dims>
  requires(Rank > 0)
auto unsqueezed(const Mapped<E, Rank, Dims...>& e) {
  return Mapped<E, Rank + 1, (Dims < Dim ? Dims : Dims + 1)...>(e.inner);
}

}  // namespace detail

/// Index `index` of dimension Dim, as torch.select; a negative index counts from the end. The result has no dimension
/// Dim. Throws CollectiveError if there is no such index.
template <int Dim, FieldOperand X>
  requires detail::HasWhole<Dim, X>
auto select(const X& x, index_t index) {
  const auto inner = as_expression(x);
  const index_t extent = detail::stored_extent(inner, Dim);
  if (index < -extent || index >= extent)
    throw CollectiveError("select of index " + std::to_string(index) + " of dimension " + std::to_string(Dim) +
                          " with " + std::to_string(extent) + " points: give " + std::to_string(-extent) + ".." +
                          std::to_string(extent - 1));
  return Selected<Dim, expression_of<X>>(inner, index < 0 ? index + extent : index);
}
/// Removes dimension Dim of one point, as torch.squeeze. Throws CollectiveError if it has more.
template <int Dim, FieldOperand X>
  requires detail::HasWhole<Dim, X>
auto squeeze(const X& x) {
  const auto inner = as_expression(x);
  if (detail::stored_extent(inner, Dim) != 1)
    throw CollectiveError("squeeze of dimension " + std::to_string(Dim) + " with " + std::to_string(inner.extent(Dim)) +
                          " points: it must have 1; select one of them");
  return Selected<Dim, expression_of<X>>(inner, 0);
}
/// Adds a dimension Dim of one point, which fits any extent of the other operands, as torch.unsqueeze.
template <int Dim, FieldOperand X>
  requires(Dim >= 0 && Dim <= placed_at<X>::rank)
auto unsqueeze(const X& x) {
  return detail::unsqueezed<Dim>(as_expression(x));
}
/// Lets dimensions Dims of one point fit any extent of the other operands, as torch.expand. Throws CollectiveError if
/// one has more points.
template <int... Dims, FieldOperand X>
  requires(sizeof...(Dims) > 0 && (detail::HasWhole<Dims, X> && ...))
auto expand(const X& x) {
  const auto inner = as_expression(x);
  for (const int d : {Dims...})
    if (detail::stored_extent(inner, d) != 1)
      throw CollectiveError("expand of dimension " + std::to_string(d) + " with " + std::to_string(inner.extent(d)) +
                            " points: it must have 1; repeat points by concatenate");
  return Broadcast<expression_of<X>, ((1u << Dims) | ...)>(inner);
}

/// Splits dimension Dim into dimensions of `sizes`, as torch.unflatten; one size may be -1. If Dim is cut, the first
/// new dimension is cut at the bounds of Dim, rounded up to whole groups. Throws CollectiveError if the product of the
/// sizes is not the extent.
template <int Dim, FieldOperand X, class... Sizes>
  requires(detail::HasDimension<Dim, X> && sizeof...(Sizes) > 1 && (std::is_integral_v<Sizes> && ...))
auto unflatten(const X& x, Sizes... sizes) {
  const auto inner = as_expression(x);
  constexpr int count = static_cast<int>(sizeof...(Sizes));
  return Reshaped<expression_of<X>, Dim, 1, count>(
      inner, detail::sizes_of<sizeof...(Sizes)>(Dim, detail::stored_extent(inner, Dim),
                                                std::array<index_t, sizeof...(Sizes)>{static_cast<index_t>(sizes)...}));
}

/// Joins dimensions First to Last, as torch.flatten. Only First may be cut.
template <int First, int Last, FieldOperand X>
  requires(detail::HasDimension<First, X> && detail::HasDimension<Last, X> && First < Last &&
           detail::cutting<X, First + 1, Last>() < 0)
auto flatten(const X& x) {
  const auto inner = as_expression(x);
  index_t points = 1;
  for (int d = First; d <= Last; ++d) points *= detail::stored_extent(inner, d);
  return Reshaped<expression_of<X>, First, Last - First + 1, 1>(inner, {points});
}

template <int Dim, FieldOperand X, class Why = detail::WhyNotWhole<Dim, X>>
  requires(detail::HasDimension<Dim, X> && !detail::HasWhole<Dim, X>)
void select(const X& x, index_t index) = delete;
template <int Dim, FieldOperand X, class Why = detail::WhyNotWhole<Dim, X>>
  requires(detail::HasDimension<Dim, X> && !detail::HasWhole<Dim, X>)
void squeeze(const X& x) = delete;
template <int Dim, FieldOperand X, class Why = detail::WhyNotWhole<Dim, X>>
  requires(detail::HasDimension<Dim, X> && !detail::HasWhole<Dim, X>)
void expand(const X& x) = delete;
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void select(const X& x, index_t index) = delete;
template <int Dim, FieldOperand X, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void squeeze(const X& x) = delete;
template <int Dim, FieldOperand X, class... Sizes, class Why = why::no_such_dimension<Dim, placed_at<X>::rank>>
  requires(!detail::HasDimension<Dim, X>)
void unflatten(const X& x, Sizes... sizes) = delete;
template <int First, int Last, FieldOperand X,
          class Why = why::flattened_dimension_is_cut<detail::cutting<X, First + 1, Last>(), First>>
  requires(detail::HasDimension<First, X> && detail::HasDimension<Last, X> && First < Last &&
           detail::cutting<X, First + 1, Last>() >= 0)
void flatten(const X& x) = delete;

}  // namespace halogen
