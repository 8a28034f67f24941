// A prepared group of point-to-point messages, started as often as needed.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "halogen/comm/transport.hpp"
#include "halogen/comm/wait.hpp"

namespace halogen {

/// Made by Communicator::prepare; reuses its requests and allocates nothing when started. From start() until done the
/// receives' memory must not be touched and the sends' not written. Two exchanges under way at once between the same
/// ranks are told apart by tag, or by starting in the same order on both; over NCCL by their order alone. A
/// default-made one has no messages.
///
///   auto exchange = comm.prepare(receives, sends, "halo of u");
///   for (...) { pack(); exchange.start(); interior(); exchange.wait(); strips(); }
class Exchange {
 public:
  Exchange() = default;
  explicit Exchange(std::unique_ptr<detail::PreparedExchange> prepared) : prepared_(std::move(prepared)) {}
  Exchange(Exchange&&) noexcept = default;
  Exchange& operator=(Exchange&& other) {
    if (this != &other) {
      wait();
      prepared_ = std::move(other.prepared_);
    }
    return *this;
  }
  ~Exchange() {
    if (prepared_)
      detail::poll_at_end(
          unwinding_, prepared_->what(), [this] { return awaited(); }, [this] { return test(); });
  }

  /// Posts receives, then sends, then copies what goes to this rank itself. Throws Error where still under way.
  void start() {
    if (prepared_) prepared_->start();
  }

  /// Makes progress; true when nothing is under way. Throws Error naming the peer whose message failed.
  bool test() { return !prepared_ || prepared_->test(); }

  void wait() {
    detail::poll_until([this] { return awaited(); }, [this] { return test(); });
  }

  /// What is under way and with which peers, for whoever waits long; nothing where the transport watches itself.
  std::string awaited() const { return prepared_ ? prepared_->awaited() : std::string(); }

 private:
  std::unique_ptr<detail::PreparedExchange> prepared_;
  detail::Unwinding unwinding_;
};

}  // namespace halogen
