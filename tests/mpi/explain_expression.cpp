// program: expressions
// explain(expression) says what its assignment does: compared with what was really sent.
#include <doctest/doctest.h>

#include <halogen/halogen.hpp>
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

}  // namespace test_explain_expression
