// This rank's share of the node it runs on.
#pragma once

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "halogen/core/config.hpp"

namespace halogen::detail {

/// The threads that Kokkos has places for in OpenMP (MAX_THREAD_COUNT); with more it writes beyond them.
inline constexpr int most_threads = 512;

/// Which rank of how many on this node, and how many hardware threads are this rank's to use.
struct NodeShare {
  int rank = 0;
  int ranks = 1;
  int threads = 1;
  bool oversubscribed = false;  // ranks have to share hardware threads
};

/// Processors that the container may use at once, in fractions; 0 where there is no limit (cgroup v2).
double container_limit();
#if HALOGEN_BODIES
HALOGEN_INLINE double container_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}
#endif

/// Equal for processes of one running system, whatever containers they are in.
std::uint64_t node_identity();
#if HALOGEN_BODIES
HALOGEN_INLINE std::uint64_t node_identity() {
  std::string name;
  if (!(std::ifstream("/proc/sys/kernel/random/boot_id") >> name)) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    name = host;
  }
  return std::hash<std::string>()(name);
}
#endif

/// Another number for each container, among those of one node: its share of processors is its own.
std::uint64_t container_identity();
#if HALOGEN_BODIES
HALOGEN_INLINE std::uint64_t container_identity() {
  struct stat root {};
  return stat("/sys/fs/cgroup", &root) == 0 ? static_cast<std::uint64_t>(root.st_ino) : 0;
}
#endif

/// What ranks tell each other about the node they run on.
struct NodePlace {
  std::uint64_t node = node_identity(), container = container_identity();
  bool knows_processors = false;
#ifdef __linux__
  cpu_set_t processors{};
#endif
};

/// Collective: all_gather(own, bytes, all) is called once. A hardware thread that k ranks of the node may run on counts
/// 1/k for each of them, so that bound ranks get all of their own and unbound ones an equal part; at least 1.
template <class AllGather>
NodeShare share_of_node(int rank, int size, AllGather&& all_gather) {
  NodePlace own;
#ifdef __linux__
  own.knows_processors = sched_getaffinity(0, sizeof own.processors, &own.processors) == 0;  // fails beyond 1024
#endif
  std::vector<NodePlace> all(static_cast<std::size_t>(size));
  all_gather(&own, sizeof own, all.data());
  const auto before = all.begin() + rank;
  const auto here = [&own](const NodePlace& other) { return other.node == own.node; };
  NodeShare result;
  result.rank = static_cast<int>(std::count_if(all.begin(), before, here));
  std::erase_if(all, [&here](const NodePlace& other) { return !here(other); });
  result.ranks = static_cast<int>(all.size());
  double share = std::thread::hardware_concurrency() / static_cast<double>(all.size());
#ifdef __linux__
  if (own.knows_processors) {
    share = 0;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(processor, &own.processors)) continue;
      int users = 0;
      for (const NodePlace& other : all) users += CPU_ISSET(processor, &other.processors) ? 1 : 0;
      share += 1.0 / users;
    }
  }
#endif
  if (const double limit = container_limit(); limit > 0) {
    const auto sharing = std::count_if(all.begin(), all.end(),
                                       [&own](const NodePlace& other) { return other.container == own.container; });
    share = std::min(share, limit / static_cast<double>(sharing));
  }
  share += 1e-9;  // thirds add up
  result.threads = std::clamp(static_cast<int>(share), 1, most_threads);
  result.oversubscribed = share < 1;
  return result;
}

}  // namespace halogen::detail
