// Which rows go from rank to rank where each holds some parts of a sequence.
#pragma once

#include <vector>

#include "halogen/placement/cut.hpp"

namespace halogen {

/// The positions that each rank holds, as parts that follow each other in its memory.
using RowParts = std::vector<std::vector<Interval>>;

/// Rows that go to one peer, or come from it; the rank itself is one.
struct RowRun {
  int peer;
  index_t row, count;  ///< where they lie among this rank's
};

/// What each peer has of this rank's rows, in the order of positions.
inline std::vector<RowRun> runs_between(const std::vector<Interval>& own, const RowParts& others) {
  std::vector<RowRun> runs;
  for (std::size_t peer = 0; peer < others.size(); ++peer) {
    index_t before = 0;
    for (const Interval& part : own) {
      for (const Interval& other : others[peer])
        if (const Interval both = intersect(part, other); !both.empty())
          runs.push_back({static_cast<int>(peer), before + both.begin - part.begin, both.size()});
      before += part.size();
    }
  }
  return runs;
}

/// As a cut has them.
inline RowParts parts_of(const Cut& cut) {
  RowParts parts;
  for (int r = 0; r < cut.parts(); ++r) parts.push_back({cut.piece(r)});
  return parts;
}

}  // namespace halogen
