// Tests that cannot be empty: a loop over meshes fails if none of its bodies has asserted anything, and a test case for
// other numbers of ranks is counted as skipped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "halogen/comm/device_mesh.hpp"

namespace support {

/// What the program's main knows of the run (main_mpi.cpp). A program without test cases leaves it as it is.
struct Runner {
  int ranks = 0;                    ///< that were started
  int (*assertions)() = nullptr;    ///< that the test case has made so far
  void (*nothing_ran)() = nullptr;  ///< fails the test case
  bool is_skipped = false;          ///< the test case is for other numbers of ranks
};
inline Runner runner;

/// Meshes to loop over. At the end of a loop that no `break` has ended, at least one of its bodies must have asserted
/// something: however a body passes over a mesh, passing over all of them fails the test case. So does having none.
template <class MeshType>
class Meshes : public std::vector<halogen::DeviceMesh<MeshType>> {
  using Base = std::vector<halogen::DeviceMesh<MeshType>>;

 public:
  class Iterator {
   public:
    Iterator(typename Base::const_iterator at, int assertions) : at_(at), assertions_(assertions) {}
    const halogen::DeviceMesh<MeshType>& operator*() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& end) const {
      if (at_ != end.at_) return true;
      if (runner.assertions != nullptr && runner.assertions() == assertions_) runner.nothing_ran();
      return false;
    }

   private:
    typename Base::const_iterator at_;
    int assertions_;  // before the loop
  };

  using Base::Base;
  Iterator begin() const { return {Base::begin(), runner.assertions != nullptr ? runner.assertions() : 0}; }
  Iterator end() const { return {Base::end(), 0}; }
};

/// Whether the number of ranks is none of these; then the test case is counted as skipped.
inline bool is_skipped_on_ranks_but(std::initializer_list<int> ranks) {
  return runner.is_skipped = std::find(ranks.begin(), ranks.end(), runner.ranks) == ranks.end();
}
inline bool is_skipped_on_ranks_below(int ranks) { return runner.is_skipped = runner.ranks < ranks; }

}  // namespace support

/// The first line of a test case that is for these numbers of ranks alone: ONLY_ON_RANKS(2); ONLY_ON_RANKS(2, 4, 6);
/// On others the case ends there, and the program's last line counts it. tests/house/cases.py reads these lines: each
/// case must run on a number of ranks on which CTest starts its file.
#define ONLY_ON_RANKS(...) \
  if (support::is_skipped_on_ranks_but({__VA_ARGS__})) return
/// The same for this number of ranks and more.
#define FROM_RANKS(least) \
  if (support::is_skipped_on_ranks_below(least)) return
