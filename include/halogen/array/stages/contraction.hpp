// matmul and einsum of two operands. Placements: contraction_spec.hpp. Nothing moves. A Partial result is not yet
// summed over ranks: redistribute<Target>(matmul(a, b)) sums it and is an expression like any other.
//
//   Field c = hg::matmul(a, b);                                    // (M, K) x (K, N) -> (M, N), K whole
//   Field c = hg::redistribute<Field>(hg::matmul(a, b));           // K cut: one all_reduce or reduce_scatter
//   Field d = hg::einsum<"nchw,dc->ndhw">(u, mixing);
//
// Computed in the value type (double if operands are, integers in 64 bits, bfloat16 in float), each result in one
// order.
#pragma once

#include <string>
#include <tuple>

#include "halogen/array/evaluate/redistributed.hpp"
#include "halogen/array/evaluate/stored.hpp"
#include "halogen/array/stages/contraction_spec.hpp"
#include "halogen/array/stages/explain_expression.hpp"
#include "halogen/kernels/training/contraction.hpp"

namespace halogen {
namespace detail {

/// The type in which products are computed and stored.
template <class A, class B>
using product_type =
    std::conditional_t<std::is_integral_v<std::common_type_t<A, B>>, std::int64_t, std::common_type_t<A, B>>;

template <class Spec, class A, class B>
struct contracted_place;
template <class Spec, class M, int R, int... C, int S, int... D>
struct contracted_place<Spec, Placed<M, R, C...>, Placed<M, S, D...>> {
  using type = Placed<M, ContractionSpec::rank(Spec::value.result), contracted_code(Spec::value, C, D)...>;
};
/// The field that a contraction makes of its operands with their placements. It is Partial if a summed index is cut.
template <class Spec, class T, class A, class B>
using contracted_field = typename field_of<T, typename contracted_place<Spec, A, B>::type>::type;

/// Letters of Spec in all three (kind 0), in the first operand and the result (1), in the second operand and the result
/// (2), or only in the operands (3).
constexpr int letter_kind(const ContractionSpec& spec, char letter) {
  if (spec.position(spec.result, letter) < 0) return 3;
  if (spec.position(spec.first, letter) < 0) return 2;
  return spec.position(spec.second, letter) < 0 ? 1 : 0;
}
constexpr int letters_of_kind(const ContractionSpec& spec, int kind) {
  int count = 0;
  for (int d = 0; spec.result[d] != 0; ++d) count += letter_kind(spec, spec.result[d]) == kind;
  for (int d = 0; spec.first[d] != 0; ++d) count += kind == 3 && letter_kind(spec, spec.first[d]) == 3;
  return count;
}

/// Strides of a field along letters, and its first own point.
template <class Field>
struct LetteredField {
  StridedView<typename Field::value_type, Field::rank> view;
  const Field& field;
  const char (&letters)[max_rank + 1];

  LetteredField(const Field& f, const char (&l)[max_rank + 1]) : view(strided_view(f)), field(f), letters(l) {}
  auto* first() const {
    auto* first = view.data;
    for (int d = 0; d < Field::rank; ++d) first += (field.offset(d) - view.origin[d]) * view.stride[d];
    return first;
  }
  index_t stride(char letter) const {
    const int d = ContractionSpec::position(letters, letter);
    return d < 0 ? 0 : view.stride[d];
  }
};

/// The loops over letters of one kind, in the order of the result; for summed letters, in the order of the first
/// operand.
template <int Kind, int Count, class A, class B, class C>
kernels::ContractionLoops<Count> contraction_loops(const ContractionSpec& spec, const A& a, const B& b, const C& c) {
  kernels::ContractionLoops<Count> loops;
  int i = 0;
  const auto add = [&](const char(&letters)[max_rank + 1], const auto& field) {
    for (int d = 0; letters[d] != 0; ++d)
      if (letter_kind(spec, letters[d]) == Kind) {
        loops.size[i] = field.local_extent(d);
        loops.a[i] = a.stride(letters[d]);
        loops.b[i] = b.stride(letters[d]);
        loops.c[i++] = c.stride(letters[d]);
      }
  };
  if constexpr (Kind == 3)
    add(spec.first, a.field);
  else
    add(spec.result, c.field);
  return loops;
}

/// Throws CollectiveError if operands differ in a letter's extent or cut, or are on different meshes.
template <class A, class B>
void check_contraction(const ContractionSpec& spec, const A& a, const B& b) {
  if (!(a.mesh().world() == b.mesh().world()) || a.mesh().extents() != b.mesh().extents())
    throw CollectiveError("the operands of a product lie on different meshes: distribute them on one");
  for (int d = 0; d < A::rank; ++d) {
    const int e = spec.position(spec.second, spec.first[d]);
    if (e >= 0 && a.cut(d).parts() > 1 && a.cut(d) != b.cut(e))
      throw CollectiveError("a product's operands are cut differently in dimension " + std::to_string(d) +
                            " of the first and " + std::to_string(e) + " of the second, of " +
                            std::to_string(a.extent(d)) + " points: redistribute one to the other's cuts");
  }
}

/// The product of two fields with their placements. Where one of them is a cotangent that is 0, it adds nothing.
template <class Spec, class A, class B>
auto contracted(const A& a, const B& b, kernels::Cotangent cotangent = kernels::Cotangent::none) {
  using T = typename A::value_type;
  using Result = contracted_field<Spec, T, typename FieldLeaf<A>::placed, typename FieldLeaf<B>::placed>;
  check_contraction(Spec::value, a, b);
  std::array<Cut, Result::rank> cuts;
  for (int d = 0; d < Result::rank; ++d) {
    const int first = Spec::value.position(Spec::value.first, Spec::value.result[d]),
              second = Spec::value.position(Spec::value.second, Spec::value.result[d]);
    cuts[static_cast<std::size_t>(d)] = first >= 0 ? a.cut(first) : b.cut(second);
  }
  const Result result(Result::make_shape(a.mesh(), cuts), Result::Start::unwritten);
  const LetteredField<A> from_a(a, Spec::value.first);
  const LetteredField<B> from_b(b, Spec::value.second);
  const LetteredField<Result> to(result, Spec::value.result);
  constexpr int samples = letters_of_kind(Spec::value, 0), rows = letters_of_kind(Spec::value, 1),
                columns = letters_of_kind(Spec::value, 2), summed = letters_of_kind(Spec::value, 3);
  const kernels::Contraction<T, runs_on_host, samples, rows, columns, summed> kernel{
      from_a.first(),
      from_b.first(),
      to.first(),
      contraction_loops<0, samples>(Spec::value, from_a, from_b, to),
      contraction_loops<1, rows>(Spec::value, from_a, from_b, to),
      contraction_loops<2, columns>(Spec::value, from_a, from_b, to),
      contraction_loops<3, summed>(Spec::value, from_a, from_b, to),
      cotangent};
  const execution_space space;
  launch_range(space, "halogen::product", kernel.items(), kernel);
  space.fence("halogen::product");
  return result;
}

/// An operand as a field of T: the operand itself if it is one, else a field that is computed now.
template <class T, class E>
auto product_operand(const E& e) {
  if constexpr (requires { e.inner.field; }) {
    if constexpr (std::is_same_v<typename std::decay_t<decltype(e.inner.field)>::value_type, T>)
      return e.inner.field;
    else
      return materialised<field_of_t<E, T>>(e);
  } else {
    return materialised<field_of_t<E, T>>(e);
  }
}

template <class Spec, class A, class B>
std::tuple<A, B> checked_operands(const A& a, const B& b) {
  static_assert(
      Spec::value.is_product(),
      "einsum takes letters as in \"ij,jk->ik\": each once in an operand, and in two of the three at least; sum "
      "an operand's own dimensions by sum<D> before, and to one number by dot");
  for (int d = 0; d < A::placed::rank; ++d) {
    const int e = Spec::value.position(Spec::value.second, Spec::value.first[d]);
    if (e >= 0 && stored_extent(a, d) != stored_extent(b, e))
      throw CollectiveError("a product's operands have " + std::to_string(stored_extent(a, d)) +
                            " points in dimension " + std::to_string(d) + " of the first and " +
                            std::to_string(stored_extent(b, e)) + " in dimension " + std::to_string(e) +
                            " of the second: they must be equal");
  }
  return {a, b};
}

/// Whether an operand is a sum that is still due, which its leaf says.
template <class X>
constexpr bool is_summands() {
  return PartialOperand<X> || first_partial<X>() >= 0;
}
template <class Spec, class X, class Y>
constexpr auto why_no_product() {
  using A = placed_at<X>;
  using B = placed_at<Y>;
  if constexpr (is_summands<X>() || is_summands<Y>()) {
  } else if constexpr (std::is_same_v<A, NotPlaced> || std::is_same_v<B, NotPlaced>) {
    return why::operands_differ_in_rank<0, 0>{};
  } else if constexpr (Spec::value.is_valid && A::rank != Spec::value.rank(Spec::value.first)) {
    return why::operands_differ_in_rank<Spec::value.rank(Spec::value.first), A::rank>{};
  } else if constexpr (Spec::value.is_valid && B::rank != Spec::value.rank(Spec::value.second)) {
    return why::operands_differ_in_rank<Spec::value.rank(Spec::value.second), B::rank>{};
  } else if constexpr (A::codes.size() != B::codes.size()) {
    return why::operands_differ_in_rank<static_cast<int>(A::codes.size()), static_cast<int>(B::codes.size())>{};
  } else {
    constexpr ContractionMisfit misfit = contraction_misfit(Spec::value, A::codes, B::codes);
    if constexpr (misfit.mesh_dimension >= 0)
      return why::redistribute_operand<misfit.mesh_dimension, typename placement_of<misfit.have>::type,
                                       typename placement_of<misfit.to>::type>{};
  }
}
template <class Spec, class X, class Y>
using WhyNoProduct = decltype(why_no_product<Spec, X, Y>());
template <class Spec, class X, class Y>
concept Contracts = FieldOperand<X> && FieldOperand<Y> && std::is_void_v<WhyNoProduct<Spec, X, Y>>;

template <class X, class Y>
using matmul_of = MatrixProduct<placed_at<X>::rank, placed_at<Y>::rank>;

}  // namespace detail

/// The product of A and B, summed and placed as Target. Computed once per evaluation.
template <class Spec, class Target, class A, class B>
struct Contraction : detail::FieldStage<Contraction<Spec, Target, A, B>, Target> {
  using Result = Target;
  using T = detail::product_type<typename A::value_type, typename B::value_type>;
  static_assert(std::is_same_v<typename Target::value_type, T>,
                "a product is redistributed to a field of its own value type; cast the sum");
  static constexpr const char* text = "product, summed over ranks where an index is cut that the result lacks";
  std::tuple<A, B> parts;
  explicit Contraction(std::tuple<A, B> operands) : parts(std::move(operands)) {}

  index_t extent(int d) const {
    const int first = Spec::value.position(Spec::value.first, Spec::value.result[d]),
              second = Spec::value.position(Spec::value.second, Spec::value.result[d]);
    return first >= 0 ? detail::stored_extent(std::get<0>(parts), first)
                      : detail::stored_extent(std::get<1>(parts), second);
  }
  template <class Operand>
  using SourceOf = decltype(detail::product_operand<T>(std::declval<const Operand&>()));
  template <class F>
  auto operands(const F& f) const {
    return std::apply(f, parts);
  }

  Target compute() const {
    const auto product = detail::contracted<Spec>(detail::product_operand<T>(std::get<0>(parts)),
                                                  detail::product_operand<T>(std::get<1>(parts)));
    if constexpr (std::is_same_v<std::decay_t<decltype(product)>, Target>)
      return product;
    else
      return redistribute<Target>(product);
  }
};

/// A product that is not yet summed over ranks. redistribute<Target> makes it an expression. It can be assigned to a
/// Partial field directly.
template <class Spec, class A, class B>
struct PartialProduct {
  using partial_product_tag = void;
  using value_type = detail::product_type<typename A::value_type, typename B::value_type>;
  using T = value_type;
  using Result = detail::contracted_field<Spec, T, typename A::placed, typename B::placed>;
  std::tuple<A, B> parts;

  operator Result() const {  // NOLINT: implicit, as Field v = u + 1
    const detail::EvaluationScope scope;
    return detail::contracted<Spec>(detail::product_operand<T>(std::get<0>(parts)),
                                    detail::product_operand<T>(std::get<1>(parts)));
  }
  template <class Field, class Why = why::input_is_partial<detail::first_partial<Result>()>>
    requires is_sharded<Field>
  operator Field() const = delete;  // write redistribute<Field>(product)
  template <class Target>
  auto placed_as() const {
    return Contraction<Spec, Target, A, B>(parts);
  }
};

/// The sum of a partial product with the placements of Target: one all_reduce, or one reduce_scatter if Target is cut.
template <class Target, class Product>
  requires PartialOperand<Product>
auto redistribute(const Product& product) {
  return product.template placed_as<Target>();
}

namespace detail {

template <class Spec, class X, class Y>
auto product(const X& x, const Y& y) {
  using T = product_type<typename expression_of<X>::value_type, typename expression_of<Y>::value_type>;
  using A = held_t<T, expression_of<X>>;
  using B = held_t<T, expression_of<Y>>;
  using Field = contracted_field<Spec, T, typename A::placed, typename B::placed>;
  auto parts = checked_operands<Spec>(held<T>(as_expression(x)), held<T>(as_expression(y)));
  if constexpr (first_partial<Field>() >= 0)
    return PartialProduct<Spec, A, B>{std::move(parts)};
  else
    return Contraction<Spec, Field, A, B>(std::move(parts));
}

}  // namespace detail

/// einsum<"ij,jk->ik">(a, b): letters name dimensions; letters that the result lacks are summed over. It is collective
/// if its operands are. A sum over ranks is made only by redistribute. Throws CollectiveError if a letter has two
/// extents.
template <fixed_string Letters, FieldOperand X, FieldOperand Y>
  requires detail::Contracts<detail::Spelled<Letters>, X, Y>
auto einsum(const X& x, const Y& y) {
  detail::require_made("einsum", x, y);
  return detail::product<detail::Spelled<Letters>>(x, y);
}
template <fixed_string Letters, FieldOperand X, FieldOperand Y,
          class Why = detail::WhyNoProduct<detail::Spelled<Letters>, X, Y>>
  requires(!detail::Contracts<detail::Spelled<Letters>, X, Y>)
void einsum(const X& x, const Y& y) = delete;

/// The product of matrices (.., M, K) and (.., K, N), or vectors (K) on either side, as torch.matmul. The dimensions
/// before count samples; an operand may lack them. For two vectors use dot.
template <FieldOperand X, FieldOperand Y>
  requires detail::Contracts<detail::matmul_of<X, Y>, X, Y>
auto matmul(const X& x, const Y& y) {
  detail::require_made("matmul", x, y);
  return detail::product<detail::matmul_of<X, Y>>(x, y);
}
template <FieldOperand X, FieldOperand Y, class Why = detail::WhyNoProduct<detail::matmul_of<X, Y>, X, Y>>
  requires(!detail::Contracts<detail::matmul_of<X, Y>, X, Y>)
void matmul(const X& x, const Y& y) = delete;

}  // namespace halogen
