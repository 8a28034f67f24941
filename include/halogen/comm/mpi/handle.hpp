// An MPI communicator that frees itself, and the one place where MPI's return codes become errors.
#pragma once

#ifdef HALOGEN_WITH_MPI

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C++ bindings were removed from MPI
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <string>
#include <string_view>
#include <utility>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Throws Error `<operation> on "<label>", peer <peer>: MPI fails by error <code> (<MPI's text>)` unless the code says
/// success.
void check_mpi(int code, std::string_view operation, std::string_view label, int peer = -1);
#if HALOGEN_BODIES
HALOGEN_INLINE void check_mpi(int code, std::string_view operation, std::string_view label, int peer) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw Error(std::string(operation) + " on \"" + std::string(label) + "\"" +
              (peer < 0 ? "" : ", peer " + std::to_string(peer)) + ": MPI fails by error " + std::to_string(code) +
              (length > 0 ? " (" + std::string(text, length) + ")" : ""));
}
#endif

/// Owns a communicator of ours (a duplicate or a split, never MPI_COMM_WORLD itself), on which errors return.
class MpiHandle {
 public:
  MpiHandle(MPI_Comm comm, std::string label) : comm_(comm), label_(std::move(label)) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", label_);
  }
  MpiHandle(const MpiHandle&) = delete;
  MpiHandle& operator=(const MpiHandle&) = delete;
  ~MpiHandle();

  MPI_Comm comm() const { return comm_; }
  const std::string& label() const { return label_; }
  int rank() const;
  int size() const;

 private:
  MPI_Comm comm_;
  std::string label_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE MpiHandle::~MpiHandle() {
  int finalized = 0;  // handles may outlive the Environment, in statics
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) MPI_Comm_free(&comm_);
}

HALOGEN_INLINE int MpiHandle::rank() const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank", label_);
  return rank;
}

HALOGEN_INLINE int MpiHandle::size() const {
  int size = 0;
  check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size", label_);
  return size;
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
