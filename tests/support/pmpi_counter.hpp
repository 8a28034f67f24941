// Counts what this rank asks of MPI, below the library and independent of it: these definitions take the place of MPI's
// own (weak) functions in the executable and pass on to PMPI_. Include it in one source file of an executable.
#pragma once

#ifdef HALOGEN_WITH_MPI

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // as the library does
#endif
#include <mpi.h>

#include <cstdint>
#include <map>
#include <numeric>

namespace pmpi {

struct Tally {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// Point-to-point sends, and collectives by kind with this rank's payload (what it contributes; for broadcast and
/// scatter what it obtains). `others` are calls that the library has no business making; `inits` persistent sends and
/// receives created, `communicators` those made by dup and split.
struct Counts {
  Tally messages, all_reduces, reduce_scatters, all_gathers, broadcasts, gathers, scatters, barriers, others;
  std::int64_t inits = 0;
  std::int64_t communicators = 0;
};

inline Counts counts;

/// Bytes that each persistent send moves when started.
inline std::map<MPI_Request, std::int64_t>& persistent_sends() {
  static std::map<MPI_Request, std::int64_t> sends;
  return sends;
}

inline std::int64_t bytes_of(std::int64_t count, MPI_Datatype type) {
  int width = 0;
  PMPI_Type_size(type, &width);
  return count * width;
}

/// Of one count for each rank.
inline std::int64_t sum(const int counts[], MPI_Comm comm) {
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  return std::accumulate(counts, counts + ranks, std::int64_t{0});
}

inline void add(Tally& tally, std::int64_t count, MPI_Datatype type) {
  ++tally.count;
  tally.bytes += bytes_of(count, type);
}

inline void start(MPI_Request request) {
  const auto send = persistent_sends().find(request);
  if (send == persistent_sends().end()) return;
  ++counts.messages.count;
  counts.messages.bytes += send->second;
}

inline int remember(int code, MPI_Request request, std::int64_t bytes) {
  ++counts.inits;
  persistent_sends()[request] = bytes;
  return code;
}

}  // namespace pmpi

#define HALOGEN_PMPI(Name, Kind, Count, Type, Parameters, Arguments) \
  extern "C" int MPI_##Name Parameters {                             \
    pmpi::add(pmpi::counts.Kind, Count, Type);                       \
    return PMPI_##Name Arguments;                                    \
  }

// clang-format off: one MPI function a line
HALOGEN_PMPI(Send, messages, n, t, (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c),
             (d, n, t, to, tag, c))
HALOGEN_PMPI(Ssend, messages, n, t, (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c),
             (d, n, t, to, tag, c))
HALOGEN_PMPI(Bsend, messages, n, t, (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c),
             (d, n, t, to, tag, c))
HALOGEN_PMPI(Rsend, messages, n, t, (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c),
             (d, n, t, to, tag, c))
HALOGEN_PMPI(Isend, messages, n, t, (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r),
             (d, n, t, to, tag, c, r))
HALOGEN_PMPI(Issend, messages, n, t,
             (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r),
             (d, n, t, to, tag, c, r))
HALOGEN_PMPI(Irsend, messages, n, t,
             (const void* d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r),
             (d, n, t, to, tag, c, r))
HALOGEN_PMPI(Sendrecv, messages, n, t,
             (const void* d, int n, MPI_Datatype t, int to, int tag, void* e, int m, MPI_Datatype u, int from, int tag2,
              MPI_Comm c, MPI_Status* s),
             (d, n, t, to, tag, e, m, u, from, tag2, c, s))
HALOGEN_PMPI(Allreduce, all_reduces, n, t, (const void* d, void* e, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
             (d, e, n, t, o, c))
HALOGEN_PMPI(Iallreduce, all_reduces, n, t,
             (const void* d, void* e, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
             (d, e, n, t, o, c, r))
HALOGEN_PMPI(Allgather, all_gathers, m, u,
             (const void* d, int n, MPI_Datatype t, void* e, int m, MPI_Datatype u, MPI_Comm c), (d, n, t, e, m, u, c))
HALOGEN_PMPI(Iallgather, all_gathers, m, u,
             (const void* d, int n, MPI_Datatype t, void* e, int m, MPI_Datatype u, MPI_Comm c, MPI_Request* r),
             (d, n, t, e, m, u, c, r))
HALOGEN_PMPI(Allgatherv, all_gathers, n, t,
             (const void* d, int n, MPI_Datatype t, void* e, const int m[], const int o[], MPI_Datatype u, MPI_Comm c),
             (d, n, t, e, m, o, u, c))
HALOGEN_PMPI(Iallgatherv, all_gathers, n, t,
             (const void* d, int n, MPI_Datatype t, void* e, const int m[], const int o[], MPI_Datatype u, MPI_Comm c,
              MPI_Request* r),
             (d, n, t, e, m, o, u, c, r))
HALOGEN_PMPI(Bcast, broadcasts, n, t, (void* d, int n, MPI_Datatype t, int root, MPI_Comm c), (d, n, t, root, c))
HALOGEN_PMPI(Ibcast, broadcasts, n, t, (void* d, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r),
             (d, n, t, root, c, r))
HALOGEN_PMPI(Gather, gathers, n, t,
             (const void* d, int n, MPI_Datatype t, void* e, int m, MPI_Datatype u, int root, MPI_Comm c),
             (d, n, t, e, m, u, root, c))
HALOGEN_PMPI(Gatherv, gathers, n, t,
             (const void* d, int n, MPI_Datatype t, void* e, const int m[], const int o[], MPI_Datatype u, int root,
              MPI_Comm c),
             (d, n, t, e, m, o, u, root, c))
HALOGEN_PMPI(Igatherv, gathers, n, t,
             (const void* d, int n, MPI_Datatype t, void* e, const int m[], const int o[], MPI_Datatype u, int root,
              MPI_Comm c, MPI_Request* r),
             (d, n, t, e, m, o, u, root, c, r))
HALOGEN_PMPI(Scatter, scatters, m, u,
             (const void* d, int n, MPI_Datatype t, void* e, int m, MPI_Datatype u, int root, MPI_Comm c),
             (d, n, t, e, m, u, root, c))
HALOGEN_PMPI(Scatterv, scatters, m, u,
             (const void* d, const int n[], const int o[], MPI_Datatype t, void* e, int m, MPI_Datatype u, int root,
              MPI_Comm c),
             (d, n, o, t, e, m, u, root, c))
HALOGEN_PMPI(Iscatterv, scatters, m, u,
             (const void* d, const int n[], const int o[], MPI_Datatype t, void* e, int m, MPI_Datatype u, int root,
              MPI_Comm c, MPI_Request* r),
             (d, n, o, t, e, m, u, root, c, r))
HALOGEN_PMPI(Barrier, barriers, 0, MPI_BYTE, (MPI_Comm c), (c))
HALOGEN_PMPI(Ibarrier, barriers, 0, MPI_BYTE, (MPI_Comm c, MPI_Request* r), (c, r))
HALOGEN_PMPI(Ireduce, reduce_scatters, n, t,  // only as a piece of a long reduce_scatter_v
             (const void* d, void* e, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c, MPI_Request* r),
             (d, e, n, t, o, root, c, r))
HALOGEN_PMPI(Reduce_scatter, reduce_scatters, pmpi::sum(n, c), t,
             (const void* d, void* e, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c), (d, e, n, t, o, c))
HALOGEN_PMPI(Ireduce_scatter, reduce_scatters, pmpi::sum(n, c), t,
             (const void* d, void* e, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
             (d, e, n, t, o, c, r))
HALOGEN_PMPI(Reduce, others, n, t, (const void* d, void* e, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
             (d, e, n, t, o, root, c))
HALOGEN_PMPI(Scan, others, n, t, (const void* d, void* e, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
             (d, e, n, t, o, c))
HALOGEN_PMPI(Alltoall, others, n, t, (const void* d, int n, MPI_Datatype t, void* e, int m, MPI_Datatype u, MPI_Comm c),
             (d, n, t, e, m, u, c))
HALOGEN_PMPI(Alltoallv, others, pmpi::sum(n, c), t,
             (const void* d, const int n[], const int o[], MPI_Datatype t, void* e, const int m[], const int p[],
              MPI_Datatype u, MPI_Comm c),
             (d, n, o, t, e, m, p, u, c))
// clang-format on
#undef HALOGEN_PMPI

extern "C" {

int MPI_Send_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  const int code = PMPI_Send_init(data, count, type, to, tag, comm, request);
  return pmpi::remember(code, *request, pmpi::bytes_of(count, type));
}

int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  ++pmpi::counts.inits;
  return PMPI_Recv_init(data, count, type, from, tag, comm, request);
}

int MPI_Request_free(MPI_Request* request) {
  pmpi::persistent_sends().erase(*request);
  return PMPI_Request_free(request);
}

int MPI_Start(MPI_Request* request) {
  pmpi::start(*request);
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i) pmpi::start(requests[i]);
  return PMPI_Startall(count, requests);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++pmpi::counts.communicators;
  return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++pmpi::counts.communicators;
  return PMPI_Comm_split(comm, color, key, part);
}

}  // extern "C"

#endif  // HALOGEN_WITH_MPI
