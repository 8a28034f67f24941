// What a transport has to offer. Users see Communicator; comm/self, comm/mpi and comm/nccl implement this.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "halogen/comm/transfer.hpp"

namespace halogen::detail {

class MpiHandle;  // comm/mpi/handle.hpp

/// A persistent group of point-to-point messages. start() may be called again after test() has returned true.
class PreparedExchange {
 public:
  virtual ~PreparedExchange() = default;
  virtual const std::string& what() const = 0;
  virtual void start() = 0;
  virtual bool test() = 0;  // true when nothing is under way
  /// What is under way and with which peers, for whoever waits; nothing where the transport watches itself.
  virtual std::string awaited() { return {}; }
};

/// A collective under way, by its number within the transport, so that starting one allocates nothing once warm.
using Pending = int;
inline constexpr Pending nothing_pending = -1;

/// Every collective starts without blocking; sizes are > 0 and the same on all ranks, and the ranks are at least two
/// (Communicator sees to all three). Collectives of one communicator start in the same order on all its ranks.
/// nothing_pending is done already; for other numbers test() returns true once, and the number is then free. Every
/// fault is an Error naming operation and label().
class Transport : public std::enable_shared_from_this<Transport> {
 public:
  Transport(int rank, int size, std::string label) : rank_(rank), size_(size), label_(std::move(label)) {}
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& label() const { return label_; }
  virtual std::string_view name() const = 0;

  /// Whether operations on device memory are done for the host once started: they take their place in the stream of
  /// the execution space, so that nobody fences before them or waits after them. An exchange may run beside what is
  /// queued behind it, up to the first test().
  virtual bool stream_ordered() const { return false; }
  /// Whether prepared exchanges, and whether collectives, take device memory at all; all take host memory.
  virtual bool messages_take_device_memory() const { return false; }
  virtual bool collectives_take_device_memory() const { return false; }
  /// Memory from which messages travel best, where there is some: Communicator::message_memory.
  virtual std::shared_ptr<void> message_memory(std::size_t) { return nullptr; }
  virtual std::size_t message_memory_bytes() const { return 0; }
  /// Throws Error where an operation that the host did not wait for has failed.
  virtual void check_health() const {}

  virtual std::shared_ptr<Transport> split(int color, int key, std::string label) = 0;  // color < 0: null
  virtual std::shared_ptr<Transport> split_by_node(std::string label) = 0;
  virtual std::unique_ptr<PreparedExchange> prepare(std::span<const Transfer> receives, std::span<const Transfer> sends,
                                                    std::string what) = 0;

  virtual Pending all_reduce(void* data, std::size_t count, Scalar scalar, ReduceOp op) = 0;
  virtual Pending reduce_scatter_v(const void* send, void* receive, std::span<const std::size_t> counts, Scalar scalar,
                                   ReduceOp op) = 0;
  virtual Pending all_gather(const void* send, void* receive, std::size_t bytes) = 0;
  virtual Pending all_gather_v(const void* send, void* receive, std::span<const std::size_t> bytes_of_each) = 0;
  virtual Pending broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual Pending gather_v(const void* send, void* receive, std::span<const std::size_t> bytes_of_each, int root) = 0;
  virtual Pending scatter_v(const void* send, void* receive, std::span<const std::size_t> bytes_of_each, int root) = 0;
  virtual Pending barrier() = 0;
  virtual bool test(Pending pending) = 0;
  /// What is under way and among which ranks, for whoever waits; nothing where the transport watches itself.
  virtual std::string awaited(Pending) const { return {}; }
  /// Its communicator of MPI; null where it has none.
  virtual std::shared_ptr<const MpiHandle> mpi_handle() const { return nullptr; }

 private:
  int rank_;
  int size_;
  std::string label_;
};

}  // namespace halogen::detail
