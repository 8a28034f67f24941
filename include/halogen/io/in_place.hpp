#pragma once

#include "halogen/comm/start.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen::detail {

/// Whether files are read into fields and written from them without a copy, since the host can touch their memory. The
/// environment variable HALOGEN_AS_ON_DEVICE=1 makes a CPU build copy as a device's build does. The access guard of the
/// tests sets it.
inline bool host_in_place() {
  static const bool in_place = runs_on_host && text_of(settings::as_on_device) != "1";
  return in_place;
}

}  // namespace halogen::detail
