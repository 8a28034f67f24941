// Memory that is refused: what fitted before goes on fitting, and buffers that nobody holds are given up first.
#include <doctest/doctest.h>

#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <vector>
#include "support/convolutions.hpp"

#include "support/kokkos_events.hpp"
#include "support/processes.hpp"
#include "support/refusal.hpp"

namespace {

constexpr std::size_t absurd = std::size_t{1} << 60;

using Line = hg::Mesh<"x">;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
using Whole = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Line, hg::Replicate>;
using Net = hg::Sequential<hg::Conv2d<1, 2, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<1, 2>, hg::Conv2d<2, 1>>;

/// In global variables, which end after the Environment of main.
struct Globals {
  Image field;
  std::optional<hg::DeviceMesh<Line>> mesh;
  std::optional<hg::Parameters<Net, float>> parameters;
  std::optional<hg::Trainer<Net, hg::AdamW, Line>> trainer;
  std::optional<hg::Redistribution<Whole, Image>> move;
  ~Globals() {
    if (field.empty()) return;
    const auto says = [](auto f) { std::puts(("after: " + support::refusal<hg::CollectiveError>(f)).c_str()); };
    says([&] { field.to_host(); });
    says([&] { field = field + 1.0f; });
    says([&] { Image another(*mesh, {1, 1, 4, 4}); });
    says([&] { hg::initial_parameters<Net, float>(2); });
    says([&] { parameters->to_host(); });
    std::puts("globals end");
  }
} globals;

/// What a program says that makes these before it makes an Environment, when nothing has been initialised.
struct BeforeMain {
  std::vector<std::string> said;
  BeforeMain() {
    const auto note = [&](auto f) { said.push_back(support::refusal<hg::CollectiveError>(f)); };
    const auto mesh = hg::device_mesh<Line>(hg::Communicator(), {-1});  // of this process alone: it needs none
    note([&] { Image(mesh, {1, 1, 8, 8}); });
    note([&] { hg::distribute_tensor<Whole>(mesh, {1, 1, 2, 2}, std::vector<float>(4)); });
    note([&] { hg::initial_parameters<Net, float>(1); });
    note([&] { hg::Parameters<Net, float>(); });
    note([&] { hg::Trainer(Net{}, hg::AdamW{}, mesh); });
    note([&] { hg::Arena().reserve(4096); });
    note([&] { Image(hg::dry_mesh<Line>({2}), {1, 1, 8, 8}); });
  }
} before_main;

}  // namespace

TEST_CASE("without an Environment, fields and networks say so in one sentence") {
  REQUIRE(before_main.said.size() == 7);
  for (const std::string& sentence : before_main.said)
    CHECK(sentence ==
          "there is no halogen::Environment: make one first in main, halogen::Environment env(argc, argv), and use "
          "fields and parameters only while it lives");
}

TEST_CASE("an arena that may not grow is as large as before") {
  hg::Arena arena;
  CHECK(support::refusal([&] { arena.reserve(absurd); }).find("refuses: use more ranks or a smaller field") !=
        std::string::npos);
  CHECK(arena.bytes() == 0);
  arena.reserve(4096);
  CHECK_THROWS_AS(arena.reserve(absurd), hg::Error);
  CHECK(arena.bytes() == 4096);
  Kokkos::View<std::byte*, hg::memory_space, Kokkos::MemoryUnmanaged> bytes(arena.at<std::byte>(0), 4096);
  Kokkos::deep_copy(bytes, std::byte{1});
}

TEST_CASE("a refusal frees what is kept for reuse, and asks once more") {
  int calls = 0, freed = 0;
  hg::detail::free_buffers().push_back([&] { ++freed; });
  const int made = hg::allocated(1, "numbers", "nothing", [&] {
    if (++calls == 1) throw std::bad_alloc();
    return 7;
  });
  CHECK(made == 7);
  CHECK(calls == 2);
  CHECK(freed == 1);
  CHECK(support::refusal([&] {
          hg::allocated(std::size_t{5} << 20, "numbers", "take fewer", []() -> int { throw std::bad_alloc(); });
        }).find("this rank's numbers need 5 MiB") == 0);
  CHECK(freed == 2);
  hg::detail::free_buffers().pop_back();
}

TEST_CASE("buffers of fields that died are what a refusal frees") {
  using Grid = hg::Mesh<"height">;
  using Field = hg::Sharded<hg::Tensor<float, hg::dyn>, Grid, hg::Shard<0>>;
  const hg::Environment environment;
  const auto mesh = hg::device_mesh<Grid>(environment.world(), {-1});
  const auto allocations = [&] {
    const auto events = support::kokkos_events([&] { const Field field(mesh, {1000}); });
    return events.allocations.size();
  };
  allocations();
  CHECK(allocations() == 0);  // a buffer is used again
  CHECK_THROWS_AS(hg::Arena().reserve(absurd), hg::Error);
  CHECK(allocations() == 1);
  CHECK(allocations() == 0);
}

TEST_CASE("child leaves all kinds of things in global variables" * doctest::skip()) {
  globals.mesh = hg::device_mesh<Line>(hg::Environment().world(), {-1});
  globals.field = Image(*globals.mesh, {1, 1, 8, 8});
  globals.field = hg::shift<2, 1>(hg::with_boundary<hg::Zero, hg::Zero, hg::Periodic, hg::Zero>(globals.field)) + 1.0f;
  globals.parameters = hg::initial_parameters<Net, float>(1);
  globals.trainer.emplace(Net{}, hg::AdamW{.max_norm = 1}, *globals.mesh);
  globals.trainer->step(hg::mse, globals.field, globals.field).item();
  const Whole whole(*globals.mesh, {1, 1, 8, 8});
  globals.move.emplace(globals.field, whole);
  globals.move->move(globals.field, whole);
}

TEST_CASE("what outlives its Environment ends with the process, without a word") {
  const support::Ended ended =
      support::shell("env -u OMP_PROC_BIND " + support::this_executable() + " --no-skip '--test-case=child leaves*'");
  CAPTURE(ended.output);
  CHECK(ended.status == 0);
  CHECK(support::count(ended.output,
                       "after: there is no halogen::Environment: make one first in main, "
                       "halogen::Environment env(argc, argv), and use fields and parameters only while "
                       "it lives\n") == 5);
  CHECK(support::count(ended.output, "globals end\n") == 1);
  CHECK(support::count(ended.output, "Kokkos") == 0);
}
