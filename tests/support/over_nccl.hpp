// What carries a test's messages: over NCCL, or its stand-in, MPI's own counts say nothing of them.
#pragma once

#include <cstdlib>
#include <string>

namespace support {

inline bool is_over_nccl() {
  const char* transport = std::getenv("HALOGEN_TRANSPORT");
  return transport != nullptr && std::string(transport) == "nccl";
}

}  // namespace support
