// ranks: 1 2 3 4 6
// label: single
// transports: mpi nccl
// program: collectives
// Laws of the room hosts: what a host's ranks own becomes a mesh, its cuts and the order of ranks, or is refused;
// arrays of the host are copied in and out of a piece by their strides. tests/hosts calls the libraries themselves.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "halogen/comm/environment.hpp"
#include "halogen/hosts/host_array.hpp"
#include "halogen/hosts/host_mesh.hpp"

namespace {

using namespace halogen;
using detail::HostPiece;

TEST_CASE("uneven pieces in any order of ranks are a mesh, and pieces that are none are refused") {
  const Communicator world = Environment().world();
  const int across = world.size() % 2 == 0 ? 2 : 1, down = world.size() / across;
  const int place = world.size() - 1 - world.rank();  // the ranks run the other way
  const int y = place / across, x = place % across;
  const index_t rows[] = {0, 2, 3, 7}, columns[] = {0, 5, 9};
  const index_t height = down < 3 ? rows[down] : 7, width = columns[across];
  const std::vector<Interval> own{{0, 1}, {rows[y], rows[y + 1]}, {columns[x], columns[x + 1]}};
  const auto found = detail::decomposition_of(world, own, {1, height, width});
  CHECK(found.mesh == std::vector<int>{1, down, across});
  CHECK(found.cuts[1].bounds == std::vector<index_t>(rows, rows + down + 1));
  CHECK(found.cuts[2].bounds == std::vector<index_t>(columns, columns + across + 1));
  CHECK(found.ranks.rank() == place);
  CHECK_THROWS_WITH_AS(detail::decomposition_of(world, own, {1, height + 1, width}),
                       doctest::Contains("let the ranks own all of them"), CollectiveError);
  if (world.size() == 1) return;
  std::vector<Interval> same = own;  // two ranks own the same points
  if (world.rank() == 0) same = {{0, 1}, {rows[down - 1], height}, {columns[across - 1] + 1, width}};
  CHECK_THROWS_WITH_AS(detail::decomposition_of(world, same, {1, height, width}), doctest::Contains("product of cuts"),
                       CollectiveError);
}

TEST_CASE("an array of the host is read and written by its strides, ghost cells and all") {
  const HostPiece piece{4, {{{0, 1}, {0, 2}, {0, 1}, {4, 7}, {10, 14}}}};
  std::vector<double> host(2 * 5 * 6, -1);  // one ghost cell; rows from the last to the first
  const auto at = [&](index_t c, index_t y, index_t x) -> double& {
    return host[static_cast<std::size_t>(c * 30 + (3 - y) * 6 + x + 1)];
  };
  for (index_t c = 0; c < 2; ++c)
    for (index_t y = 0; y < 3; ++y)
      for (index_t x = 0; x < 4; ++x) at(c, y, x) = static_cast<double>(100 * c + 10 * y + x);
  halogen_array array{&at(0, 0, 0), HALOGEN_FLOAT64, 3, {2, 3, 4}, {30, -6, 1}};
  std::string fault;
  const auto beside = detail::host_array_beside(piece, array, "input 0", false, fault);
  REQUIRE(fault.empty());
  std::vector<float> packed(24);
  const auto view = detail::packed_view(packed.data(), piece);
  detail::copy_into(view, piece, beside);
  for (std::size_t i = 0; i < 24; ++i)
    CHECK(packed[i] == static_cast<float>(100 * (i / 12) + 10 * (i / 4 % 3) + i % 4));
  for (float& value : packed) value += 0.5f;
  detail::copy_out(view, piece, beside);
  CHECK(at(1, 2, 3) == 123.5);
  CHECK(std::count(host.begin(), host.end(), -1.0) == 60 - 24);
  const auto refused = [&](auto change, const char* words) {
    halogen_array other = array;
    change(other);
    std::string sentence;
    detail::host_array_beside(piece, other, "input 0", false, sentence);
    CHECK_MESSAGE(sentence.find(words) != std::string::npos, sentence);
  };
  refused([](halogen_array& a) { a.extent[2] = 5; }, "has extents (2, 3, 5), but this rank's piece has (1, 2, 3, 4)");
  refused([](halogen_array& a) { a.rank = 2; }, "has extents (2, 3)");
  refused([](halogen_array& a) { a.type = 4; }, "has type 4");
  refused([](halogen_array& a) { a.data = nullptr; }, "no data (null)");
}

}  // namespace
