// A stage of the array language with its gradient: an implicit step of diffusion down each column, as models of ocean
// and atmosphere mix: v - k (v[z - 1] - 2 v[z] + v[z + 1]) = u, without a flux through top and bottom.
#pragma once
#include <halogen/array_language.hpp>

template <class From, class To>
struct SolveColumn {  // Thomas' algorithm; factor: of each level, as elimination leaves it
  From u;
  To v;
  Kokkos::View<double*> factor;
  double k;
  KOKKOS_FUNCTION void operator()(int y, int x) const {
    const int levels = static_cast<int>(u.extent(0));
    for (int z = 0; z < levels; ++z) v(z, y, x) = factor(z) * (u(z, y, x) / k + (z > 0 ? v(z - 1, y, x) : 0));
    for (int z = levels - 2; z >= 0; --z) v(z, y, x) += factor(z) * v(z + 1, y, x);
  }
};

template <class E>
struct ImplicitDiffusion : hg::FieldStage<ImplicitDiffusion<E>, hg::FieldOf<E>> {
  using Source = hg::FieldOf<E>;
  static constexpr const char* text = "implicit diffusion, nothing moves";
  E inner;
  double k;
  ImplicitDiffusion(E e, double mixing) : inner(std::move(e)), k(mixing) {}
  template <class F>
  auto operands(const F& f) const {
    return f(inner);
  }
  hg::index_t extent(int d) const { return inner.extent(d); }
  hg::FieldOf<E> compute() const { return solved(hg::as_field<Source>(inner)); }
  template <class Cotangent, class Gradients>
  void vjp(const Cotangent& cotangent, Gradients& gradients) const {
    hg::add_gradient(inner, solved(cotangent), gradients);  // the matrix is symmetric: the adjoint is the same solve
  }

 private:
  template <class Field>
  Field solved(const Field& u) const {
    if (u.local_extent(0) != u.extent(0))
      throw hg::CollectiveError("implicit_diffusion: the depth is cut: redistribute the field with it whole");
    const Field v(u.shape());
    const auto from = u.to_local(), to = v.to_local();
    Kokkos::View<double*> factor("factor", from.extent(0));
    const auto host = Kokkos::create_mirror_view(factor);
    for (std::size_t z = 0, last = host.extent(0) - 1; z <= last; ++z)
      host(z) = k / (1 + k * (2 - (z == 0) - (z == last)) - k * (z == 0 ? 0 : host(z - 1)));
    Kokkos::deep_copy(factor, host);
    const long height = static_cast<long>(from.extent(1)), width = static_cast<long>(from.extent(2));
    Kokkos::parallel_for("implicit_diffusion", Kokkos::MDRangePolicy<Kokkos::Rank<2>>({0, 0}, {height, width}),
                         SolveColumn<decltype(from), decltype(to)>{from, to, factor, k});
    return v;
  }
};

template <hg::FieldOperand X>
  requires(hg::placed_at<X>::rank == 3)
auto implicit_diffusion(const X& x, double k) {  // x: (depth, height, width); depth is not cut
  return ImplicitDiffusion<hg::expression_of<X>>(hg::as_expression(x), k);
}
