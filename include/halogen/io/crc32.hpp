// The checksum by which a file says that it is as it was written. Opt-in: needs zlib.
#pragma once

#include <zlib.h>

#include <cstdint>

namespace halogen::detail {

/// CRC-32 of bytes that follow others, whose checksum is `before`.
inline std::uint64_t crc32_of(const void* data, std::uint64_t bytes, std::uint64_t before = 0) {
  return ::crc32_z(static_cast<uLong>(before), static_cast<const Bytef*>(data), bytes);
}

}  // namespace halogen::detail
