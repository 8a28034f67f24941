// Gradients through stages: reductions over all or some dimensions, cumulative_sum, concatenate, redistribute, stencil
// functors by dual numbers. Finite differences in double, and the adjoint identity of linear ones.
#include <doctest/doctest.h>

#include "support/array.hpp"

using namespace support;

namespace {

using hg::dyn;
using Plane = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Turned = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
using Whole = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
using Half = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Shard<1>>;

template <class F>
void everywhere(F f) {
  for (const auto& mesh : all_meshes<Grid>())
    for (int way = 0; way < ways_to_cut; ++way) {
      CAPTURE(way);
      CAPTURE(mesh.extents()[0]);
      f(mesh, way);
    }
}
template <class Field>
auto maker(const hg::DeviceMesh<Grid>& mesh, int way) {
  return [mesh, way](const auto& array) { return field<Field>(mesh, array, way); };
}
constexpr double exact = 1e-13, differences = 1e-8;

struct Limited {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<1, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T west, T corner) const {
    using Kokkos::exp;
    using Kokkos::sqrt;
    const T slope = centre - west;
    return slope > 0.0 ? slope * corner : exp(-slope) / sqrt(2.0 + corner * corner);
  }
};
struct Own {  // its own derivatives; its values are of one type only
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<-2, 0>>;
  KOKKOS_FUNCTION double operator()(double a, double b) const { return a * a * b; }
  template <int I, class A, class B>
  static auto partial(const A& a, const B& b) {
    if constexpr (I == 0)
      return 2.0 * a * b;
    else
      return a * a;
  }
};

}  // namespace

TEST_CASE("reductions to a number inside: norms, means, extremes, several in one loss") {
  const auto a = numbers<double>(Index<2>{5, 7}, 70), b = numbers<double>(Index<2>{5, 7}, 71);
  everywhere([&](const auto& mesh, int way) {
    CHECK(gradient_error(maker<Plane>(mesh, way),
                         [](auto u, auto v) {
                           const auto n = hg::norm(u);
                           return hg::sum(hg::square(u / n) * v) + hg::sqrt(hg::mean(hg::square(u - v))) * hg::max(v) -
                                  n * hg::min(hg::shift<1, 1>(u) * v) / (1.0 + hg::square(hg::sum(v)));
                         },
                         2, a, b) < differences);
    CHECK(gradient_error(maker<Plane>(mesh, way),
                         [](auto u) {  // a stage that stands several times, shifted too, and within another
                           const auto w = hg::with_boundary<hg::Periodic, hg::Zero>(u);
                           const auto m = hg::mean(hg::shift<0, 1>(w) * w);
                           const auto inner = w * m + hg::exp(m);
                           return hg::sum(inner * hg::shift<0, 1>(w / (2.0 + m)) * hg::shift<1, -1>(w * m)) + m * m;
                         },
                         2, a) < differences);
  });
}

TEST_CASE("reductions over some dimensions inside: anomalies, softmax, norms, extremes") {
  const auto a = numbers<double>(Index<2>{5, 6}, 72);
  everywhere([&](const auto& mesh, int way) {
    CHECK(adjoint_error([](auto u) { return u - hg::mean<1>(u, hg::keep_dimensions); }, field<Plane>(mesh, a, way)) < exact);
    CHECK(adjoint_error([](auto u) { return hg::sum<0>(hg::shift<0, 1>(u) - hg::shift<0, -2>(u)); }, field<Plane>(mesh, a, way)) < exact);
    CHECK(adjoint_error([](auto u) { return hg::shift<0, 1>(hg::mean<1>(hg::shift<1, 1>(u))); }, field<Plane>(mesh, a, way)) < exact);
    CHECK(adjoint_error(
              [](auto u) {
                const auto w = hg::with_boundary<hg::Periodic, hg::Periodic>(u);
                return hg::sum<1>(hg::shift<0, 1>(w) - hg::shift<1, 2>(w)) * 2.0;
              },
              field<Plane>(mesh, a, way)) < exact);
    CHECK(gradient_error(maker<Plane>(mesh, way),
                         [](auto u) {
                           const auto e = hg::exp(u - hg::max<1>(u, hg::keep_dimensions));
                           const auto softmax = e / hg::sum<1>(e, hg::keep_dimensions);
                           return hg::sum(softmax * hg::sin(u * 3.0)) + hg::sum(hg::square(hg::norm<0>(u)) * hg::min<0>(u));
                         },
                         1, a) < differences);
    CHECK(gradient_error(maker<Half>(mesh, way),
                         [](auto u) { return hg::sum(hg::square(hg::sum<1>(u * hg::shift<0, 1>(u)))) + hg::sum(hg::max<0>(u) * 2.0); },
                         1, a) < differences);
  });
}

TEST_CASE("cumulative_sum, both ways round, of expressions and of itself") {
  const auto a = numbers<double>(Index<2>{4, 7}, 73);
  everywhere([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::cumulative_sum<1>(v); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::cumulative_sum<0>(hg::shift<1, 1>(v) - 2.0 * hg::cumulative_sum<1>(v)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::shift<1, -1>(hg::cumulative_sum<1>(v)) + hg::slice<1>(hg::pad<1>(v, 1, 0), 0, 7); },
                        u) < exact);
    CHECK(gradient_error(maker<Plane>(mesh, way),
                         [](auto v) {
                           const auto s = hg::cumulative_sum<1>(hg::square(v));
                           return hg::sum(s * v + hg::log(1.0 + s)) + hg::mean(hg::square(hg::cumulative_sum<0>(v)));
                         },
                         1, a) < differences);
  });
}

TEST_CASE("concatenate and redistribute: each part is given its piece of the cotangent") {
  using Rows = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Replicate>;
  const auto a = numbers<double>(Index<2>{5, 6}, 74), b = numbers<double>(Index<2>{3, 6}, 75);
  everywhere([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<0>(v, 2.0 * v, hg::slice<0>(v, 1, 3)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<1>(hg::slice<1>(v, 2, 6), hg::slice<1>(v, 0, 2)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::concatenate<1>(v, hg::shift<0, 1>(v)); }, field<Rows>(mesh, a, way)) < exact);
    CHECK(adjoint_error([](auto v) { return hg::redistribute<Turned>(hg::shift<0, 1>(v) + v); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::shift<0, 1>(hg::redistribute<Whole>(v)); }, u) < exact);
    CHECK(adjoint_error([](auto v) { return hg::redistribute<Plane>(2.0 * v); }, field<Whole>(mesh, a)) < exact);
    CHECK(gradient_error(maker<Plane>(mesh, way),
                         [](auto v, auto w) {
                           const auto joined = hg::concatenate<0>(v, hg::sin(w));
                           const auto turned = hg::redistribute<Turned>(hg::square(v));
                           return hg::sum(hg::square(joined) * hg::shift<0, 1>(joined)) +
                                  hg::sum(turned * hg::cumulative_sum<0>(turned)) * hg::norm(w);
                         },
                         2, a, b) < differences);
  });
}

TEST_CASE("stencil functors: derivatives by dual numbers, or their own") {
  const auto a = numbers<double>(Index<2>{6, 5}, 76);
  everywhere([&](const auto& mesh, int way) {
    CHECK(gradient_error(maker<Plane>(mesh, way),
                         [](auto v) {
                           const auto w = hg::with_boundary<hg::Zero, hg::Periodic>(v);
                           const auto once = hg::stencil(Limited{}, w);
                           return hg::sum(once * v) + hg::sum(hg::square(hg::stencil(Limited{}, once + v))) +
                                  hg::mean(hg::stencil(Own{}, hg::with_boundary<hg::Periodic, hg::Zero>(v)));
                         },
                         1, a) < differences);
  });
}
