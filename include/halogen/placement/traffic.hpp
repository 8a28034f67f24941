// What a rank sends, as it is planned.
#pragma once

#include "halogen/core/config.hpp"

namespace halogen {

/// Point-to-point traffic, sent by this rank, and the all_reduces in which it takes part.
struct TrafficUse {
  index_t messages = 0, bytes = 0, all_reduces = 0;

  /// One more message, or several of the same bytes, if they are not empty.
  constexpr void add(index_t of_bytes, int times = 1) {
    messages += of_bytes > 0 ? times : 0;
    bytes += of_bytes * times;
  }
  constexpr TrafficUse& operator+=(const TrafficUse& other) {
    messages += other.messages, bytes += other.bytes, all_reduces += other.all_reduces;
    return *this;
  }
};

}  // namespace halogen
