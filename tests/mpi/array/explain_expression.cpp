// program: expressions
// explain(expression) says what its assignment does: compared with what was really sent.
#include <doctest/doctest.h>

#include <halogen/array_language.hpp>
#include <vector>

#include "support/grid.hpp"

namespace test_explain_expression {

namespace {

using support::Grid;
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

template <class E>
hg::ExpressionCost check_cost(const E& expression) {
  const hg::ExpressionCost cost = hg::cost_of(expression);
  const auto before = hg::comm_stats();
  const Plane result = expression;
  const auto spent = hg::comm_stats() - before;
  CHECK(spent.messages.count == cost.messages);
  CHECK(spent.messages.bytes == cost.bytes);
  return cost;
}

/// A part of the cost of four exponentials and more.
template <class U>
auto costly(const U& u) {
  return exp(u) * log(u + 2.0) + sin(u) * cos(u);
}
/// d costly(u) / du
template <class U>
Plane slope_of_costly(const U& u) {
  return exp(u) * (log(u + 2.0) + 1.0 / (u + 2.0)) + cos(2.0 * u);
}
struct SaysItsCost {
  static constexpr int point_cost = 100;
  template <class T>
  KOKKOS_FUNCTION T operator()(T value) const {
    return value * value;
  }
};
struct SaysNothing {
  template <class T>
  KOKKOS_FUNCTION T operator()(T value) const {
    return value * value;
  }
};

/// x -> x * sigmoid(x) + 1, Levels times: written out, the innermost operand stands 2^Levels times. Every is how many
/// levels lie between two that are stored by hand.
template <int Levels, int Every, class X>
auto chain(const X& x) {
  if constexpr (Levels == 0) {
    return x;
  } else {
    const auto below = chain<Levels - 1, Every>(x);
    const auto level = below * sigmoid(below) + 1.0;
    if constexpr (Levels % Every == 0)
      return hg::stored(level);
    else
      return level;
  }
}

double distance(const Plane& a, const Plane& b) { return hg::max(abs(a - b)).item(); }

}  // namespace

TEST_CASE("halos, stages and kernels") {
  for (const auto& mesh : support::grids()) {
    const Plane u(mesh, {17, 19}), v(mesh, {17, 19});
    const auto b = hg::with_boundary<hg::Zero, hg::Periodic>(u);
    const auto stencil = hg::shift<0, 2>(b) - hg::shift<0, -1>(b) * hg::shift<1, 1>(v) + hg::shift<1, -3>(b);
    // u and v, however often they are read; v ends in zeros and needs nobody where its columns are not cut
    CHECK(check_cost(stencil).exchanges == (mesh.extent(1) > 1 ? 2 : 1));
    CHECK(check_cost(u + 2.0 * v).exchanges == 0);
    const auto length = hg::norm(u);
    const auto unit = u / length + length * b;
    const auto cost = check_cost(unit);
    CHECK(cost.stages == 1);  // norm stands twice and is computed once
    CHECK(cost.kernels == 2);
    CHECK(check_cost((u - hg::mean<1>(u, hg::keep_dimensions)) / hg::norm(v)).stages == 2);
    // the same reduction written twice
    CHECK(check_cost(u * hg::mean(u * v) + hg::mean(u * v)).stages == 1);
    CHECK(check_cost(u * hg::mean(u * v) + hg::mean(v * u)).stages == 2);
    CHECK(check_cost(hg::sum<1>(u, hg::keep_dimensions) * u + hg::sum<1>(u, hg::keep_dimensions)).stages == 1);
    CHECK(check_cost(hg::sum<1>(u, hg::keep_dimensions) * u + hg::sum<1>(v, hg::keep_dimensions)).stages == 2);
    const auto twice = check_cost(u * hg::argmax(hg::shift<0, 1>(v)));  // the largest value, then where it is
    CHECK(twice.stages == 1);
    CHECK(twice.kernels == 3);
    // an iteration: its operand, its steps and the assignment; what it reads beside is exchanged every step
    const auto step = [&](auto x) {
      const auto p = hg::with_boundary<hg::Zero, hg::Periodic>(x);
      return hg::shift<0, 1>(p) + hg::shift<1, -1>(p) * hg::shift<1, 2>(v);
    };
    CHECK(check_cost(hg::iterate<3>(step, u * 1.0)).kernels == 5);
    CHECK(check_cost(hg::iterate<3>(step, hg::as_expression(u)) * 2.0).kernels == 4);
    CHECK(check_cost(hg::redistribute<Plane>(hg::as_expression(u)) + v).kernels == 1);
    CHECK(hg::explain(stencil).find("2+1") == std::string::npos);  // before + after: 1 above, 2 below
    CHECK(hg::explain(unit).find("sum to a number, one all_reduce") != std::string::npos);
  }
}

TEST_CASE("a costly part that stands twice is computed once, a cheap one in the kernel") {
  for (const auto& mesh : support::grids()) {
    Plane u(mesh, {17, 19}), v(mesh, {17, 19});
    u = 0.01 * hg::global_index<0>(u) + 0.02 * hg::global_index<1>(u);
    v = 2.0 * u;
    const auto once = costly(u) * (1.0 + costly(u));
    CHECK(check_cost(once).stages == 1);
    CHECK(check_cost(once).kernels == 2);
    CHECK(hg::explain(once).find("stored, computed once for all readers") != std::string::npos);
    CHECK(check_cost(costly(u) * (1.0 + costly(v))).stages == 2);  // alike, of two fields
    CHECK(check_cost((u + v) * (1.0 + (u + v))).stages == 0);
    CHECK(check_cost(apply(SaysItsCost{}, u) + apply(SaysItsCost{}, u)).stages == 1);
    CHECK(check_cost(apply(SaysNothing{}, u) + apply(SaysNothing{}, u)).stages == 0);
    // two parts, of which one stands in three operands
    CHECK(check_cost(where(costly(u) > costly(v), costly(u), costly(v) * costly(u))).stages == 2);

    const Plane part = costly(u), value = once;
    CHECK(distance(value, part * (1.0 + part)) < 1e-14);
    // beyond the ends stands what the part is made of there, and not 0
    const Plane shifted = hg::shift<0, 1>(once);
    const auto beyond = hg::shift<0, 1>(costly(u));
    const Plane above = beyond;
    CHECK(distance(shifted, above * (1.0 + above)) < 1e-14);
    // steps of iterate compute points of other ranks, where nothing is stored
    const auto step = [](auto x) {
      const auto p = 0.1 * hg::shift<0, 1>(hg::with_boundary<hg::Periodic, hg::Periodic>(x));
      return costly(p) * (1.0 + costly(p));
    };
    Plane single = u;
    for (int k = 0; k < 3; ++k) single = step(single);
    CHECK(distance(hg::iterate<3>(step, u), single) < 1e-14);
    CHECK(check_cost(hg::iterate<3>(step, hg::as_expression(u)) * 1.0).stages == 1);

    const auto [sum, gradient] = hg::value_and_grad([](auto x) { return hg::sum(costly(x) * (1.0 + costly(x))); })(u);
    CHECK(sum == doctest::Approx(hg::sum(part * (1.0 + part)).item()));
    CHECK(distance(gradient, slope_of_costly(u) * (1.0 + 2.0 * part)) < 1e-12);
  }
}

TEST_CASE("an expression stays small however deep its parts are shared") {
  const auto mesh = support::grids().front();
  Plane u(mesh, {17, 19});
  u = 0.01 * hg::global_index<0>(u) - 0.02 * hg::global_index<1>(u);
  const auto check = [&](int levels, const auto& make) {
    const auto [sum, gradient] = hg::value_and_grad([&](auto x) { return hg::sum(make(x)); })(u);
    Plane value = u, slope = 0.0 * u + 1.0;  // by hand, level after level: y = x s(x) + 1, y' = s + x s (1 - s)
    for (int level = 0; level < levels; ++level) {
      const Plane s = sigmoid(value);
      slope = slope * (s + value * s * (1.0 - s));
      value = value * s + 1.0;
    }
    const Plane result = make(u);
    CHECK(distance(result, value) < 1e-12);
    CHECK(hg::max(abs(gradient - slope) / abs(slope)).item() < 1e-11);
  };
  constexpr std::size_t leaf = sizeof(hg::as_expression(u));
  CHECK(sizeof(chain<6, 100>(u)) <= 16 * leaf);  // of 64 leaves
  CHECK(check_cost(chain<6, 100>(u)).stages >= 1);
  check(6, [](const auto& x) { return chain<6, 100>(x); });
  CHECK(sizeof(chain<60, 1>(u)) == sizeof(chain<2, 1>(u)));
  CHECK(check_cost(chain<60, 1>(u)).stages == 60);
  check(60, [](const auto& x) { return chain<60, 1>(x); });
}

}  // namespace test_explain_expression
