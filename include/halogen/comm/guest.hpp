// Kokkos in a process that is another program's: started without a thread that was not asked for.
#pragma once

#include <Kokkos_Core.hpp>

#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

#include <chrono>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/device.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/comm/node.hpp"
#include "halogen/comm/start.hpp"
#include "halogen/comm/terminate.hpp"

namespace halogen::detail {

/// Starts Kokkos with so many threads, unless it runs. What the host has asked of OpenMP is as before afterwards
/// (omp_get_max_threads). Kokkos then ends with the process, since it cannot start twice. Throws Error where Kokkos has
/// been finalised, or a device is missing. Unlike an Environment it leaves std::terminate, signals and MPI alone, and
/// HALOGEN_TIMEOUT ends nothing: a rank that waits for long only says so.
inline void start_as_guest(int threads) {
  set_patience(seconds_of(settings::wait_warning), std::chrono::seconds(0));
  if (Kokkos::is_initialized()) return;
  if (Kokkos::is_finalized())
    throw Error("Kokkos has been finalized and cannot start again in this process: create models before its end");
  check_devices();
#ifdef KOKKOS_ENABLE_OPENMP
  const int hosts_threads = omp_get_max_threads();
  omp_set_num_threads(threads);  // before the first parallel region of Kokkos, which takes as many as it may
#endif
  Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(threads).set_disable_warnings(true));
#ifdef KOKKOS_ENABLE_OPENMP
  omp_set_num_threads(hosts_threads);
#endif
}

/// Collective: whether the ranks of this node outnumber its processors, so that waits must give them away at once.
inline void wait_as_others_of_node(const Communicator& ranks) {
  const NodeShare node = share_of_node(ranks.rank(), ranks.size(), [&](const void* own, std::size_t bytes, void* all) {
    ranks.all_gather(own, bytes, all);
  });
  if (node.oversubscribed) patient_polls = 0;
}

}  // namespace halogen::detail
