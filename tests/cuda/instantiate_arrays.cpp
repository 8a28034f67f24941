// The array language, attention, and whatever moves fields. It reads no layer, so that a layer's change does not
// compile it.
#include <cstdio>
#include <halogen/array_language.hpp>
#include <vector>

namespace instantiate {

void step_fields(const hg::Environment& env);  // as in instantiate.hpp

namespace {

/// A stencil of declared neighbours, differentiated by dual numbers.
struct Upwind {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<0, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T west, T east) const {
    return centre > T(0) ? centre * (centre - west) : centre * (east - centre);
  }
};

/// The array language: stencils, index maps, stages, deep halos, two-byte storage, gradients.
void step_a_field(const hg::Environment& env) {
  using Grid = hg::Mesh<"height", "width">;
  using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});
  auto u = hg::distribute_tensor<Plane>(mesh, {16, 24}, std::vector<float>(16 * 24, 1.f));
  const auto step = [](auto v) { return v + 0.1f * (hg::shift<0, 1>(v) + hg::shift<1, -1>(v) - 2.f * v); };
  u = step(hg::with_boundary<hg::Zero, hg::Periodic>(u));
  u = u / hg::max(u);
  auto [loss, du] = hg::value_and_grad([&](auto v) { return hg::dot(hg::shift<0, 1>(v), u); })(u);
  const double slope = hg::norm(du).item();
  Plane v = hg::pad<0>(hg::slice<0>(u, 1, 15), 1, 1) - hg::mean<1>(u, hg::keep_dimensions);
  v = hg::stencil(Upwind{}, hg::with_boundary<hg::Zero, hg::Periodic>(v)) + hg::cumulative_sum<0>(u);
  v = hg::iterate<2>([&](const auto& w) { return step(hg::with_boundary<hg::Zero, hg::Periodic>(w)); }, v);
  const auto both = hg::concatenate<0>(u, hg::slice<0>(v, 0, 16, 2));
  using Half = hg::Sharded<hg::Tensor<hg::bfloat16, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
  const Half half = hg::cast<hg::bfloat16>(v * hg::along<1>(hg::max<0>(u)));
  auto [total, dv] = hg::value_and_grad([&](auto w) {
    return hg::sum(hg::stencil(Upwind{}, w) / hg::norm(w)) + hg::sum(hg::square(hg::slice<1>(w, 0, 20, 3))) +
           hg::sum(hg::stencil(Upwind{}, hg::with_boundary<hg::Zero, hg::Zero>(hg::square(w))));
  })(v);
  const double sum = hg::sum(half).item() + hg::sum(both).item() + static_cast<double>(hg::argmax(v));
  const double all = hg::sum(dv).item();
  if (env.is_root())
    std::printf("expression loss %.9g, gradient norm %.9g, %.9g %.9g %.9g\n", loss, slope, sum, total, all);
}

/// Attention over a cut sequence, forward and backward, in each stored type.
template <class T>
void attend(const hg::Environment& env) {
  using Line = hg::Mesh<"sequence">;
  using Rows = hg::Sharded<hg::Tensor<T, hg::dyn, 2, hg::dyn, 24>, Line, hg::Shard<2>>;
  const Rows u(hg::device_mesh<Line>(env.world(), {-1}), {1, 2, 100, 24});
  const auto [loss, gradient] = hg::value_and_grad([](auto v) {
    return hg::sum(hg::square(hg::scaled_dot_product_attention(v + 1.f, v, v + 1.f, {.is_causal = true})));
  })(u);
  const double sum = hg::sum(gradient).item();
  if (env.is_root()) std::printf("attention %.9g, gradient %.9g\n", loss, sum);
}

/// Statistics, other orders and dimensions, broadcasting and products, with their gradients.
void rearrange_fields(const hg::Environment& env) {
  using Line = hg::Mesh<"data">;
  using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
  using Row = hg::Sharded<hg::Tensor<float, 1, hg::dyn>, Line, hg::Replicate>;
  using Whole = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Replicate>;
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  const auto rows = hg::distribute_tensor<Rows>(mesh, {16, 24}, std::vector<float>(16 * 24, 1.f));
  const Row row(mesh, {1, 24});
  const Whole weights(mesh, {24, 24});
  // one expression each: a long one would be compiled for many minutes
  double sum = 0;
  const auto add = [&sum](const auto& result) { sum += std::get<0>(result); };
  add(hg::value_and_grad([](auto u, auto v) { return hg::sum(hg::softmax<1>(u - v)); })(rows, row));
  add(hg::value_and_grad([](auto u) { return hg::sum(u / hg::std<0>(u, hg::keep_dimensions)); })(rows));
  add(hg::value_and_grad([](auto u) { return hg::sum(hg::flip<0>(u) * hg::roll<1>(u, 3)); })(rows));
  add(hg::value_and_grad([](auto v) { return hg::sum(hg::expand<0>(v) + hg::select<0>(hg::unsqueeze<0>(v), 0)); })(
      row));
  add(hg::value_and_grad([](auto u) { return hg::sum(hg::flatten<0, 1>(hg::unflatten<0>(u, 8, 2))); })(rows));
  add(hg::value_and_grad([](auto u, auto w) { return hg::var(hg::matmul(u, w)); })(rows, weights));
  add(hg::value_and_grad([](auto u) { return hg::sum(hg::redistribute<Whole>(hg::einsum<"ni,nj->ij">(u, u))); })(rows));
  add(hg::value_and_grad([](auto u) { return hg::logsumexp(u) + hg::sum(hg::log_softmax<1>(u)); })(rows));
  if (env.is_root()) std::printf("rearranged %.9g\n", sum);
}

/// Redistributions and their adjoint, rows by index.
void move_fields(const hg::Environment& env) {
  using Line = hg::Mesh<"data">;
  using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
  using Columns = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<1>>;
  using Sum = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Partial<hg::Sum>>;
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  const auto rows = hg::distribute_tensor<Rows>(mesh, {16, 24}, std::vector<float>(16 * 24, 1.f));
  const Sum partial(mesh, {16, 24});
  hg::redistribute_to(rows, partial);
  const auto columns = hg::redistribute<Columns>(partial);
  const auto back = hg::redistribute_vjp(columns, rows);

  const Kokkos::View<float**, Kokkos::LayoutRight, hg::memory_space> tensor("rows", 4, 3);
  Kokkos::deep_copy(tensor, 2.f);
  const std::vector<std::vector<hg::index_t>> indices(static_cast<std::size_t>(env.world().size()), {3, 0, 3});
  hg::IndexedAllToAllV<float, 2> exchange(env.world(), {4, 3}, indices);
  const Kokkos::View<float**, Kokkos::LayoutRight, hg::memory_space> received("received", exchange.received_rows(), 3);
  exchange.forward(tensor, received);
  exchange.vjp(received, tensor);

  const double sum = hg::sum(back).item();
  if (env.is_root()) std::printf("moved %.9g\n", sum);
}

}  // namespace

void step_fields(const hg::Environment& env) {
  step_a_field(env);
  move_fields(env);
  rearrange_fields(env);
  attend<float>(env);
  attend<double>(env);
  attend<hg::bfloat16>(env);
}

}  // namespace instantiate
