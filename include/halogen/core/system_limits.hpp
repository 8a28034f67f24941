// What a call of the system lacked that failed for want of something, or an error that no sentence of ours is about.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace halogen::detail {

inline std::string limit_text(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  ::getrlimit(which, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

/// What an errno means that does not depend on what was called for. `otherwise`: what to do where it is not known; the
/// system's own words then stand in brackets.
inline std::string words_of_limits(int error, const std::string& otherwise) {
  switch (error) {
    case EMFILE:
      return "this process has as many files open as it may (ulimit -n, " + limit_text(RLIMIT_NOFILE) +
             "): raise the limit";
    case ENFILE:
      return "this machine has as many files open as it may: end other programs";
    case ENOMEM:
    case ENOBUFS:
      return "this machine has no memory left for it: end other programs";
    default:
      return "the system refuses it by error " + std::to_string(error) + " (" + std::strerror(error) +
             "): " + otherwise;
  }
}

}  // namespace halogen::detail
