// What a run of a test calls its files: runs of one program by other numbers of ranks, and under the access guard, may
// stand beside each other.
#pragma once

#include <cstdlib>
#include <string>

namespace support {

inline std::string run_name(int ranks) {
  return std::to_string(ranks) + (std::getenv("KOKKOS_TOOLS_LIBS") != nullptr ? "_guarded" : "");
}

}  // namespace support
