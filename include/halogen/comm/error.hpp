// The two faults that a run can end with: one rank's own, and one that all ranks share.
#pragma once

#include <stdexcept>

namespace halogen {

/// A fault of one rank: the transport failed, a message had the wrong size, a file of this rank is broken. Other ranks
/// know nothing of it, so whoever catches it must tell them (agree.hpp) or let it end the run (terminate.hpp).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A fault that every rank throws alike, at the same place and with the same sentence: a mesh that does not fit the
/// ranks, an input that one rank could not read (after agree). Uncaught, it is printed once, by rank 0.
class CollectiveError : public Error {
 public:
  using Error::Error;
};

}  // namespace halogen
