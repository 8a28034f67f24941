// A pre-norm transformer block as one expression of the array language, its value and three gradients: what a file of
// a user takes to compile at -O1 (issue 28: 30 s and 1 GB).
#include <cstdio>

#include "halogen/array_language.hpp"

using Mesh = hg::Mesh<"data", "tokens">;
using Tokens = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<1>>;
template <class... Extents>
using Weight = hg::Sharded<hg::Tensor<float, Extents::value...>, Mesh, hg::Replicate, hg::Replicate>;
using Any = std::integral_constant<int, hg::dyn>;

struct Weights {
  Weight<Any> gain, shift;
  Weight<Any, Any, Any> query, key, value, output;  // (C, H, E), the last (H, E, C)
  Weight<Any, Any> wide, narrow;
};

auto layer_norm(const auto& x, const auto& gain, const auto& shift) {
  return (x - hg::mean<2>(x, hg::keep_dimensions)) / sqrt(hg::var<2>(x, hg::keep_dimensions, 0.0) + 1e-5f) *
             hg::along<2>(gain) +
         hg::along<2>(shift);
}
auto gelu(const auto& x) { return 0.5f * x * (1.0f + erf(0.70710678f * x)); }

auto block(const auto& x, const Weights& w, const auto& query, const auto& wide) {
  const auto h = layer_norm(x, w.gain, w.shift);
  const auto q = hg::einsum<"nlc,che->nhle">(h, query);
  const auto k = hg::einsum<"nlc,che->nhle">(h, w.key);
  const auto v = hg::einsum<"nlc,che->nhle">(h, w.value);
  const auto heads = hg::scaled_dot_product_attention(q, k, v);
  const auto y = x + hg::einsum<"nhle,hec->nlc">(heads, w.output);
  const auto inner = gelu(hg::einsum<"nlc,cd->nld">(layer_norm(y, w.gain, w.shift), wide));
  return y + hg::einsum<"nld,dc->nlc">(inner, w.narrow);
}

int main(int argc, char** argv) {
  const hg::Environment environment(argc, argv);
  const auto mesh = hg::device_mesh<Mesh>(environment.world(), {1, -1});
  const hg::index_t c = 64, h = 4, e = 16;
  const Tokens x(mesh, {4, 64, c});
  const Weights w{{mesh, {c}},       {mesh, {c}},       {mesh, {c, h, e}},  {mesh, {c, h, e}},
                  {mesh, {c, h, e}}, {mesh, {h, e, c}}, {mesh, {c, 4 * c}}, {mesh, {4 * c, c}}};
  const Tokens value = block(x, w, w.query, w.wide);
  const auto loss = [&](auto u, auto query, auto wide) { return hg::mean(hg::square(block(u, w, query, wide))); };
  const auto [number, dx, dquery, dwide] = hg::value_and_grad(loss)(x, w.query, w.wide);
  std::printf("%g %g %g\n", number, hg::norm(dx).item(), hg::norm(value).item());
}
