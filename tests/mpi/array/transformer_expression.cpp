// A transformer block written as one expression: beside the same block step by step, its gradients beside those of the
// steps and beside finite differences, how often each part is computed, and how large the expression is.
//
// ranks: 1 4
#include <sys/resource.h>

#include <map>
#include <string>

#include "support/array.hpp"
#include "support/kokkos_events.hpp"

namespace test_transformer_expression {

using namespace support;

namespace {

using hg::dyn;
using hg::Replicate;
using hg::Shard;
template <class T>
using Tokens = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn>, Grid, Shard<0>, Shard<1>>;  // (N, L, C)
template <class T, int Rank>
using Weight = typename hg::detail::field_of<T, hg::Placed<Grid, Rank, -1, -1>>::type;

constexpr double root_half = 0.70710678118654752;

/// What each intermediate result becomes: itself, in one expression, or a field.
struct AsExpression {
  template <class E>
  E operator()(const E& e) const {
    return e;
  }
};
struct AsField {
  template <class E>
  auto operator()(const E& e) const {
    return hg::detail::materialised<hg::detail::field_of_t<E>>(hg::as_expression(e));
  }
};

/// The weights: norms (gain, shift), projections (C, H, E) and back, and the two of the MLP.
template <class T>
struct Weights {
  Weight<T, 1> gain, shift;
  Weight<T, 3> query, key, value, output;
  Weight<T, 2> wide, narrow;
};

template <class X, class G>
auto layer_norm(const X& x, const G& gain, const G& shift) {
  return (x - hg::mean<2>(x, hg::keep_dimensions)) / sqrt(hg::var<2>(x, hg::keep_dimensions, 0.0) + 1e-5f) *
             hg::along<2>(gain) +
         hg::along<2>(shift);
}
template <class X>
auto gelu(const X& x) {
  return 0.5f * x * (1.0f + erf(static_cast<float>(root_half) * x));
}

/// x + attention(norm(x)), and of that y + MLP(norm(y)).
template <class Step, class X, class T, class Q, class W>
auto block(const Step& step, const X& x, const Weights<T>& w, const Q& query, const W& wide) {
  const auto h = step(layer_norm(x, w.gain, w.shift));
  const auto q = step(hg::einsum<"nlc,che->nhle">(h, query));
  const auto k = step(hg::einsum<"nlc,che->nhle">(h, w.key));
  const auto v = step(hg::einsum<"nlc,che->nhle">(h, w.value));
  const auto heads = step(hg::scaled_dot_product_attention(q, k, v));
  const auto y = step(x + hg::einsum<"nhle,hec->nlc">(heads, w.output));
  const auto g = step(layer_norm(y, w.gain, w.shift));
  const auto inner = step(gelu(hg::einsum<"nlc,cd->nld">(g, wide)));
  return step(y + hg::einsum<"nld,dc->nlc">(inner, w.narrow));
}
template <class Step, class X, class T>
auto block(const Step& step, const X& x, const Weights<T>& w) {
  return block(step, x, w, w.query, w.wide);
}

/// A row of samples, tokens, channels, heads.
struct Size {
  index_t samples, tokens, channels, heads;
};
template <class T, class Mesh>
Weights<T> weights(const Mesh& mesh, const Size& s) {
  const index_t c = s.channels, h = s.heads, e = c / h;
  const auto near = [](const auto& field, double scale, double offset) {
    return std::decay_t<decltype(field)>(static_cast<T>(scale) * field + static_cast<T>(offset));
  };
  const auto make = [&]<int Rank>(std::integral_constant<int, Rank>, const Index<Rank>& extents, int stream) {
    return field<Weight<T, Rank>>(mesh, numbers<T>(extents, stream));
  };
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, 2> two;
  constexpr std::integral_constant<int, 3> three;
  return {near(make(one, {c}, 1), 0.2, 1),         near(make(one, {c}, 2), 0.2, 0),
          near(make(three, {c, h, e}, 3), 0.2, 0), near(make(three, {c, h, e}, 4), 0.2, 0),
          near(make(three, {c, h, e}, 5), 0.2, 0), near(make(three, {h, e, c}, 6), 0.2, 0),
          near(make(two, {c, 4 * c}, 7), 0.2, 0),  near(make(two, {4 * c, c}, 8), 0.1, 0)};
}

template <class A, class B>
double distance(const A& a, const B& b) {
  return hg::norm(a - b).item() / hg::norm(b).item();
}

/// Kernels that are launched, by label.
template <class F>
std::map<std::string, int> counted(F f) {
  return kokkos_events(f).launches;
}

}  // namespace

TEST_CASE("the value is that of the steps") {
  rlimit stack;
  REQUIRE(getrlimit(RLIMIT_STACK, &stack) == 0);
  CHECK(stack.rlim_cur <= 8192 * 1024);  // what the block needs is there by default
  const Size size{64, 64, 64, 4};
  everywhere<Grid>([&](const auto& mesh, int) {
    const auto w = weights<float>(mesh, size);
    const auto x = field<Tokens<float>>(mesh, numbers<float>(Index<3>{64, 64, 64}, 9));
    const auto expression = block(AsExpression{}, x, w);
    CHECK(sizeof(expression) <= 600);
    const Tokens<float> value = expression, expected = block(AsField{}, x, w);
    CHECK(distance(value, expected) < 1e-6);
  });
}

TEST_CASE("gradients beside finite differences, in double") {
  const Size size{2, 5, 4, 2};
  everywhere<Grid>([&](const auto& mesh, int) {
    const auto w = weights<double>(mesh, size);
    const auto x = field<Tokens<double>>(mesh, numbers<double>(Index<3>{2, 5, 4}, 9));
    const auto c = field<Tokens<double>>(mesh, numbers<double>(Index<3>{2, 5, 4}, 10));
    auto loss = [&](auto u, auto query, auto wide) { return hg::sum(block(AsExpression{}, u, w, query, wide) * c); };
    const auto [value, dx, dquery, dwide] = hg::value_and_grad(loss)(x, w.query, w.wide);
    CHECK(value == doctest::Approx(loss(x, w.query, w.wide).item()));
    // along one direction each
    const double step = 1e-5;
    const auto slope = [&](const auto& f, const auto& at, const auto& along) {
      using Field = std::decay_t<decltype(at)>;
      const Field after = at + step * along, before = at - step * along;
      return (f(after) - f(before)) / (2 * step);
    };
    const auto along_x = field<Tokens<double>>(mesh, numbers<double>(Index<3>{2, 5, 4}, 11));
    const auto along_q = field<Weight<double, 3>>(mesh, numbers<double>(Index<3>{4, 2, 2}, 12));
    const auto along_w = field<Weight<double, 2>>(mesh, numbers<double>(Index<2>{4, 16}, 13));
    const auto close = [](double a, double b) { CHECK(std::abs(a - b) < 1e-7 * std::max(1.0, std::abs(b))); };
    close(hg::dot(dx, along_x).item(),
          slope([&](const auto& u) { return loss(u, w.query, w.wide).item(); }, x, along_x));
    close(hg::dot(dquery, along_q).item(),
          slope([&](const auto& q) { return loss(x, q, w.wide).item(); }, w.query, along_q));
    close(hg::dot(dwide, along_w).item(),
          slope([&](const auto& v) { return loss(x, w.query, v).item(); }, w.wide, along_w));
  });
}

TEST_CASE("each part is computed once, forward and backward") {
  const auto mesh = all_meshes<Grid>().front();
  const auto w = weights<float>(mesh, {4, 8, 8, 2});
  const auto x = field<Tokens<float>>(mesh, numbers<float>(Index<3>{4, 8, 8}, 9));
  const auto expression = block(AsExpression{}, x, w);
  const auto forward = counted([&] { const Tokens<float> value = expression; });
  CHECK(forward.at("halogen::product") == 6);
  CHECK(forward.at("halogen::reduce") == 6);  // of each norm two means and the squares
  CHECK(hg::explain(expression).find("stored, computed once for all readers") != std::string::npos);
  // of each product its value and the gradient of the operand that depends on x; norms are not summed again
  const auto products = [&](auto loss, const auto&... variables) {
    return counted([&] { hg::value_and_grad(loss)(variables...); }).at("halogen::product");
  };
  CHECK(products([&](auto u) { return hg::sum(block(AsExpression{}, u, w)); }, x) == 12);
  // further gradients in the same pass: one product more each
  auto of_three = [&](auto u, auto query, auto wide) { return hg::sum(block(AsExpression{}, u, w, query, wide)); };
  CHECK(products(of_three, x, w.query, w.wide) == 14);
}

TEST_CASE("a stored node: all its uses share one value and one cotangent") {
  const auto mesh = all_meshes<Grid>().front();
  const auto a = numbers<double>(Index<3>{3, 4, 5}, 21);
  const auto x = field<Tokens<double>>(mesh, a);
  const auto e = hg::stored(expm1(x));
  CHECK(sizeof(e) <= 40);
  const Tokens<double> value = e * e + hg::shift<1, 1>(e);
  const Tokens<double> plain = expm1(x) * expm1(x) + hg::shift<1, 1>(expm1(x));
  CHECK(distance(value, plain) < 1e-15);
  CHECK(hg::cost_of(e * e + hg::shift<1, 1>(e)).stages == 1);
  CHECK(hg::cost_of(e * hg::stored(expm1(x))).stages == 1);  // made of the same parts
  CHECK(hg::cost_of(e * hg::stored(expm1(2.0 * x))).stages == 2);
  const auto [s, dx] = hg::value_and_grad([](auto u) {
    const auto y = hg::stored(u * u);
    const auto z = hg::stored(y + y * y), t = hg::stored(z + z * y);
    return hg::sum(t * y);
  })(x);
  const Tokens<double> y = x * x, z = y + y * y, t = z + z * y;  // t y = y^2 (1 + y)^2
  CHECK(distance(dx, 2.0 * x * (2.0 * y * (1.0 + y) * (1.0 + 2.0 * y))) < 1e-14);
  CHECK(s == doctest::Approx(hg::sum(t * y).item()));
}

}  // namespace test_transformer_expression
