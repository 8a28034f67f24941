// program: redistribution
// redistribute_between: fields on sub-meshes of some ranks (the first, the last, in reverse order, overlapping or not),
// every pair of placements, and the sentences for what does not fit.
#include "halogen/halo/redistribute_between.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "halogen/halo/redistribute_vjp.hpp"
#include "support/redistribution.hpp"
#include "support/refusal.hpp"

namespace test_redistribute_between {

namespace {

namespace hg = halogen;
using support::columns, support::rows;

hg::Communicator world() { return support::redistribution_world(); }

using Line = hg::Mesh<"a">;
using Grid = hg::Mesh<"a", "b">;
template <class Mesh, class... P>
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Mesh, P...>;
using R = hg::Replicate;
using S0 = hg::Shard<0>;
using S1 = hg::Shard<1>;
using P = hg::Partial<hg::Sum>;

/// Ranks of the world on a mesh of their own.
template <class Mesh>
struct Part {
  std::vector<int> extents, ranks;
  hg::Communicator communicator;

  Part(std::vector<int> mesh_extents, std::vector<int> world_ranks)
      : extents(std::move(mesh_extents)),
        ranks(std::move(world_ranks)),
        communicator(world().split(own() >= 0 ? 0 : -1, own(), "part")) {}

  int own() const {
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] == world().rank()) return static_cast<int>(i);
    return -1;
  }

  /// A field there, and what every rank is to find out of it.
  template <class Field>
  std::pair<Field, support::Placed> field(int salt) const {
    const hg::Decomposition pieces(extents, Field::placements, Mesh::names);
    support::Placed placed{extents, {Field::placements.begin(), Field::placements.end()}, {}, ranks};
    placed.cuts = {support::uneven(rows, pieces.parts(0), salt), support::uneven(columns, pieces.parts(1), salt + 1)};
    if (!communicator) return {Field(), placed};
    typename hg::DeviceMesh<Mesh>::Coordinate mesh_extents;
    std::copy(extents.begin(), extents.end(), mesh_extents.begin());
    return {Field(hg::device_mesh<Mesh>(communicator, mesh_extents), placed.cuts), placed};
  }
};

template <class Source, class Target, class A, class B>
void check(const A& from, const B& to) {
  const std::pair<Source, support::Placed> given = from.template field<Source>(1);
  const std::pair<Target, support::Placed> wanted = to.template field<Target>(2);
  const Source& source = given.first;
  const Target& target = wanted.first;
  auto move = hg::redistribution_between(world(), source, target);
  support::RedistributionLaw(given.second, wanted.second).check(source, target, [&] {
    move.start(source);
    move.finish(target);
  });
}

template <class Mesh, class... Targets, class A, class B>
void check_line(const A& from, const B& to) {
  const auto each = [&]<class Source>(Source) { (check<Source, Plane<Mesh, Targets>>(from, to), ...); };
  each(Plane<Line, R>()), each(Plane<Line, S0>()), each(Plane<Line, S1>()), each(Plane<Line, P>());
}

/// All lines of ranks worth telling apart.
std::vector<Part<Line>> lines() {
  const int size = world().size();
  std::vector<Part<Line>> lines;
  const auto add = [&](const std::vector<int>& ranks) { lines.emplace_back(std::vector{int(ranks.size())}, ranks); };
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  add(all);
  add({all.rbegin(), all.rend()});
  add({all.begin(), all.begin() + (2 * size + 2) / 3});  // 4 of 6
  add({all.begin() + size / 2, all.end()});
  add({all.back()});
  return lines;
}

}  // namespace

TEST_CASE("between lines of other ranks: all pairs of placements") {
  const std::vector<Part<Line>> parts = lines();
  for (const Part<Line>& from : parts)
    for (const Part<Line>& to : parts) check_line<Line, R, S0, S1, P>(from, to);
}

TEST_CASE("between grids and lines") {
  const int size = world().size(), two = size % 2 == 0 ? 2 : 1;
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  const Part<Grid> grid({two, size / two}, all);
  const Part<Grid> small({two, 1}, {all.end() - two, all.end()});
  for (const Part<Line>& line : lines())
    for (const Part<Grid>& of : {grid, small}) {
      check<Plane<Grid, P, S0>, Plane<Line, S1>>(of, line);
      check<Plane<Grid, P, P>, Plane<Line, S0>>(of, line);
      check<Plane<Grid, P, P>, Plane<Line, R>>(of, line);
      check<Plane<Grid, P, R>, Plane<Line, P>>(of, line);
      check<Plane<Grid, S1, R>, Plane<Line, S0>>(of, line);
      check<Plane<Line, S0>, Plane<Grid, R, S0>>(line, of);
      check<Plane<Line, P>, Plane<Grid, S0, S0>>(line, of);
      check<Plane<Line, P>, Plane<Grid, P, S1>>(line, of);
      check<Plane<Line, P>, Plane<Grid, R, S0>>(line, of);
      check<Plane<Line, R>, Plane<Grid, P, S1>>(line, of);
    }
  check<Plane<Grid, P, S0>, Plane<Grid, S1, P>>(grid, small);
  check<Plane<Grid, R, P>, Plane<Grid, S0, S1>>(small, grid);
}

TEST_CASE(
    "a sum that all of the source's ranks want is one all_reduce, one that a single rank wants a reduce_scatter") {
  const int size = world().size();
  const auto source = lines()[0].field<Plane<Line, P>>(1).first;
  const auto reversed = lines()[1].field<Plane<Line, R>>(1).first;
  const hg::CommStatistics before = hg::comm_stats();
  hg::redistribution_between(world(), source, reversed);  // learns who has what
  const hg::CommStatistics start = hg::comm_stats();
  auto move = hg::redistribution_between(world(), source, reversed);
  CHECK((hg::comm_stats() - start) == (start - before));
  const hg::CommStatistics prepared = hg::comm_stats();
  move.start(source), move.finish(reversed);
  const hg::CommStatistics spent = hg::comm_stats() - prepared;
  const auto bytes = static_cast<std::int64_t>(rows * columns * sizeof(double));
  CHECK(spent.all_reduces == (size == 1 ? hg::Tally{} : hg::Tally{1, bytes}));
  CHECK(spent.reduce_scatters == hg::Tally{});
  CHECK(spent.messages == hg::Tally{});
  const auto last = lines()[4].field<Plane<Line, R>>(1).first;
  auto to_last = hg::redistribution_between(world(), source, last);
  const hg::CommStatistics between = hg::comm_stats();
  to_last.start(source), to_last.finish(last);
  const hg::CommStatistics reduced = hg::comm_stats() - between;
  CHECK(reduced.reduce_scatters == (size == 1 ? hg::Tally{} : hg::Tally{1, bytes}));
  CHECK(reduced.all_reduces == hg::Tally{});
  CHECK(reduced.messages == hg::Tally{});
}

TEST_CASE("there and back, once and with a kept handle") {
  const Part<Line> some = lines()[2], all = lines()[0];
  auto fine = all.field<Plane<Line, S0>>(1).first;
  const auto coarse = some.field<Plane<Line, S1>>(2).first;
  auto there = hg::redistribution_between(world(), fine, coarse);
  const auto back = all.field<Plane<Line, S0>>(1).first;
  for (int round = 0; round < 3; ++round) {
    std::vector<double> values(static_cast<std::size_t>(fine.local_extent(0) * columns));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = round + double(i) + 100 * world().rank();
    fine.copy_from_host(values);
    there.start(fine);
    while (!there.test()) {
    }
    there.finish(coarse);
    hg::redistribute_between(world(), coarse, back);
    CHECK(back.to_host() == values);
  }
}

TEST_CASE("its adjoint is the way back of the gradient") {
  const Part<Line> some = lines()[2], all = lines()[0];
  using Source = Plane<Line, S0>;
  const auto check_to = [&]<class Target>(Target) {
    using Cotangent = hg::gradient_field_t<Target>;
    const Source x = all.field<Source>(1).first;
    const Target fx = some.field<Target>(2).first;
    const Cotangent y = some.field<Cotangent>(2).first;
    const hg::gradient_field_t<Source> gradient = all.field<hg::gradient_field_t<Source>>(1).first;
    const auto fill = [&](auto field, int seed) {
      if (field.empty()) return;
      std::vector<double> values = field.to_host();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = double((i * 7 + std::size_t(seed)) % 13) - 6;
      field.copy_from_host(values);
    };
    fill(x, 3 + world().rank());
    fill(y, std::is_same_v<Cotangent, Plane<Line, R>> ? 1 : 1 + some.own());
    hg::redistribute_between(world(), x, fx);
    hg::redistribute_between(world(), y, gradient);
    const auto dot = [&](const auto& a, const auto& b) {
      double sum = 0;
      if (!a.empty()) {
        const std::vector<double> u = a.to_host(), v = b.to_host();
        sum = std::inner_product(u.begin(), u.end(), v.begin(), 0.0);
      }
      world().all_reduce(&sum, 1);
      return sum;
    };
    CHECK(dot(fx, y) == dot(x, gradient));
    CHECK(dot(fx, y) != 0);
  };
  check_to(Plane<Line, R>()), check_to(Plane<Line, S1>()), check_to(Plane<Line, P>());
}

TEST_CASE("what does not fit is refused with one sentence on all ranks") {
  const int size = world().size();
  const auto all = lines()[0].field<Plane<Line, S0>>(1).first;
  const Plane<Line, S0> none;
  const std::string on = "redistribute_between on " + std::to_string(size) + " ranks: ";
  CHECK(support::refusal<hg::CollectiveError>([&] { hg::redistribute_between(world(), none, all); }) ==
        on + "no rank has a source: give it on the ranks of its mesh");
  CHECK(support::refusal<hg::CollectiveError>([&] { hg::redistribute_between(world(), all, none); }) ==
        on + "no rank has a target: give it on the ranks of its mesh");
  const auto mesh = hg::device_mesh<Line>(lines()[0].communicator, {size});
  const Plane<Line, S0> shorter(mesh, {rows - 1, columns});
  CHECK(support::refusal<hg::CollectiveError>([&] { hg::redistribute_between(world(), all, shorter); }) ==
        "redistribute from 7 to 6 points in dimension 0: a field keeps its extents");
  if (size == 1) return;
  const auto& kept = world().rank() == size - 1 ? none : all;  // the last rank forgot to bring its piece
  CHECK(support::refusal<hg::CollectiveError>([&] { hg::redistribute_between(world(), kept, all); }) ==
        on + std::to_string(size - 1) + " have a source, that of rank 0 on mesh " + std::to_string(size) + " (a) of " +
            std::to_string(size) + ": give one field, cut alike, on the ranks of its mesh and no other");
  const auto otherwise = lines()[0].field<Plane<Line, S0>>(world().rank() == 0 ? 1 : 2).first;
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::redistribute_between(world(), all, otherwise);
        }).find("cut alike") != std::string::npos);
}

}  // namespace test_redistribute_between
