// The lock around netCDF and HDF5, which one thread at a time may call.
#pragma once

#include <mutex>

namespace halogen::detail {

/// One for both: netCDF calls HDF5.
inline std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace halogen::detail
