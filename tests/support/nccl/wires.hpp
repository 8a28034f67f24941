// Messages between the processes of the stand-in's communicators: one socket for each ordered pair.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace standin {

using Clock = std::chrono::steady_clock;

/// What both ends of a message have to agree on.
struct Header {
  std::int64_t operation, bytes, type, reduction, root;
  bool operator==(const Header&) const = default;
  std::string text() const {
    static const char* names[] = {"message",   "all_reduce", "reduce",   "reduce_scatter", "all_gather",
                                  "broadcast", "split",      "register", "meeting"};
    return std::string(names[operation]) + " of " + std::to_string(bytes) + " bytes (type " + std::to_string(type) +
           ", reduction " + std::to_string(reduction) + ", root " + std::to_string(root) + ")";
  }
};

struct Message {
  int peer;
  Header header;
  char* data;
  bool sends;
};

enum class Outcome { done, aborted, lost, differs, deadlock };

inline double timeout_seconds() {
  const char* text = std::getenv("NCCL_STANDIN_TIMEOUT");
  return text == nullptr ? 30 : std::atof(text);
}

/// Sends are synchronous, as strict as NCCL may be: one is done when the peer has posted its receive and has all of it.
/// Messages to one peer, and from one peer, follow each other in the order given; all else moves at once.
class Wires {
 public:
  Wires(const std::string& name, int rank, int size) : rank_(rank), out_(size, -1), in_(size, -1) {
    const int door = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto [own, length] = address(name, rank);
    if (bind(door, reinterpret_cast<const sockaddr*>(&own), length) != 0 || listen(door, 64) != 0) std::abort();
    const Clock::time_point end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds()));
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      out_[r] = socket(AF_UNIX, SOCK_STREAM, 0);
      const auto [there, there_length] = address(name, r);
      while (connect(out_[r], reinterpret_cast<const sockaddr*>(&there), there_length) != 0) {
        if (Clock::now() > end)
          std::fprintf(stderr, "nccl stand-in: rank %d never comes to %s\n", r, name.c_str()), std::abort();
        usleep(2000);
      }
      if (write(out_[r], &rank, sizeof rank) != sizeof rank) std::abort();
    }
    for (int i = 0; i + 1 < size; ++i) {
      const int guest = accept(door, nullptr, nullptr);
      int who = -1;
      if (read(guest, &who, sizeof who) != sizeof who) std::abort();
      in_[who] = guest;
    }
    close(door);
    for (std::vector<int>* list : {&out_, &in_})
      for (const int wire : *list)
        if (wire >= 0) fcntl(wire, F_SETFL, O_NONBLOCK);
  }
  ~Wires() {
    for (std::vector<int>* list : {&out_, &in_})
      for (const int wire : *list)
        if (wire >= 0) close(wire);
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(out_.size()); }

  Outcome run(const std::vector<Message>& messages, const std::atomic<bool>& aborted) {
    std::vector<State> states(messages.size());
    const auto patience = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds()));
    for (Clock::time_point end = Clock::now() + patience;;) {
      std::vector<char> busy_out(out_.size()), busy_in(in_.size());
      bool all = true, moved = false;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        char& busy = (messages[i].sends ? busy_out : busy_in)[messages[i].peer];
        if (states[i].done || std::exchange(busy, char{1})) continue;
        const Outcome outcome =
            messages[i].sends ? send_some(messages[i], states[i], moved) : receive_some(messages[i], states[i], moved);
        if (outcome != Outcome::done) return outcome;
        all = all && states[i].done;
        if (states[i].done) busy = 0;
      }
      if (aborted) return Outcome::aborted;
      if (all && std::ranges::all_of(states, &State::done)) return Outcome::done;
      if (moved) end = Clock::now() + patience;
      if (Clock::now() > end) {
        for (std::size_t i = 0; i < messages.size(); ++i)
          if (!states[i].done)
            std::fprintf(stderr, "nccl stand-in: rank %d %s %d: %s, and nobody answers\n", rank_,
                         messages[i].sends ? "sends to" : "receives from", messages[i].peer,
                         messages[i].header.text().c_str());
        return Outcome::deadlock;
      }
      if (!moved) usleep(50);
    }
  }

 private:
  struct State {
    std::int64_t moved = 0;
    bool done = false;
    Header header{};
  };

  static std::pair<sockaddr_un, socklen_t> address(const std::string& name, int rank) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string full = name + "." + std::to_string(rank);  // in the kernel's own name space: no file
    std::memcpy(address.sun_path + 1, full.data(), std::min(full.size(), sizeof address.sun_path - 1));
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size())};
  }

  static bool ended(ssize_t count) { return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR); }

  Outcome send_some(const Message& message, State& state, bool& moved) {
    const auto head = static_cast<std::int64_t>(sizeof(Header)), total = head + message.header.bytes;
    while (state.moved < total) {
      const bool in_head = state.moved < head;
      const char* from =
          in_head ? reinterpret_cast<const char*>(&message.header) + state.moved : message.data + (state.moved - head);
      const ssize_t count = send(out_[message.peer], from,
                                 static_cast<std::size_t>((in_head ? head : total) - state.moved), MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Outcome::done;
      if (ended(count)) return Outcome::lost;
      state.moved += count, moved = true;
    }
    char answer = 0;
    const ssize_t count = recv(out_[message.peer], &answer, 1, 0);
    if (count == 1) {
      moved = state.done = true;
      return answer == 'y' ? Outcome::done : Outcome::differs;
    }
    return ended(count) ? Outcome::lost : Outcome::done;
  }

  Outcome receive_some(const Message& message, State& state, bool& moved) {
    const auto head = static_cast<std::int64_t>(sizeof(Header)), total = head + message.header.bytes;
    while (state.moved < total) {
      const bool in_head = state.moved < head;
      char* to = in_head ? reinterpret_cast<char*>(&state.header) + state.moved : message.data + (state.moved - head);
      const ssize_t count =
          recv(in_[message.peer], to, static_cast<std::size_t>((in_head ? head : total) - state.moved), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Outcome::done;
      if (ended(count)) return Outcome::lost;
      state.moved += count, moved = true;
      if (state.moved == head && !(state.header == message.header)) {
        std::fprintf(stderr, "nccl stand-in: rank %d expects from %d a %s, but there comes a %s\n", rank_, message.peer,
                     message.header.text().c_str(), state.header.text().c_str());
        (void)!send(in_[message.peer], "n", 1, MSG_NOSIGNAL);
        return Outcome::differs;
      }
    }
    if (send(in_[message.peer], "y", 1, MSG_NOSIGNAL) != 1) return Outcome::lost;
    moved = state.done = true;
    return Outcome::done;
  }

  int rank_;
  std::vector<int> out_, in_;
};

}  // namespace standin
