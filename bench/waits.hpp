// How long this rank waits in MPI: these definitions take the place of MPI's own (weak) functions and pass on to PMPI_.
// A wait begins with the first test of an operation that has not arrived yet and ends with the one that finds it.
// Include it in one source file of an executable.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <mpi.h>

#include <chrono>
#include <map>
#include <vector>

namespace bench {

/// Seconds of each operation waited for, in program order, 0 where it had arrived when first asked for.
struct Waits {
  std::vector<double> halos, sums;
  std::map<const MPI_Request*, std::chrono::steady_clock::time_point> open;
  std::map<const MPI_Request*, bool> started;  ///< persistent ones, by their first request: halos
};
inline Waits waits;

}  // namespace bench

extern "C" int MPI_Start(MPI_Request* request) {
  bench::waits.started[request] = true;
  return PMPI_Start(request);
}

extern "C" int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  auto& [halos, sums, open, started] = bench::waits;
  const auto before = std::chrono::steady_clock::now();
  const int code = PMPI_Testall(count, requests, done, statuses);
  const auto first = open.try_emplace(requests, before);
  if (*done != 0) {
    const bool waited = !first.second;
    const std::chrono::duration<double> wait = std::chrono::steady_clock::now() - first.first->second;
    (started[requests] ? halos : sums).push_back(waited ? wait.count() : 0);
    open.erase(requests);
  }
  return code;
}

#endif  // HALOGEN_WITH_MPI
