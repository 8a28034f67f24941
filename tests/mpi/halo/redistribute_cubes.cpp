// ranks: 1 2 3 4 6 8
// guard: 1
// redistribute on meshes of three dimensions: all 4096 pairs of placement tuples, every value and byte, and the adjoint
// identity. Placements are numbers here, since the types of so many would take minutes to compile
// (tests/mpi/halo/redistribute.cpp and redistribute_vjp.cpp have the typed pairs).
// optimise: 1
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "support/redistribution.hpp"

namespace {

namespace hg = halogen;
using support::columns, support::rows;
using Cube = hg::Mesh<"a", "b", "c">;

hg::Communicator world() { return support::redistribution_world(); }

/// Raw values of one rank's piece.
struct Piece {
  Kokkos::View<double*, hg::memory_space> values;
  hg::StridedView<double, 2> view;

  explicit Piece(const hg::Box<2>& box) : values("halogen::test_piece", static_cast<std::size_t>(box.points())) {
    view = {values.data(), {box.side[1].size(), 1}, {box.side[0].begin, box.side[1].begin}};
  }
  std::vector<double> to_host() const { return hg::host_copy(values); }
  void copy_from_host(const std::vector<double>& all) { hg::copy_to_view(values, all); }
};

support::Placed placed(const hg::DeviceMesh<Cube>& mesh, int tuple, int salt) {
  support::Placed field{{mesh.extents().begin(), mesh.extents().end()}, {}, {}, {}};
  for (int i = 0; i < 3; ++i, tuple /= 4)
    field.codes.push_back(tuple % 4 - 2);  // Partial, Replicate, Shard<0>, Shard<1>
  const hg::Decomposition pieces(field.extents, field.codes, Cube::names);
  const auto cut = [&](hg::index_t extent, int parts) {
    return salt == 0 ? hg::Cut::chunk(extent, parts) : support::uneven(extent, parts, salt + parts);
  };
  field.cuts = {cut(rows, pieces.parts(0)), cut(columns, pieces.parts(1))};
  return field;
}

/// f(in, out) of fields placed and cut so, on their mesh.
hg::detail::PreparedRedistribution<double, 2> prepare(const hg::DeviceMesh<Cube>& mesh, const support::Placed& source,
                                                      const support::Placed& target) {
  const hg::PlacementMoves moves = hg::moves_on_one_mesh(source.codes, target.codes);
  return {
      world(), source.pieces(), target.pieces(), moves, mesh.communicator(moves.scatter), mesh.communicator(moves.all)};
}

void check(const hg::DeviceMesh<Cube>& mesh, int from, int to, int salt) {
  const support::Placed source = placed(mesh, from, salt), target = placed(mesh, to, 2 * salt);
  Piece in(source.pieces().box(world().rank())), out(target.pieces().box(world().rank()));
  auto prepared = prepare(mesh, source, target);
  support::RedistributionLaw(source, target).check(in, out, [&] {
    prepared.start(in.view);
    prepared.finish(out.view);
  });
}

/// Placed as the gradient is: Replicate and Partial change places.
support::Placed gradient_of(support::Placed field) {
  for (int& code : field.codes)
    if (code < 0) code = code == hg::partial_code ? hg::replicate_code : hg::partial_code;
  return field;
}

/// Numbers that a field placed so may hold: equal on replicas, any summands.
Piece filled(const support::Placed& field, int seed) {
  const hg::FieldPieces<2> pieces = field.pieces();
  const int rank = world().rank();
  Piece piece(pieces.box(rank));
  std::vector<double> values;
  support::for_each_point([&](const support::Point& x) {
    if (support::holds(pieces.box(rank), x))
      values.push_back(support::summand(seed + pieces.position(rank, field.mask(hg::partial_code)), x));
  });
  piece.copy_from_host(values);
  return piece;
}

/// <f(x), y> - <x, vjp(y)> on this rank: the sum over all ranks is to vanish.
double adjoint_defect(const hg::DeviceMesh<Cube>& mesh, const support::Placed& source, const support::Placed& target) {
  const support::Placed cotangent = gradient_of(target), gradient = gradient_of(source);
  Piece x = filled(source, 0), y = filled(cotangent, 5);
  Piece fx = filled(target, 11), vy = filled(gradient, 12);  // to be overwritten
  auto forward = prepare(mesh, source, target), backward = prepare(mesh, cotangent, gradient);
  forward.move(x.view, fx.view);
  backward.move(y.view, vy.view);
  const auto dot = [](const Piece& a, const Piece& b) {
    const std::vector<double> u = a.to_host(), v = b.to_host();
    return std::inner_product(u.begin(), u.end(), v.begin(), 0.0);
  };
  return dot(fx, y) - dot(x, vy);
}

}  // namespace

TEST_CASE("the adjoint identity for all 4096 pairs, on one mesh after the other") {
  support::Meshes<Cube> meshes;
  for (int a = 1; a <= world().size(); ++a)
    for (int b = 1; a * b <= world().size(); ++b)
      if (world().size() % (a * b) == 0) meshes.push_back(hg::device_mesh<Cube>(world(), {a, b, -1}));
  std::vector<double> defects;
  for (int from = 0; from < 64; ++from)
    for (int to = 0; to < 64; ++to) {
      const auto& mesh = meshes[static_cast<std::size_t>(from * 5 + to) % meshes.size()];
      defects.push_back(adjoint_defect(mesh, placed(mesh, from, 1), placed(mesh, to, 2)));
    }
  world().all_reduce(defects.data(), defects.size());
  CHECK(std::count(defects.begin(), defects.end(), 0.0) == 4096);
}

TEST_CASE("three mesh dimensions: all 4096 pairs on all meshes of the ranks") {
  int salt = 0;
  for (int a = 1; a <= world().size(); ++a)
    for (int b = 1; a * b <= world().size(); ++b) {
      if (world().size() % (a * b) != 0) continue;
      const auto mesh = hg::device_mesh<Cube>(world(), {a, b, -1});
      for (int from = 0; from < 64; ++from)
        for (int to = 0; to < 64; ++to) check(mesh, from, to, ++salt % 3);
    }
}
