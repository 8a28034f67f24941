// Processes that meet at a port of rank 0's host.
#pragma once

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "halogen/comm/rendezvous/rendezvous.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/system_limits.hpp"

namespace halogen::detail {

/// Why nobody can listen at a port of this host, by an errno, and what to do.
std::string words_of_door(int error, const std::string& port);
/// The same by a code of getaddrinfo.
std::string words_of_look_up(int code, const std::string& port);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string words_of_door(int error, const std::string& port) {
  const std::string another = "choose another port (MASTER_PORT, or HALOGEN_RENDEZVOUS=tcp://host:port)";
  switch (error) {
    case EADDRINUSE:
      return "another program has port " + port + ": " + another;
    case EACCES:
    case EPERM:
      return "the system does not give port " + port + " to user " + std::to_string(::geteuid()) + ": " + another;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
      return "this host has no network: let processes meet in a file (HALOGEN_RENDEZVOUS=file:/path)";
    default:
      return words_of_limits(error, another);
  }
}

HALOGEN_INLINE std::string words_of_look_up(int code, const std::string& port) {
  switch (code) {
    case EAI_SERVICE:
    case EAI_NONAME:
      return "'" + port + "' is no port: give a number from 1 to 65535 (HALOGEN_RENDEZVOUS=tcp://host:port)";
    case EAI_SYSTEM:
      return words_of_door(errno, port);
    case EAI_MEMORY:
      return words_of_door(ENOMEM, port);
    default:
      return "this host knows no address of its own, by error " + std::to_string(code) + " (" + gai_strerror(code) +
             "): let processes meet in a file (HALOGEN_RENDEZVOUS=file:/path)";
  }
}
#endif

/// A socket, closed at its end.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  /// For such an address, whose port it shares with what was closed, or is about to be.
  explicit Socket(const addrinfo& at);
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  /// Neither takes longer than this for one part.
  void limit(std::chrono::milliseconds patience) const;
  /// While nobody listens there, the system may give the socket that very port as its own: it then meets itself, and
  /// holds the port of who has yet to come.
  bool connect_to(const addrinfo& at) const {
    return connect(descriptor_, at.ai_addr, at.ai_addrlen) == 0 && !meets_itself();
  }
  bool meets_itself() const;
  bool send_all(const void* data, std::size_t bytes) const;
  bool receive_all(void* data, std::size_t bytes) const;

 private:
  int descriptor_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE Socket::Socket(const addrinfo& at) : Socket(socket(at.ai_family, at.ai_socktype, at.ai_protocol)) {
  if (descriptor_ < 0) return;  // errno says why
  const int yes = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

HALOGEN_INLINE Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

HALOGEN_INLINE void Socket::limit(std::chrono::milliseconds patience) const {
  const timeval time{static_cast<time_t>(patience.count() / 1000),
                     static_cast<suseconds_t>(patience.count() % 1000 * 1000)};
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

HALOGEN_INLINE bool Socket::meets_itself() const {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  return getsockname(descriptor_, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(descriptor_, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
         std::memcmp(&own, &peer, sizeof own) == 0;
}

HALOGEN_INLINE bool Socket::send_all(const void* data, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t now = send(descriptor_, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    done += static_cast<std::size_t>(now);
  }
  return true;
}

HALOGEN_INLINE bool Socket::receive_all(void* data, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t now = recv(descriptor_, static_cast<char*>(data) + done, bytes - done, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    done += static_cast<std::size_t>(now);
  }
  return true;
}
#endif

/// Rank 0 listens, and passes on what the others tell it. Who does not introduce itself as a rank of this run is turned
/// away.
class TcpRendezvous final : public Rendezvous {
 public:
  TcpRendezvous(const Launched& launched, const std::string& host, const std::string& port,
                std::chrono::milliseconds timeout)
      : Rendezvous(launched, "tcp://" + host + ":" + port, timeout), sockets_(static_cast<std::size_t>(size())) {
    rank() == 0 ? listen_at(port) : connect_to(host, port);
  }

  void all_gather(const void* own, std::size_t bytes, void* all) override;

 private:
  using Introduction = std::array<std::uint32_t, 3>;
  static constexpr std::uint32_t ours = 0x48414c4f;

  struct Addresses {
    addrinfo* first = nullptr;
    ~Addresses() {
      if (first != nullptr) freeaddrinfo(first);
    }
  };

  static std::string name(int rank) { return "rank " + std::to_string(rank); }
  Socket& socket(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }

  int look_up(const char* host, const std::string& port, Addresses& addresses) const;

  /// On all interfaces, by IPv6 and IPv4 where the system has both: how the others name this host is their business.
  void listen_at(const std::string& port);

  std::string those_absent();

  void connect_to(const std::string& host, const std::string& port);

  std::vector<Socket> sockets_;  // rank 0: of the others; others: of rank 0
};

#if HALOGEN_BODIES
HALOGEN_INLINE void TcpRendezvous::all_gather(const void* own, std::size_t bytes, void* all) {
  auto* words = static_cast<char*>(all);
  const std::size_t total = bytes * static_cast<std::size_t>(size());
  if (rank() == 0) {
    std::memcpy(words, own, bytes);
    for (int r = 1; r < size(); ++r)
      if (!socket(r).receive_all(words + static_cast<std::size_t>(r) * bytes, bytes)) give_up(name(r));
    for (int r = 1; r < size(); ++r)
      if (!socket(r).send_all(words, total)) give_up(name(r));
  } else if (!socket(0).send_all(own, bytes) || !socket(0).receive_all(words, total)) {
    give_up("rank 0");
  }
}

HALOGEN_INLINE int TcpRendezvous::look_up(const char* host, const std::string& port, Addresses& addresses) const {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  return getaddrinfo(host, port.c_str(), &hints, &addresses.first);
}

HALOGEN_INLINE void TcpRendezvous::listen_at(const std::string& port) {
  Addresses addresses;
  if (const int code = look_up(nullptr, port, addresses); code != 0)
    throw Error(self() + " cannot listen: " + words_of_look_up(code, port));
  std::vector<const addrinfo*> candidates;
  for (const addrinfo* at = addresses.first; at != nullptr; at = at->ai_next)
    candidates.insert(at->ai_family == AF_INET6 ? candidates.begin() : candidates.end(), at);
  Socket door;
  int fault = 0;
  for (const addrinfo* at : candidates) {
    if (door) break;
    Socket candidate(*at);
    const int no = 0;
    if (candidate && at->ai_family == AF_INET6)
      setsockopt(candidate.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);  // a door for both
    if (candidate && bind(candidate.descriptor(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(candidate.descriptor(), 1024) == 0)
      door = std::move(candidate);
    else
      fault = errno;
  }
  if (!door) throw Error(self() + " cannot listen: " + words_of_door(fault, port));
  const Clock::time_point end = deadline();
  for (int absent = size() - 1; absent > 0;) {
    pollfd waiting{door.descriptor(), POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) == 0) give_up(those_absent());
    Socket guest(accept(door.descriptor(), nullptr, nullptr));
    guest.limit(std::chrono::seconds(5));
    Introduction words{};
    if (!guest.receive_all(&words, sizeof words) || words[0] != ours) continue;
    const int r = static_cast<int>(words[2]);
    if (words[1] != static_cast<std::uint32_t>(size()) || r <= 0 || r >= size() || socket(r))
      throw Error(self() + " was met by a second rank " + std::to_string(r) + ", or one of " +
                  std::to_string(words[1]) + ": give each run an address of its own, each process its RANK");
    guest.limit(timeout());
    socket(r) = std::move(guest);
    --absent;
  }
}

HALOGEN_INLINE std::string TcpRendezvous::those_absent() {
  std::string missing;
  for (int r = 1; r < size(); ++r)
    if (!socket(r)) missing += (missing.empty() ? "rank " : ", ") + std::to_string(r);
  return missing;
}

HALOGEN_INLINE void TcpRendezvous::connect_to(const std::string& host, const std::string& port) {
  const Introduction words{ours, static_cast<std::uint32_t>(size()), static_cast<std::uint32_t>(rank())};
  for (const Clock::time_point end = deadline();;) {
    Addresses addresses;
    const bool is_known = look_up(host.c_str(), port, addresses) == 0;
    for (addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
      Socket candidate(*at);
      if (!candidate.connect_to(*at)) continue;
      candidate.limit(timeout());
      if (!candidate.send_all(&words, sizeof words)) continue;
      socket(0) = std::move(candidate);
      return;
    }
    if (Clock::now() > end) give_up(is_known ? "rank 0" : "rank 0, whose address this host does not know");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}
#endif

}  // namespace halogen::detail
