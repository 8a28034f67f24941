// A communicator of MPI for the ranks of a Communicator: libraries that call MPI themselves get one of their own.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <memory>
#include <string>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/mpi/transport.hpp"

namespace halogen::detail {

/// Collective over `ranks`: an MPI communicator of the same ranks in the same order, which no other message uses. Null
/// where they do not talk over MPI, as one rank alone does not.
inline std::shared_ptr<const MpiHandle> mpi_ranks_of(const Communicator& ranks) {
  const std::shared_ptr<const MpiHandle> own = ranks.mpi_handle();
  if (own == nullptr) return nullptr;
  return MpiTransport::handle_of_copy(own->comm(), std::string(ranks.label()) + " for files");
}

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
