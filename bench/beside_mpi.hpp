// Halogen beside hand-written MPI of the same pattern, in one process, in turn; a line of JSON for each name.
//
//   mpirun -n 2 bench_X [NAME]...
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <halogen/halogen.hpp>
#include <string>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

/// Kokkos allocations since the program began.
inline int allocations = 0;
inline void count_allocation(const Kokkos::Tools::SpaceHandle, const char*, const void*, const std::uint64_t) {
  ++allocations;
}

/// Milliseconds of one call, all ranks starting together.
template <class F>
double time_of(int repeats, F f) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) f();
  Kokkos::fence("bench::time_of");
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / repeats;
}

/// Both in turn, 15 times after a first; prints the times of each turn and the allocations of one more, before which a
/// tool would see the launches and make them dearer.
template <class Ours, class Theirs>
void compare(const hg::Environment& env, const std::string& name, int repeats, Ours ours, Theirs theirs) {
  std::string halogen, peer;
  const auto append = [](std::string& list, double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, list.empty() ? "%.6g" : ", %.6g", value);
    list += digits;
  };
  for (int turn = -1; turn < 15; ++turn) {
    const double a = time_of(repeats, ours), b = time_of(repeats, theirs);
    if (turn < 0) continue;
    append(halogen, a), append(peer, b);
  }
  const int before = allocations;
  Kokkos::Tools::Experimental::set_allocate_data_callback(count_allocation);
  time_of(repeats, ours);
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  if (env.is_root())
    std::printf(
        "{\"name\": \"%s\", \"ranks\": %d, \"milliseconds\": [%s], \"peer_milliseconds\": [%s], \"allocations\": %d}\n",
        name.c_str(), env.world().size(), halogen.c_str(), peer.c_str(), allocations - before);
  std::fflush(stdout);
}

/// Whether the command line asks for it: by name, or for all by none.
inline bool wanted(int argc, char** argv, const std::string& name) {
  bool any = argc == 1;
  for (int i = 1; i < argc; ++i) any = any || name == argv[i];
  return any;
}

}  // namespace bench
