// How a model lies in a host program's decomposition: mesh, cuts and the order of ranks follow from what ranks own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/comm/guest.hpp"
#include "halogen/model.h"
#include "halogen/placement/cut.hpp"
#ifdef HALOGEN_WITH_MPI
#include "halogen/comm/mpi/from_fortran.hpp"
#endif

namespace halogen::detail {

/// The ranks of a host in the order of a mesh, and its cuts: of the samples, then of space.
struct HostDecomposition {
  Communicator ranks;  ///< in the order of the mesh, whose last dimension varies fastest
  std::vector<int> mesh;
  std::vector<Cut> cuts;
};

inline constexpr const char* names_of_space[3][3] = {{"width"}, {"height", "width"}, {"depth", "height", "width"}};

inline const char* name_of_dimension(int dimensions, int d) {
  return d == 0 ? "samples" : names_of_space[dimensions - 1][d - 1];
}

/// Throws Error where the communicator is none of this library's MPI.
inline Communicator communicator_of(const halogen_setup& setup) {
  if (setup.has_communicator == 0) return {};
#ifdef HALOGEN_WITH_MPI
  Communicator comm = from_fortran(setup.communicator, "host");
  if (!comm) throw Error("create: the communicator is MPI_COMM_NULL: give one with the ranks that run the model");
  return comm;
#else
  throw Error("create: this library was built without MPI, but is given a communicator: link halogen::mpi");
#endif
}

/// Throws Error where this rank's setup is none.
inline void check_setup(const halogen_setup& setup, int dimensions) {
  if (setup.size != static_cast<std::int32_t>(sizeof(halogen_setup)) || setup.abi != HALOGEN_MODEL_ABI)
    throw Error("create: the setup has size " + std::to_string(setup.size) + " and ABI " + std::to_string(setup.abi) +
                ", but this library has " + std::to_string(sizeof(halogen_setup)) + " and " +
                std::to_string(HALOGEN_MODEL_ABI) + ": compile the host with the library's halogen/model.h");
  if (setup.threads < 0 || setup.threads > most_threads)
    throw Error("create: threads is " + std::to_string(setup.threads) + ": give 0 (one) to " +
                std::to_string(most_threads));
  for (int d = 0; d <= dimensions; ++d) {
    const std::string what = std::string("create: dimension '") + name_of_dimension(dimensions, d) + "' ";
    if (setup.extent[d] < (d == 0 ? 0 : 1))
      throw Error(what + "has extent " + std::to_string(setup.extent[d]) + ": give the points of the whole field");
    if (setup.mesh[d] < 0) throw Error(what + "has " + std::to_string(setup.mesh[d]) + " ranks: give 0 or more");
  }
}

/// The distinct pieces of one dimension in their order, which must lie end to end. Throws CollectiveError.
inline Cut cut_of_pieces(std::vector<Interval> pieces, index_t extent, const char* name) {
  std::ranges::sort(pieces, [](const Interval& a, const Interval& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  Cut cut;
  cut.bounds.assign(1, 0);
  const auto text = [](const Interval& piece) {
    return "[" + std::to_string(piece.begin) + ", " + std::to_string(piece.end) + ")";
  };
  for (const Interval& piece : pieces) {
    if (piece.end < piece.begin || piece.begin != cut.bounds.back())
      throw CollectiveError(std::string("create: along '") + name + "' a rank owns " + text(piece) +
                            ", but the pieces before end at " + std::to_string(cut.bounds.back()) +
                            ": pieces of a dimension are equal or lie end to end. For a decomposition that is no "
                            "product of cuts (tiles of a sphere, space-filling curves) give each column as a sample: "
                            "cut 'samples' alone, which needs no halo");
    cut.bounds.push_back(piece.end);
  }
  if (cut.extent() != extent)
    throw CollectiveError(std::string("create: along '") + name + "' the pieces end at " +
                          std::to_string(cut.extent()) + ", but the field has " + std::to_string(extent) +
                          " points: let the ranks own all of them");
  return cut;
}

/// From the pieces of all ranks, [begin, end) of each dimension: mesh, cuts, and this rank's place in the mesh.
inline HostDecomposition decomposition_of(const Communicator& comm, const std::vector<Interval>& own,
                                          const std::vector<index_t>& extent) {
  const auto dimensions = own.size();
  std::vector<Interval> all(dimensions * static_cast<std::size_t>(comm.size()));
  comm.all_gather(own.data(), dimensions * sizeof(Interval), all.data());
  HostDecomposition result;
  std::int64_t place = 0, places = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::vector<Interval> pieces;
    for (std::size_t i = d; i < all.size(); i += dimensions) pieces.push_back(all[i]);
    const Cut cut =
        cut_of_pieces(pieces, extent[d], name_of_dimension(static_cast<int>(dimensions) - 1, static_cast<int>(d)));
    int part = 0;
    while (cut.piece(part) != own[d]) ++part;
    place = place * cut.parts() + part, places *= cut.parts();
    result.mesh.push_back(cut.parts()), result.cuts.push_back(cut);
  }
  std::vector<std::int64_t> taken(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&place, sizeof place, taken.data());
  std::ranges::sort(taken);
  if (places != comm.size() || std::ranges::adjacent_find(taken) != taken.end())
    throw CollectiveError("create: the pieces of " + std::to_string(comm.size()) + " ranks are no mesh: they have " +
                          std::to_string(places) +
                          " combinations of cuts, and each must be owned by one rank. For a decomposition that is no "
                          "product of cuts give each column as a sample: cut 'samples' alone, which needs no halo");
  result.ranks = comm.split(0, static_cast<int>(place), "host");
  return result;
}

/// Collective over the setup's communicator. Throws CollectiveError, on all ranks alike, where setups are wrong or do
/// not fit together.
inline HostDecomposition host_decomposition(const halogen_setup& setup, int dimensions) {
  const Communicator comm = communicator_of(setup);
  agree(comm, [&] {
    check_setup(setup, dimensions);
    start_as_guest(std::max(setup.threads, 1));
  });
  std::vector<index_t> extent, numbers;
  std::vector<Interval> own;
  bool has_mesh = true;
  for (int d = 0; d <= dimensions; ++d) {
    extent.push_back(d == 0 ? std::max<std::int64_t>(setup.extent[0], 1) : setup.extent[d]);
    own.push_back({setup.begin[d], setup.end[d]});
    has_mesh = has_mesh && setup.mesh[d] > 0;
    numbers.push_back(extent.back());
  }
  if (setup.extent[0] == 0 && setup.end[0] == 0) own[0] = {0, 1};
  for (int d = 0; d <= dimensions; ++d) numbers.push_back(has_mesh ? setup.mesh[d] : 0);
  std::vector<index_t> least = numbers;
  comm.all_reduce(least.data(), least.size(), ReduceOp::min);
  agree(comm, [&] {
    if (least != numbers)
      throw Error("create: extents or mesh differ between ranks: give all ranks those of the whole field");
  });
  if (!has_mesh) return decomposition_of(comm, own, extent);
  HostDecomposition result{comm, {}, {}};
  std::int64_t ranks = 1;
  for (int d = 0; d <= dimensions; ++d) {
    ranks *= setup.mesh[d];
    result.mesh.push_back(setup.mesh[d]);
    result.cuts.push_back(Cut::balanced(extent[static_cast<std::size_t>(d)], setup.mesh[d]));
  }
  if (ranks != comm.size())
    throw CollectiveError("create: the mesh has " + std::to_string(ranks) + " places, but the communicator has " +
                          std::to_string(comm.size()) + " ranks: give one place to each rank");
  return result;
}

}  // namespace halogen::detail
