// A collective under way.
#pragma once

#include <memory>
#include <utility>

#include "halogen/comm/transport.hpp"
#include "halogen/comm/wait.hpp"

namespace halogen {

/// Handle to a collective that has started. Until it is done the memory given to it belongs to the transport; the
/// destructor waits (bounded, during an exception). A default-made or moved-from one is done.
class Request {
 public:
  Request() = default;
  Request(std::shared_ptr<detail::Transport> transport, detail::Pending pending)
      : transport_(std::move(transport)), pending_(pending) {}
  Request(Request&& other) noexcept
      : transport_(std::move(other.transport_)), pending_(std::exchange(other.pending_, detail::nothing_pending)) {}
  Request& operator=(Request&& other) {
    if (this != &other) {
      wait();
      transport_ = std::move(other.transport_);
      pending_ = std::exchange(other.pending_, detail::nothing_pending);
    }
    return *this;
  }
  ~Request() {
    if (pending_ != detail::nothing_pending)
      detail::poll_at_end(
          unwinding_, "collective on " + transport_->label(), [this] { return awaited(); }, [this] { return test(); });
  }

  /// Makes progress; true once the operation is done. Throws Error where the transport failed.
  bool test() {
    if (pending_ == detail::nothing_pending) return true;
    const detail::Pending pending = std::exchange(pending_, detail::nothing_pending);
    if (transport_->test(pending)) return true;
    pending_ = pending;
    return false;
  }

  void wait() {
    detail::poll_until([this] { return awaited(); }, [this] { return test(); });
  }

 private:
  std::string awaited() const { return transport_->awaited(pending_); }

  std::shared_ptr<detail::Transport> transport_;
  detail::Pending pending_ = detail::nothing_pending;
  detail::Unwinding unwinding_;
};

}  // namespace halogen
