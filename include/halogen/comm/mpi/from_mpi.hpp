// Ranks that another part of the program has brought together: a Communicator from its communicator of MPI.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <string>
#include <utility>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/mpi/transport.hpp"
#include "halogen/core/config.hpp"

namespace halogen {
namespace detail {

/// Throws Error where MPI does not run, or `comm` is an intercommunicator. `user`: who was given it.
void require_group_of_mpi(MPI_Comm comm, const std::string& user);
#if HALOGEN_BODIES
HALOGEN_INLINE void require_group_of_mpi(MPI_Comm comm, const std::string& user) {
  int runs = 0, has_ended = 0, has_two_groups = 0;
  check_mpi(MPI_Initialized(&runs), "MPI_Initialized", user);
  check_mpi(MPI_Finalized(&has_ended), "MPI_Finalized", user);
  if (!runs || has_ended)
    throw Error(user + ": MPI does not run: call MPI_Init before, and MPI_Finalize behind all that uses Halogen");
  if (comm == MPI_COMM_NULL) return;
  check_mpi(MPI_Comm_test_inter(comm, &has_two_groups), "MPI_Comm_test_inter", user);
  if (has_two_groups)
    throw Error(user + ": an intercommunicator has two groups of ranks: make one of both with MPI_Intercomm_merge");
}
#endif

}  // namespace detail

/// Collective over `comm`, which is duplicated and stays the caller's: no message of one meets one of the other. The
/// ranks keep their numbers; MPI_COMM_NULL, which MPI_Comm_split gives to those left out, gives a null communicator.
/// Messages go over MPI whatever the transport of the Environment is. Free it, with all meshes and fields made over it,
/// before MPI_Finalize. Throws Error where MPI does not run, or for an intercommunicator. `label` names it in errors.
///
///   auto mesh = halogen::device_mesh<Mesh>(halogen::from_mpi(ocean_comm, "ocean"), {-1, 2});
Communicator from_mpi(MPI_Comm comm, std::string label);
#if HALOGEN_BODIES
HALOGEN_INLINE Communicator from_mpi(MPI_Comm comm, std::string label) {
  detail::require_group_of_mpi(comm, "from_mpi");
  if (comm == MPI_COMM_NULL) return Communicator::null();
  return Communicator(detail::MpiTransport::duplicate(comm, std::move(label)));
}
#endif

}  // namespace halogen

#endif  // HALOGEN_WITH_MPI
