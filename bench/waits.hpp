// How long this rank waits in MPI: these definitions take the place of MPI's own (weak) functions and pass on to PMPI_.
// A wait is tests of an operation in a row, from the first that does not find it to the one that does. Between polls
// the rank computes: where a test comes later than a test or a yield of the core takes, the wait begins anew. Include
// it in one source file of an executable.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <mpi.h>

#include <chrono>
#include <map>
#include <vector>

namespace bench {

/// Seconds of each operation, in program order: of the wait that ended with it.
struct Waits {
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::microseconds between_tests{20};  ///< at most; parts of a launch take more than 100
  struct Open {
    Time begin, last_test;
  };
  std::vector<double> halos, sums;
  std::map<const MPI_Request*, Open> open;
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
  const auto after = std::chrono::steady_clock::now();
  const auto found = open.find(requests);
  const bool waits_on = found != open.end() && before - found->second.last_test <= bench::Waits::between_tests;
  if (*done == 0) {
    open[requests] = {waits_on ? found->second.begin : before, after};
  } else {
    const std::chrono::duration<double> wait = after - (waits_on ? found->second.begin : before);
    (started[requests] ? halos : sums).push_back(wait.count());
    open.erase(requests);
  }
  return code;
}

#endif  // HALOGEN_WITH_MPI
