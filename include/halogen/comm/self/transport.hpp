// The transport of one rank alone: nothing leaves the process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "halogen/comm/self_copy.hpp"
#include "halogen/comm/transport.hpp"

namespace halogen::detail {

class SelfExchange final : public PreparedExchange {
 public:
  SelfExchange(std::span<const Transfer> receives, std::span<const Transfer> sends, std::string what)
      : what_(std::move(what)), copies_(0, receives, sends, what_) {}

  const std::string& what() const override { return what_; }
  void start() override { copies_.copy(); }
  bool test() override { return true; }

 private:
  std::string what_;
  SelfCopies copies_;
};

/// Also stands for every communicator of size 1 under another transport. Collectives never reach it: Communicator
/// answers those of one rank itself.
class SelfTransport final : public Transport {
 public:
  explicit SelfTransport(std::string label) : Transport(0, 1, std::move(label)) {}

  std::string_view name() const override { return "self"; }
  bool stream_ordered() const override { return has_stream; }
  bool messages_take_device_memory() const override { return has_stream; }
  bool collectives_take_device_memory() const override { return has_stream; }

  std::shared_ptr<Transport> split(int color, int, std::string label) override {
    return color < 0 ? nullptr : std::make_shared<SelfTransport>(std::move(label));
  }
  std::shared_ptr<Transport> split_by_node(std::string label) override { return split(0, 0, std::move(label)); }

  std::unique_ptr<PreparedExchange> prepare(std::span<const Transfer> receives, std::span<const Transfer> sends,
                                            std::string what) override {
    return std::make_unique<SelfExchange>(receives, sends, std::move(what));
  }

  using Sizes = std::span<const std::size_t>;
  Pending all_reduce(void*, std::size_t, Scalar, ReduceOp) override { return nothing_pending; }
  Pending reduce_scatter_v(const void*, void*, Sizes, Scalar, ReduceOp) override { return nothing_pending; }
  Pending all_gather(const void*, void*, std::size_t) override { return nothing_pending; }
  Pending all_gather_v(const void*, void*, Sizes) override { return nothing_pending; }
  Pending broadcast(void*, std::size_t, int) override { return nothing_pending; }
  Pending gather_v(const void*, void*, Sizes, int) override { return nothing_pending; }
  Pending scatter_v(const void*, void*, Sizes, int) override { return nothing_pending; }
  Pending barrier() override { return nothing_pending; }
  bool test(Pending) override { return true; }
};

}  // namespace halogen::detail
