// This rank's share of the node it runs on.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <thread>
#include <vector>

#include "halogen/comm/communicator.hpp"

namespace halogen::detail {

/// Which rank of how many on this node, and how many hardware threads are this rank's to use.
struct NodeShare {
  int rank = 0;
  int ranks = 1;
  int threads = 1;
  bool oversubscribed = false;  // ranks have to share hardware threads
};

/// Processors that the container may use at once, in fractions; 0 where there is no limit (cgroup v2).
inline double container_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

/// Collective. A hardware thread that k ranks of the node may run on counts 1/k for each of them, so that bound ranks
/// get all of their own and unbound ones an equal part; at least 1.
inline NodeShare share_of_node(const Communicator& world) {
  const Communicator node = world.split_by_node("node");
  double share = std::thread::hardware_concurrency() / static_cast<double>(node.size());
#ifdef __linux__
  struct Processors {  // nvcc 13 crashes on a vector of cpu_set_t, which has no name of its own
    cpu_set_t set;
  };
  Processors own;
  CPU_ZERO(&own.set);
  if (sched_getaffinity(0, sizeof own.set, &own.set) == 0) {  // fails beyond 1024 processors
    std::vector<Processors> all(static_cast<std::size_t>(node.size()));
    node.all_gather(&own, sizeof own, all.data());
    share = 0;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(processor, &own.set)) continue;
      int users = 0;
      for (const Processors& other : all) users += CPU_ISSET(processor, &other.set) ? 1 : 0;
      share += 1.0 / users;
    }
  }
#endif
  if (const double limit = container_limit(); limit > 0) share = std::min(share, limit / node.size());
  share += 1e-9;  // thirds add up
  return {node.rank(), node.size(), std::max(1, static_cast<int>(share)), share < 1};
}

}  // namespace halogen::detail
