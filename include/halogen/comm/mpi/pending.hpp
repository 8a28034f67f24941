// The MPI requests of collectives under way, in places that are used again.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <algorithm>
#include <deque>
#include <string_view>
#include <vector>

#include "halogen/comm/mpi/handle.hpp"
#include "halogen/comm/transport.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// One collective: its requests, and the int counts and displacements that MPI reads until it is done.
struct MpiCollective {
  std::string_view operation;
  std::vector<MPI_Request> requests;
  std::vector<int> counts;
  std::vector<int> displacements;

  MPI_Request* request() { return &requests.emplace_back(MPI_REQUEST_NULL); }

  /// Fills counts and displacements; the caller has seen to it that their sum fits an int.
  void lay_out(std::span<const std::size_t> sizes) {
    int offset = 0;
    for (const std::size_t size : sizes) {
      counts.push_back(static_cast<int>(size));
      displacements.push_back(offset);
      offset += counts.back();
    }
  }
};

/// Places are recycled with their capacity: from the second use on nothing is allocated.
class MpiCollectives {
 public:
  Pending open(std::string_view operation);

  MpiCollective& operator[](Pending pending) { return places_[static_cast<std::size_t>(pending)]; }

  bool test(Pending pending, std::string_view label);
  std::string_view operation(Pending pending) const { return places_[static_cast<std::size_t>(pending)].operation; }

 private:
  std::deque<MpiCollective> places_;
  std::vector<Pending> free_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE Pending MpiCollectives::open(std::string_view operation) {
  if (free_.empty()) {
    free_.push_back(static_cast<Pending>(places_.size()));
    places_.emplace_back();
  }
  const Pending pending = free_.back();
  free_.pop_back();
  MpiCollective& place = (*this)[pending];
  place.operation = operation;
  place.requests.clear();
  place.counts.clear();
  place.displacements.clear();
  return pending;
}

HALOGEN_INLINE bool MpiCollectives::test(Pending pending, std::string_view label) {
  MpiCollective& place = (*this)[pending];
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(place.requests.size()), place.requests.data(), &done, MPI_STATUSES_IGNORE);
  if (code == MPI_SUCCESS && !done) return false;
  free_.push_back(pending);
  check_mpi(code, place.operation, label);
  return true;
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
