// Host: asks the memory for the rows that come next while products are summed, a few lines at a time. Asked for all at
// once they would fill the queue of misses, and the next load would wait for them after all.
#pragma once

#include <type_traits>

#include "halogen/core/config.hpp"

namespace halogen::kernels {

/// Segments of `bytes` each. Locate: `const void* operator()(index_t segment, bool& writes)`, null for none.
template <class Locate>
class LinesAhead {
 public:
  /// calls: how often next() will be called.
  LinesAhead(Locate locate, index_t segments, index_t bytes, index_t calls)
      : locate_(locate),
        segments_(segments),
        lines_(ceil_div(bytes, line_bytes) + 1),
        share_(static_cast<int>(ceil_div(segments * lines_, calls))) {}

  void next() {
    for (int i = 0; i < share_; ++i, ++line_) {
      if (line_ >= lines_ || at_ == nullptr) {
        if (segment_ >= segments_) return;
        at_ = static_cast<const char*>(locate_(segment_++, writes_));
        line_ = 0;
        if (at_ == nullptr) continue;
      }
      if (writes_)
        __builtin_prefetch(at_ + line_ * line_bytes, 1, 2);
      else
        __builtin_prefetch(at_ + line_ * line_bytes, 0, 2);
    }
  }

 private:
  static constexpr index_t line_bytes = 64;
  Locate locate_;
  index_t segments_, lines_;
  int share_;
  index_t segment_ = 0, line_ = 0;
  const char* at_ = nullptr;
  bool writes_ = false;
};

}  // namespace halogen::kernels
