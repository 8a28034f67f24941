// transformer_expression: value and gradients of a pre-norm transformer block that is written as one expression, beside
// the sum of its parts, each evaluated and pulled back by itself (vjp). 64 samples of 64 tokens, 64 channels, 4 heads.
#include "beside_mpi.hpp"

namespace {

using Line = hg::Mesh<"samples">;
template <int... Extents>
using Weight = hg::Sharded<hg::Tensor<float, Extents...>, Line, hg::Replicate>;
using hg::dyn;
using Tokens = hg::Sharded<hg::Tensor<float, dyn, dyn, dyn>, Line, hg::Shard<0>>;      // (N, L, C)
using Heads = hg::Sharded<hg::Tensor<float, dyn, dyn, dyn, dyn>, Line, hg::Shard<0>>;  // (N, H, L, E)
using Vector = Weight<dyn>;
using Matrix = Weight<dyn, dyn>;
using Volume = Weight<dyn, dyn, dyn>;

constexpr hg::index_t samples = 64, tokens = 64, channels = 64, heads = 4;

template <class Field>
Field numbers(const hg::DeviceMesh<Line>& mesh, const typename Field::Extents& extents, float scale, float offset) {
  Field field(mesh, extents);
  const auto index = hg::global_index<Field::rank - 1>(field) + 3 * hg::global_index<0>(field);
  field = scale * sin(hg::cast<float>(index)) + offset;
  return field;
}

/// The parts, each of a field or an expression.
constexpr auto norm = [](const auto& x, const auto& gain) {
  return (x - hg::mean<2>(x, hg::keep_dimensions)) / sqrt(hg::var<2>(x, hg::keep_dimensions, 0.0) + 1e-5f) *
         hg::along<2>(gain);
};
constexpr auto project = [](const auto& h, const auto& w) { return hg::einsum<"nlc,che->nhle">(h, w); };
constexpr auto attend = [](const auto& q, const auto& k, const auto& v) {
  return hg::scaled_dot_product_attention(q, k, v);
};
constexpr auto join = [](const auto& x, const auto& y, const auto& w) { return x + hg::einsum<"nhle,hec->nlc">(y, w); };
constexpr auto widen = [](const auto& g, const auto& w) {
  const auto z = hg::einsum<"nlc,cd->nld">(g, w);
  return 0.5f * z * (1.0f + erf(0.70710678f * z));
};
constexpr auto narrow = [](const auto& y, const auto& z, const auto& w) { return y + hg::einsum<"nld,dc->nlc">(z, w); };

constexpr auto block = [](const auto& x, const auto& gain, const auto& wq, const auto& wk, const auto& wv,
                          const auto& wo, const auto& wide, const auto& back) {
  const auto h = norm(x, gain);
  const auto y = join(x, attend(project(h, wq), project(h, wk), project(h, wv)), wo);
  return narrow(y, widen(norm(y, gain), wide), back);
};

void run(const hg::Environment& env, const std::string& name) {
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  const hg::index_t embedding = channels / heads;
  const auto x = numbers<Tokens>(mesh, {samples, tokens, channels}, 1, 0);
  const auto owed = numbers<Tokens>(mesh, {samples, tokens, channels}, 1, 0.1f);
  const auto gain = numbers<Vector>(mesh, {channels}, 0.1f, 1);
  const auto wq = numbers<Volume>(mesh, {channels, heads, embedding}, 0.1f, 0), wk = wq, wv = wq;
  const auto wo = numbers<Volume>(mesh, {heads, embedding, channels}, 0.1f, 0);
  const auto wide = numbers<Matrix>(mesh, {channels, 4 * channels}, 0.1f, 0);
  const auto back = numbers<Matrix>(mesh, {4 * channels, channels}, 0.1f, 0);
  const auto whole = [&] {
    const auto [value, pull] = hg::vjp(block, x, gain, wq, wk, wv, wo, wide, back);
    return pull(owed);
  };
  const auto parts = [&] {
    const auto [h, pull_h] = hg::vjp(norm, x, gain);
    const auto [q, pull_q] = hg::vjp(project, h, wq);
    const auto [k, pull_k] = hg::vjp(project, h, wk);
    const auto [v, pull_v] = hg::vjp(project, h, wv);
    const auto [a, pull_a] = hg::vjp(attend, q, k, v);
    const auto [y, pull_y] = hg::vjp(join, x, a, wo);
    const auto [g, pull_g] = hg::vjp(norm, y, gain);
    const auto [z, pull_z] = hg::vjp(widen, g, wide);
    const auto [out, pull_out] = hg::vjp(narrow, y, z, back);
    const auto [dy1, dz, dback] = pull_out(owed);
    const auto [dg, dwide] = pull_z(dz);
    const auto [dy2, dgain2] = pull_g(dg);
    const Tokens dy = dy1 + dy2;
    const auto [dx1, da, dwo] = pull_y(dy);
    const auto [dq, dk, dv] = pull_a(da);
    const auto [dh1, dwq] = pull_q(dq);
    const auto [dh2, dwk] = pull_k(dk);
    const auto [dh3, dwv] = pull_v(dv);
    const Tokens dh = dh1 + dh2 + dh3;
    const auto [dx2, dgain1] = pull_h(dh);
    return Tokens(dx1 + dx2);
  };
  const Tokens expected = parts();
  const double error = hg::norm(std::get<0>(whole()) - expected).item() / hg::norm(expected).item();
  if (!(error < 1e-4)) throw std::runtime_error(name + ": the gradients differ by " + std::to_string(error));
  bench::compare(env, name, 3, whole, parts);
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  Kokkos::Tools::Experimental::set_allocate_data_callback(bench::count_allocation);
  if (bench::wanted(argc, argv, "transformer_expression")) run(env, "transformer_expression");
}
