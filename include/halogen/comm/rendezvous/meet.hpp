// Where processes meet that no MPI brought together.
#pragma once

#include <memory>
#include <string>

#include "halogen/comm/rendezvous/file.hpp"
#include "halogen/comm/rendezvous/tcp.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// At rendezvous_address(). Waits for all processes, HALOGEN_RENDEZVOUS_TIMEOUT seconds (300 unless set); throws Error
/// where one does not come.
std::unique_ptr<Rendezvous> meet(const Launched& launched);
#if HALOGEN_BODIES
HALOGEN_INLINE std::unique_ptr<Rendezvous> meet(const Launched& launched) {
  const std::chrono::milliseconds timeout = seconds_of(settings::rendezvous_timeout);
  const std::string where = rendezvous_address(launched);
  if (where.starts_with("file:")) return std::make_unique<FileRendezvous>(launched, where.substr(5), timeout);
  const std::size_t colon = where.rfind(':');
  std::string host = where.substr(6, colon - 6);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);  // IPv6's
  return std::make_unique<TcpRendezvous>(launched, host, where.substr(colon + 1), timeout);
}
#endif

}  // namespace halogen::detail
