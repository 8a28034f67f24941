// program: gradients_of_maps
// Gradients through reductions to a number and through stencil functors: finite differences in double.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_gradients_numbers {

using namespace support;

namespace {

using hg::dyn;
using Plane = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

constexpr double differences = 1e-8;

struct Limited {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<1, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T west, T corner) const {
    using Kokkos::exp;
    using Kokkos::sqrt;
    const T slope = centre - west;
    return slope > 0.0 ? slope * corner : exp(slope) / sqrt(2.0 + corner * corner);
  }
};
struct Rooted {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T west) const {
    using Kokkos::sqrt;
    return centre - sqrt(west);
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

struct AtLeast {
  template <class A, class B>
  KOKKOS_FUNCTION auto operator()(A value, B least) const {
    using Kokkos::fmax;
    return fmax(value, least - 2);
  }
};

/// Halves of its odd rows: the row's number must stay an integer.
struct Halved {
  template <class T>
  KOKKOS_FUNCTION T operator()(T value, hg::index_t row) const {
    return value * value / (row / 2 * 2 == row ? T(1.0) : T(2.0));
  }
};

/// The whole gradient of f beside finite differences, on every mesh.
template <class F>
void check_gradient(const Array<double, 2>& a, F f) {
  everywhere<Grid>(
      [&](const auto& mesh, int way) { CHECK(gradient_error(maker<Plane>(mesh, way), f, 1, a) < differences); });
}

}  // namespace

TEST_CASE("reductions to a number inside: norms, means, extremes, several in one loss") {
  const auto a = numbers<double>(Index<2>{5, 7}, 70), b = numbers<double>(Index<2>{5, 7}, 71);
  everywhere<Grid>([&](const auto& mesh, int way) {
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto u, auto v) {
                const auto n = hg::norm(u);
                return hg::sum(hg::square(u / n) * v) + hg::sqrt(hg::mean(hg::square(u - v))) * hg::max(v) -
                       n * hg::min(hg::shift<1, 1>(u) * v) / (1.0 + hg::square(hg::sum(v)));
              },
              2, a, b) < differences);
    CHECK(gradient_error(
              maker<Plane>(mesh, way),
              [](auto u) {  // a stage that stands several times, shifted too, and within another
                const auto w = hg::with_boundary<hg::Periodic, hg::Zero>(u);
                const auto m = hg::mean(hg::shift<0, 1>(w) * w);
                const auto inner = w * m + hg::exp(m);
                return hg::sum(inner * hg::shift<0, 1>(w / (2.0 + m)) * hg::shift<1, -1>(w * m)) + m * m;
              },
              2, a) < differences);
  });
}

TEST_CASE("sums of shifts alone: what lies beyond the ends takes nothing") {
  const auto a = numbers<double>(Index<2>{6, 5}, 78);
  check_gradient(a, [](auto v) {
    return hg::sum(hg::shift<0, 1>(v)) + hg::mean(hg::shift<1, -2>(v) - v) +
           hg::sum(hg::shift<0, 1>(2.0 * hg::slice<1>(v, 1, 4)));
  });
}

TEST_CASE("points that attain an extreme share its gradient; where there is a NaN it is attained by NaN alone") {
  const Index<2> extents{6, 5};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array<double, 2> ties(extents, [](auto i) { return i[0] % 3 == 1 && i[1] > 2 ? 7
                                                           : i[1] == 0               ? -3
                                                                                     : 0.5; }),
      with_nan(extents, [&](auto i) { return i[1] == 4 && i[0] > 3 ? nan : static_cast<double>(i[1]); });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, ties, way), v = field<Plane>(mesh, with_nan, way);
    const auto of_all = hg::grad([](auto w) { return hg::max(w) - hg::min(w) + hg::argmax(w) * 0.0; })(u);
    CHECK(error(of_all, extents, [&](auto i) {
            return ties(i) == 7 ? 1 / 4.0 : ties(i) == -3 ? -1 / 6.0 : 0;
          }) < 1e-16);
    const auto of_rows = hg::grad([](auto w) { return hg::sum(hg::max<1>(w)) + hg::sum(hg::min<0>(w)); })(u);
    CHECK(error(of_rows, extents, [&](auto i) {
            const double by_row = i[0] % 3 == 1 ? (ties(i) == 7 ? 1 / 2.0 : 0) : ties(i) == 0.5 ? 1 / 4.0 : 0;
            const double by_column = i[1] == 0 ? 1 / 6.0 : i[1] < 3 ? 1 / 6.0 : ties(i) == 0.5 ? 1 / 4.0 : 0;
            return by_row + by_column;
          }) < 1e-15);
    const auto of_nan = hg::grad([](auto w) { return hg::max(w); })(v);
    CHECK(error(of_nan, extents, [](auto i) { return i[1] == 4 && i[0] > 3 ? 1 / 2.0 : 0; }) == 0);
    // an index takes no gradient, and lets through that of what it stands beside
    const auto beside =
        hg::grad([](auto w) { return hg::sum(w * hg::argmax(w)) + hg::sum(hg::sum<1>(w) * hg::argmax<1>(w)); })(u);
    CHECK(error(beside, extents, [](auto i) { return 8 + (i[0] % 3 == 1 ? 3 : 1); }) == 0);
  });
}

TEST_CASE("quotients: exact by integers, and of any size; roots of what does not vary") {
  const auto a = numbers<double>(Index<2>{6, 5}, 79);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, a, way);
    const auto third = hg::grad([](auto v) { return hg::sum(v / 3); })(u);
    const auto tiny = hg::grad([](auto v) { return hg::sum(1e-200 / (v * 0.0 + 1e-180)); })(u);
    for (const double g : third.to_host()) CHECK(std::abs(g - 1.0 / 3) < 1e-16);
    for (const double g : tiny.to_host()) CHECK(g == 0);
  });
  check_gradient(a, [](auto v) {
    return hg::sum(hg::stencil(Rooted{}, hg::with_boundary<hg::Zero, hg::Zero>(hg::square(v) + 0.5)));
  });
}

TEST_CASE("casts: on to other numbers unchanged, from integers none") {
  const auto a = numbers<double>(Index<2>{6, 5}, 77);
  check_gradient(a, [](auto v) {
    const auto steps = hg::cast<double>(hg::cast<int>(4.0 * v));
    return hg::sum(steps * hg::shift<0, 1>(v) + hg::square(hg::cast<double>(v)) * v);
  });
}

TEST_CASE("stencil functors: derivatives by dual numbers, or their own") {
  const auto a = numbers<double>(Index<2>{6, 5}, 76);
  check_gradient(a, [](auto v) {
    const auto w = hg::with_boundary<hg::Zero, hg::Periodic>(v);
    const auto once = hg::stencil(Limited{}, w);
    return hg::sum(once * v) + hg::sum(hg::square(hg::stencil(Limited{}, once + v))) +
           hg::mean(hg::stencil(Own{}, hg::with_boundary<hg::Periodic, hg::Zero>(v)));
  });
}

TEST_CASE("functors that take the larger of a real and an integer") {
  const auto a = numbers<double>(Index<2>{6, 5}, 73);
  check_gradient(a, [](auto v) { return hg::sum(hg::apply(AtLeast{}, 4.0 * v, hg::global_index<0>(v)) * v); });
}

TEST_CASE("functors of integers beside reals: integers stay what they are") {
  const auto a = numbers<double>(Index<2>{6, 5}, 75);
  check_gradient(a, [](auto v) { return hg::sum(hg::apply(Halved{}, v, hg::global_index<0>(v)) * v); });
}

TEST_CASE("the gradient of a norm at 0 is 0, and elsewhere the unit vector") {
  const auto a = numbers<double>(Index<2>{6, 5}, 74);
  check_gradient(a, [](auto v) { return hg::norm(v) + hg::sum(hg::norm<1>(v)); });
  const Array<double, 2> zeros(a.extents, [](auto) { return 0; });
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto g =
        hg::grad([](auto v) { return hg::norm(v) + hg::sum(hg::norm<0>(v)); })(field<Plane>(mesh, zeros, way));
    for (const double v : g.to_host()) CHECK(v == 0);
  });
}

}  // namespace test_array_gradients_numbers
