// A communicator of MPI for the ranks of a Communicator: libraries that call MPI themselves get one of their own.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <memory>
#include <vector>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/mpi/handle.hpp"

namespace halogen::detail {

/// Collective over `ranks`: an MPI communicator of the same ranks in the same order, which no other message uses. Null
/// where they do not talk over MPI, as one rank alone does not.
inline std::shared_ptr<const MpiHandle> mpi_ranks_of(const Communicator& ranks) {
  if (ranks.transport_name() != "mpi") return nullptr;
  const auto check = [&](int code, const char* what) { check_mpi(code, what, ranks.label()); };
  int own = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &own), "MPI_Comm_rank");
  std::vector<int> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&own, sizeof own, all.data());
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(MPI_Group_incl(world, ranks.size(), all.data(), &group), "MPI_Group_incl");
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return std::make_shared<const MpiHandle>(comm, std::string(ranks.label()) + " for files");
}

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
