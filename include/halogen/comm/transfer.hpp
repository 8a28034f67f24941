// One message of an exchange, and the reductions: the words that transports and their users share.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "halogen/core/config.hpp"

namespace halogen {

enum class ReduceOp { sum, product, min, max };

/// Largest tag a transfer may carry; 32767, the least upper bound MPI promises, is kept for our own use.
inline constexpr int max_tag = 32766;

/// `bytes` bytes at `data`, to or from `peer` (a rank of the communicator that prepares the exchange). Messages between
/// the same two ranks are told apart by tag, and under one tag by their order on both sides. Sends only read `data`.
struct Transfer {
  int peer = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
};

/// What all_reduce and reduce_scatter_v can add.
template <class T>
concept Reducible = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int64_t> ||
                    std::same_as<T, std::uint64_t> || std::same_as<T, int>;

namespace detail {

enum class Scalar { int32, int64, uint64, float32, float64 };

template <Reducible T>
constexpr Scalar scalar_of() {
  if constexpr (std::same_as<T, float>) return Scalar::float32;
  if constexpr (std::same_as<T, double>) return Scalar::float64;
  if constexpr (std::same_as<T, std::int64_t>) return Scalar::int64;
  if constexpr (std::same_as<T, std::uint64_t>) return Scalar::uint64;
  if constexpr (std::same_as<T, int>) return Scalar::int32;
}

constexpr std::size_t bytes_of(Scalar scalar) { return scalar == Scalar::int32 || scalar == Scalar::float32 ? 4 : 8; }

/// Longest single message; transports count in int. A variable, so that a test can make every message "long".
inline std::size_t max_message_bytes = (std::size_t{1} << 30) - 4096;

/// One transfer for each rank, to or from the next bytes[r] of `data`.
std::vector<Transfer> side_by_side(void* data, std::span<const std::size_t> bytes);
#if HALOGEN_BODIES
HALOGEN_INLINE std::vector<Transfer> side_by_side(void* data, std::span<const std::size_t> bytes) {
  std::vector<Transfer> transfers;
  std::size_t offset = 0;
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
    transfers.push_back({static_cast<int>(rank), static_cast<char*>(data) + offset, bytes[rank]});
    offset += bytes[rank];
  }
  return transfers;
}
#endif

}  // namespace detail
}  // namespace halogen
