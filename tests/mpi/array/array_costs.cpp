// program: arrays
// What the array language sends and allocates: one halo exchange per field, one all_reduce per reduction, nothing new
// from the second evaluation on; and what only the run can refuse, in its words, on all ranks.
//

#include <doctest/doctest.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "support/array.hpp"
#include "support/heap.hpp"
#include "support/kokkos_events.hpp"

namespace test_array_costs {

using namespace support;

namespace {

using hg::dyn;
using Line = hg::Mesh<"line">;
using Rows = hg::Sharded<hg::Tensor<double, dyn, dyn>, Line, hg::Shard<0>>;
using Columns = hg::Sharded<hg::Tensor<double, dyn, dyn>, Line, hg::Shard<1>>;
using Sums = hg::Sharded<hg::Tensor<double, dyn>, Line, hg::Shard<0>>;
constexpr Index<2> extents{48, 6};

hg::DeviceMesh<Line> line() { return hg::device_mesh<Line>(grid_world(), {-1}); }

struct Five {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<-1, 0>, hg::At<1, 0>, hg::At<0, -1>, hg::At<0, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b, T c, T d, T e) const {
    return b + c + d + e - T(4) * a;
  }
};

#if defined(KOKKOS_ENABLE_OPENMP) && !defined(KOKKOS_ENABLE_CUDA)
/// How many regions of OpenMP are open around a point of a kernel.
struct OpenRegions {
  template <class T>
  T operator()(T) const {
    return static_cast<T>(omp_get_level());
  }
};
#endif

/// Labels of what f allocates.
template <class F>
std::string allocations(F f) {
  return support::KokkosEvents::text(support::kokkos_events(f).allocations);
}

}  // namespace

TEST_CASE("an expression exchanges each field once, whatever it reads of it") {
  const auto mesh = line();
  const auto a = numbers<double>(extents, 80), b = numbers<double>(extents, 81);
  auto u = field<Rows>(mesh, a), v = field<Rows>(mesh, b);
  const int neighbours = (mesh.rank() > 0) + (mesh.rank() + 1 < mesh.size());
  Rows w = u;
  CHECK(spent([&] {
          w = u + hg::shift<0, 1>(u) * hg::shift<0, -2>(u) - hg::shift<1, 1>(hg::shift<0, 1>(u));
        }).messages.count == neighbours);
  CHECK(spent([&] {
          w = hg::shift<0, 1>(u) + hg::shift<0, 1>(v) - hg::shift<0, -1>(u) + hg::shift<0, -1>(v);
        }).messages.count == 2 * neighbours);
  CHECK(spent([&] { w = hg::stencil(Five{}, u) + hg::stencil(Five{}, u); }).messages.count == neighbours);
  Rows shorter;
  CHECK(spent([&] { shorter = hg::slice<0>(u, 1, 48) - hg::slice<0>(u, 0, 47); }).messages.count <= neighbours);
  CHECK(spent([&] {
          w = u + hg::pad<0>(hg::slice<0>(u, 1, 48), 1, 0) + hg::pad<0>(hg::slice<0>(u, 0, 47), 0, 1);
        }).messages.count == 0);
  CHECK(spent([&] {
          w = u + hg::pad<0>(hg::slice<0>(u, 1, 48), 0, 1) * hg::pad<0>(hg::slice<0>(u, 0, 47), 1, 0);
        }).messages.count <= neighbours);
  CHECK(spent([&] { w = hg::shift<1, 1>(u) * 2.0 - hg::transpose<0, 1>(hg::transpose<0, 1>(v)); }) ==
        hg::CommStatistics{});
}

TEST_CASE("a reduction inside costs one all_reduce, also where it stands twice") {
  const auto mesh = line();
  const int once = mesh.size() > 1;
  const auto u = field<Rows>(mesh, numbers<double>(extents, 82));
  Rows w = u;
  const auto reduces = [&](auto make) { return spent([&] { w = make(); }).all_reduces.count; };
  CHECK(reduces([&] { return u / hg::norm(u); }) == once);
  const auto n = hg::norm(u);
  CHECK(reduces([&] { return u / n + n * hg::sin(u * n); }) == once);
  const auto top = hg::max<0>(u, hg::keep_dimensions);
  CHECK(reduces([&] { return (u - top) * top; }) == once);
  CHECK(reduces([&] { return u - hg::mean<1>(u, hg::keep_dimensions); }) == 0);  // that dimension is not cut
  const auto m = hg::mean(u);
  CHECK(reduces([&] { return u - m + hg::sqrt(hg::mean(hg::square(u - m))); }) == 2 * once);
  // Computed anew in the next evaluation, once.
  CHECK(reduces([&] { return u * n; }) == once);
  CHECK(spent([&] { hg::argmax(u).item(); }).all_reduces.count == 2 * once);
  // Value and gradient share stages: the norm, and the cotangent of the norm.
  auto derive = hg::value_and_grad([](auto v) { return hg::sum(v * hg::norm(v)); });
  static_cast<void>(derive(u));
  CHECK(spent([&] { static_cast<void>(derive(u)); }).all_reduces.count == 3 * once);
}

TEST_CASE("stages are computed once: one all_gather, one exchange") {
  const auto mesh = line();
  const auto u = field<Rows>(mesh, numbers<double>(Index<2>{48, 12}, 83));  // a column for every rank
  Rows w = u;
  const auto s = hg::cumulative_sum<0>(u);
  CHECK(spent([&] { w = s * s + hg::sin(s); }).all_gathers.count == (mesh.size() > 1));
  const auto turned = hg::redistribute<Columns>(2.0 * u);
  Columns c;
  CHECK(spent([&] { c = turned; }).messages.count == mesh.size() - 1);
  CHECK(spent([&] { c = turned * turned + hg::exp(turned); }).messages.count == mesh.size() - 1);
}

TEST_CASE("from the second evaluation on nothing is allocated") {
  const auto mesh = line();
  auto u = field<Rows>(mesh, numbers<double>(extents, 84));
  const auto steady = [&](const std::string& name, auto step) {
    CAPTURE(name);
    for (int t = 0; t < 3; ++t) step();
    CHECK(allocations([&] { step(), step(); }) == "");
  };
  Rows w = u, x = u;
  Sums s;
  std::int64_t best = 0;
  steady("stencil", [&] { w = u + 0.1 * hg::stencil(Five{}, u); });
  steady("a step over itself", [&] { x = x + 0.01 * hg::shift<0, 1>(x); });
  steady("slices", [&] { w = hg::pad<0>(hg::slice<0>(u, 1, 48) - hg::slice<0>(u, 0, 47), 1, 0); });
  steady("norm", [&] { w = u / hg::norm(u) - hg::mean<0>(u, hg::keep_dimensions); });
  steady("sums", [&] { s = hg::sum<1>(u) + hg::max<1>(u); });
  steady("argmax", [&] { s = hg::cast<double>(hg::argmax<1>(u)); });
  steady("argmax of all", [&] { best = hg::argmax(u); });
  steady("cumulative_sum", [&] { w = hg::cumulative_sum<0>(u) - hg::cumulative_sum<1>(u); });
  auto derive = hg::value_and_grad([](auto v) {
    const auto a = hg::slice<0>(v, 1, 48) - hg::slice<0>(v, 0, 47);
    return hg::mean(hg::square(a)) + hg::norm(v - hg::mean<1>(v, hg::keep_dimensions));
  });
  steady("gradient", [&] { u = u - 0.01 * std::get<1>(derive(u)); });
}

TEST_CASE("fields of the same pieces share their exchanges") {
  const auto mesh = line();
  const auto u = field<Rows>(mesh, numbers<double>(extents, 84)), v = u.clone();
  Rows w = hg::shift<0, 1>(u);
  const std::string allocated = allocations([&] { w = hg::shift<0, 1>(v); });
  CAPTURE(allocated);
  CHECK(allocated.find("halogen::send") == std::string::npos);
  CHECK(allocated.find("halogen::receive") == std::string::npos);
}

TEST_CASE("a step takes as little from the heap, Kokkos' own, however many fields it reads") {
  auto u = field<Rows>(line(), numbers<double>(extents, 84));
  const Rows v = u;
  const auto taken = [](auto step) {
    for (int t = 0; t < 4; ++t) step();
    const long before = support::heap.calls;
    step();
    return support::heap.calls - before;
  };
  const long of_two = taken([&] { u = u * v; });
  CHECK((of_two <= 2 || support::heap_serves_a_tool()));
  const long of_many = taken([&] {
    u = (u + v) * (u - v) + (v + u) * (v - u) + hg::shift<0, 1>(u) * v - hg::shift<1, -1>(v) * u + (u - v) * u;
  });
  CHECK((of_many == of_two || support::heap_serves_a_tool()));
}

#if defined(KOKKOS_ENABLE_OPENMP) && !defined(KOKKOS_ENABLE_CUDA)
TEST_CASE("a kernel of few points runs where it is launched: no other thread is woken, unless a tool is to see it") {
  const auto u = field<Rows>(line(), numbers<double>(extents, 84));
  Rows regions = u;
  const auto most = [&] { return std::ranges::max(regions.to_host()); };
  regions = hg::apply(OpenRegions{}, u);
  CHECK((most() == 0 || support::heap_serves_a_tool()));
  const auto seen = support::kokkos_events([&] { regions = hg::apply(OpenRegions{}, u); });
  CHECK(most() == 1);
  CHECK(seen.launches.at("halogen::assign") == 1);
}
#endif

TEST_CASE("from the second evaluation on nothing is allocated: what moves") {
  const auto mesh = line();
  auto u = field<Rows>(mesh, numbers<double>(extents, 84));
  const auto steady = [&](const std::string& name, auto step) {
    CAPTURE(name);
    for (int t = 0; t < 3; ++t) step();
    CHECK(allocations([&] { step(), step(); }) == "");
  };
  Rows w = u;
  steady("concatenate", [&] { w = hg::slice<0>(hg::concatenate<0>(u, u), 24, 72); });
  steady("redistribute", [&] { w = hg::redistribute<Rows>(hg::redistribute<Columns>(u) * 2.0); });
}

TEST_CASE("what only the run can know is refused on all ranks with a sentence") {
  const auto mesh = line();
  const auto u = field<Rows>(mesh, numbers<double>(extents, 85)),
             narrow = field<Rows>(mesh, numbers<double>(Index<2>{48, 3}, 86));
  const auto refused = [&](auto make) -> std::string {
    try {
      make();
    } catch (const hg::CollectiveError& error) {
      return error.what();
    }
    return "not refused";
  };
  CHECK(
      refused([&] { static_cast<void>(hg::slice<0>(u, 40, 49)); }) ==
      "slice [40, 49) with step 1 of dimension 0 with 48 points: give 0 <= begin < end <= 48 and a step of 1 or more");
  CHECK(refused([&] {
          static_cast<void>(hg::slice<1>(u, 3, 3));
        }).find("slice [3, 3) with step 1 of dimension 1 with 6") == 0);
  CHECK(refused([&] { static_cast<void>(hg::slice<1>(u, -1, 3)); }).find("slice [-1, 3)") == 0);
  CHECK(refused([&] { static_cast<void>(hg::slice<0>(u, 0, 8, 0)); }).find("slice [0, 8) with step 0") == 0);
  CHECK(refused([&] { static_cast<void>(hg::pad<0>(u, -1, 2)); }) ==
        "pad by -1 and 2 points of dimension 0: give 0 or more, at most 2^60; slice takes points away");
  CHECK(refused([&] { static_cast<void>(u + narrow); }) ==
        "operands of one expression have 6 and 3 points in dimension 1: give them the same extents");
  CHECK(refused([&] {
          static_cast<void>(u + hg::slice<0>(u, 0, 47));
        }).find("operands of one expression have 48 and 47") == 0);
  CHECK(refused([&] {
          static_cast<void>(hg::concatenate<0>(u, narrow));
        }).find("operands of one expression have 6 and 3") == 0);
  Rows w = u;
  CHECK(refused([&] { w = hg::slice<0>(u, 0, 12); }) ==
        "an expression of 12 points in dimension 0 is given to a field of 48: they must be equal");
  const auto tall = field<Rows>(mesh, numbers<double>(Index<2>{192, 6}, 87));
  const auto second = hg::slice<0>(tall, 144, 192);
  if (mesh.size() > 2)
    CHECK(refused([&] { w = u + second; }).find("the slice lies far from where it is used") != std::string::npos);
  if (mesh.size() > 1) {
    const auto uneven = field<Rows>(mesh, numbers<double>(extents, 88), 1);
    CHECK(refused([&] {
            w = u + uneven;
          }).find("operands of one expression are cut differently in dimension 0 of 48 points") == 0);
  }
}

}  // namespace test_array_costs
