// What a host program that is not C++ knows of MPI: communicators as Fortran's integers, and which MPI it is.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <string>
#include <utility>

#include "halogen/comm/mpi/from_mpi.hpp"

namespace halogen {

/// from_mpi of Fortran's handle, which is an integer in all MPIs: MPI_Comm_c2f(comm), or comm%MPI_VAL of mpi_f08.
inline Communicator from_fortran(int comm, std::string label) {
  detail::require_group_of_mpi(MPI_COMM_NULL, "from_fortran");  // before MPI_Init no handle can be looked up
  return from_mpi(MPI_Comm_f2c(comm), std::move(label));
}

/// What the MPI that this program was linked with calls itself. Works before MPI_Init.
inline std::string version_of_mpi() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace halogen

#endif  // HALOGEN_WITH_MPI
