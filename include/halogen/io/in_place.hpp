#pragma once

#include <cstdlib>

#include "halogen/tensor/space.hpp"

namespace halogen::detail {

/// Whether files are read into fields and written from them without a copy, since the host can touch their memory. The
/// environment variable HALOGEN_AS_ON_DEVICE makes a CPU build copy as a device's build does. The access guard of the
/// tests sets it.
inline bool host_in_place() {
  static const bool in_place = runs_on_host && std::getenv("HALOGEN_AS_ON_DEVICE") == nullptr;
  return in_place;
}

}  // namespace halogen::detail
