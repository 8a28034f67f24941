// A group of ranks that talk to each other, whatever carries the words.
#pragma once

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "halogen/comm/comm_statistics.hpp"
#include "halogen/comm/prepared_exchange.hpp"
#include "halogen/comm/request.hpp"
#include "halogen/comm/self/transport.hpp"
#include "halogen/comm/self_copy.hpp"
#include "halogen/core/config.hpp"

namespace halogen {

/// Shared handle, cheap to copy. Default-made it is one rank alone. Collectives are called by all its ranks in the same
/// order with equal sizes; blocking ones poll and yield, since ranks may outnumber cores. One rank, or zero bytes, emit
/// nothing at all. Faults of the transport are an Error naming operation, label, peer where known, and the transport's
/// own text. A null communicator (split with color < 0, a dry mesh) has rank -1 and size 0 and refuses to communicate.
class Communicator {
 public:
  Communicator() : Communicator(std::make_shared<detail::SelfTransport>("self")) {}
  explicit Communicator(std::shared_ptr<detail::Transport> transport) : transport_(std::move(transport)) {}
  static Communicator null() { return Communicator(std::shared_ptr<detail::Transport>()); }

  explicit operator bool() const { return transport_ != nullptr; }
  int rank() const { return transport_ ? transport_->rank() : -1; }
  int size() const { return transport_ ? transport_->size() : 0; }
  std::string_view label() const { return transport_ ? std::string_view(transport_->label()) : "null"; }
  std::string_view transport_name() const { return transport_ ? transport_->name() : "null"; }

  /// Whether operations on device memory take their place in the execution space's stream: done for the host once
  /// started, nothing to fence before them; what is queued behind an exchange's test() or wait() finds its messages
  /// there. Those on host memory are done when waited for, on any transport.
  bool stream_ordered() const { return transport_ && transport_->stream_ordered(); }
  /// What may lie in device memory: the transfers of prepare(), the data of collectives. All ranks give the same kind.
  bool messages_take_device_memory() const { return transport_ && transport_->messages_take_device_memory(); }
  bool collectives_take_device_memory() const { return transport_ && transport_->collectives_take_device_memory(); }
  /// Local. Device memory from which and into which the messages of prepare() travel best (NCCL's windows,
  /// docs/gpu.md), given back with the last copy of the pointer; null where the transport has none, or no piece so
  /// large is left: all memory that it takes does then as well. It is taken back in the order of the stream.
  std::shared_ptr<void> message_memory(std::size_t bytes) const {
    return transport_ ? transport_->message_memory(bytes) : nullptr;
  }
  /// How much of it the transport has in all.
  std::size_t message_memory_bytes() const { return transport_ ? transport_->message_memory_bytes() : 0; }
  /// Throws Error where an operation that the host did not wait for has failed: ask before a result is used.
  void check_health() const {
    if (transport_) transport_->check_health();
  }

  /// Collective. Ranks of equal color form a communicator, ordered by key; color < 0 stays outside (null).
  Communicator split(int color, int key, std::string label) const {
    return Communicator(transport("split").split(color, key, std::move(label)));
  }
  /// Collective. The ranks that share this one's memory.
  Communicator split_by_node(std::string label) const {
    return Communicator(transport("split_by_node").split_by_node(std::move(label)));
  }

  /// Local: announces messages that start() will move, as often as wanted. `what` names them in errors. Throws Error
  /// for a peer or tag out of range and for unpaired messages of this rank to itself.
  [[nodiscard]] Exchange prepare(std::span<const Transfer> receives, std::span<const Transfer> sends,
                                 std::string what) const;

  /// In place; every rank ends with the same bits.
  template <Reducible T>
  [[nodiscard]] Request all_reduce_async(T* data, std::size_t count, ReduceOp op = ReduceOp::sum) const;
  template <Reducible T>
  void all_reduce(T* data, std::size_t count, ReduceOp op = ReduceOp::sum) const {
    all_reduce_async(data, count, op).wait();
  }

  /// Reduces every rank's `send`, sum(counts) values in rank order, and leaves counts[r] of them on rank r. All ranks
  /// pass all counts; `receive` does not overlap `send`. Throws Error where there is not one count for each rank.
  template <Reducible T>
  [[nodiscard]] Request reduce_scatter_v_async(const T* send, T* receive, std::span<const std::size_t> counts,
                                               ReduceOp op = ReduceOp::sum) const;
  template <Reducible T>
  void reduce_scatter_v(const T* send, T* receive, std::span<const std::size_t> counts,
                        ReduceOp op = ReduceOp::sum) const {
    reduce_scatter_v_async(send, receive, counts, op).wait();
  }

  /// `bytes` from every rank, in rank order; send may be this rank's own place in receive.
  void all_gather(const void* send, std::size_t bytes, void* receive) const;

  /// The same with bytes_of_each[r] bytes from rank r; throws Error where `bytes` is not this rank's entry.
  [[nodiscard]] Request all_gather_v_async(const void* send, std::size_t bytes, void* receive,
                                           std::span<const std::size_t> bytes_of_each) const;
  void all_gather_v(const void* send, std::size_t bytes, void* receive,
                    std::span<const std::size_t> bytes_of_each) const {
    all_gather_v_async(send, bytes, receive, bytes_of_each).wait();
  }

  /// To each rank r the next send_bytes[r] of `send`, from each the next receive_bytes[r] of `receive`, in rank order.
  /// Messages, one for each pair that has something to say, prepared anew each time: keep a prepare() for repetition.
  /// Throws Error where there is not one size for each rank, or a peer sends less or more than is received; a size that
  /// is 0 at one end of a pair alone is the caller's fault and waits for ever, as in MPI_Alltoallv.
  void all_to_all_v(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                    std::span<const std::size_t> receive_bytes) const;

  void broadcast(void* data, std::size_t bytes, int root) const;

  /// To the root, in rank order; only the root's `receive` is used. All ranks pass all sizes.
  void gather_v(const void* send, std::size_t bytes, void* receive, std::span<const std::size_t> bytes_of_each,
                int root) const;

  /// From the root, whose `send` alone is used, in rank order. All ranks pass all sizes.
  void scatter_v(const void* send, std::span<const std::size_t> bytes_of_each, void* receive, std::size_t bytes,
                 int root) const;

  void barrier() const;

  /// Its communicator of MPI, for comm/mpi alone; null where it has none.
  std::shared_ptr<const detail::MpiHandle> mpi_handle() const {
    return transport_ ? transport_->mpi_handle() : nullptr;
  }

  /// Whether both are handles to the same communicator.
  bool operator==(const Communicator&) const = default;

 private:
  detail::Transport& transport(const char* operation) const;
  bool silent(const char* operation, std::size_t bytes) const { return transport(operation).size() == 1 || bytes == 0; }
  void finish(detail::Pending pending) const { Request(transport_, pending).wait(); }

  void check_rank(int rank, const std::string& what) const;

  std::size_t total_of(const char* operation, std::span<const std::size_t> sizes) const;

  std::size_t check_sizes(const char* operation, std::size_t own, std::span<const std::size_t> bytes_of_each) const;

  std::shared_ptr<detail::Transport> transport_;
};

template <Reducible T>
Request Communicator::all_reduce_async(T* data, std::size_t count, ReduceOp op) const {
  const std::size_t bytes = count * sizeof(T);
  if (silent("all_reduce", bytes)) return {};
  comm_stats().all_reduces.add(bytes);
  return {transport_, transport_->all_reduce(data, count, detail::scalar_of<T>(), op)};
}

template <Reducible T>
Request Communicator::reduce_scatter_v_async(const T* send, T* receive, std::span<const std::size_t> counts,
                                             ReduceOp op) const {
  const std::size_t bytes = total_of("reduce_scatter_v", counts) * sizeof(T);
  if (silent("reduce_scatter_v", bytes)) return detail::copy_bytes(receive, send, bytes), Request();
  comm_stats().reduce_scatters.add(bytes);
  return {transport_, transport_->reduce_scatter_v(send, receive, counts, detail::scalar_of<T>(), op)};
}

#if HALOGEN_BODIES
HALOGEN_INLINE Exchange Communicator::prepare(std::span<const Transfer> receives, std::span<const Transfer> sends,
                                              std::string what) const {
  detail::Transport& carrier = transport("prepare");
  for (const std::span<const Transfer> list : {receives, sends})
    for (const Transfer& transfer : list) {
      check_rank(transfer.peer, what);
      if (transfer.tag < 0 || transfer.tag > max_tag)
        throw Error(what + ": tag " + std::to_string(transfer.tag) + " is outside 0.." + std::to_string(max_tag));
    }
  return Exchange(carrier.prepare(receives, sends, std::move(what)));
}

HALOGEN_INLINE void Communicator::all_gather(const void* send, std::size_t bytes, void* receive) const {
  if (silent("all_gather", bytes)) return detail::copy_bytes(receive, send, bytes);
  comm_stats().all_gathers.add(bytes);
  finish(transport_->all_gather(send, receive, bytes));
}

HALOGEN_INLINE Request Communicator::all_gather_v_async(const void* send, std::size_t bytes, void* receive,
                                                        std::span<const std::size_t> bytes_of_each) const {
  const std::size_t total = check_sizes("all_gather_v", bytes, bytes_of_each);
  if (silent("all_gather_v", total)) return detail::copy_bytes(receive, send, bytes), Request();
  comm_stats().all_gathers.add(bytes);
  return {transport_, transport_->all_gather_v(send, receive, bytes_of_each)};
}

HALOGEN_INLINE void Communicator::all_to_all_v(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                                               std::span<const std::size_t> receive_bytes) const {
  total_of("all_to_all_v", send_bytes);
  total_of("all_to_all_v", receive_bytes);
  const std::vector<Transfer> sends = detail::side_by_side(const_cast<void*>(send), send_bytes);
  Exchange exchange = prepare(detail::side_by_side(receive, receive_bytes), sends, "all_to_all_v");
  exchange.start();
  exchange.wait();
}

HALOGEN_INLINE void Communicator::broadcast(void* data, std::size_t bytes, int root) const {
  transport("broadcast");
  check_rank(root, "broadcast");
  if (silent("broadcast", bytes)) return;
  comm_stats().broadcasts.add(bytes);
  finish(transport_->broadcast(data, bytes, root));
}

HALOGEN_INLINE void Communicator::gather_v(const void* send, std::size_t bytes, void* receive,
                                           std::span<const std::size_t> bytes_of_each, int root) const {
  const std::size_t total = check_sizes("gather_v", bytes, bytes_of_each);
  check_rank(root, "gather_v");
  if (silent("gather_v", total)) return detail::copy_bytes(receive, send, bytes);
  comm_stats().gathers.add(bytes);
  finish(transport_->gather_v(send, receive, bytes_of_each, root));
}

HALOGEN_INLINE void Communicator::scatter_v(const void* send, std::span<const std::size_t> bytes_of_each, void* receive,
                                            std::size_t bytes, int root) const {
  const std::size_t total = check_sizes("scatter_v", bytes, bytes_of_each);
  check_rank(root, "scatter_v");
  if (silent("scatter_v", total)) return detail::copy_bytes(receive, send, bytes);
  comm_stats().scatters.add(bytes);
  finish(transport_->scatter_v(send, receive, bytes_of_each, root));
}

HALOGEN_INLINE void Communicator::barrier() const {
  if (silent("barrier", 1)) return;
  comm_stats().barriers.add(0);
  finish(transport_->barrier());
}

HALOGEN_INLINE detail::Transport& Communicator::transport(const char* operation) const {
  if (!transport_) throw Error(std::string(operation) + " on a null communicator, which has no ranks");
  return *transport_;
}

HALOGEN_INLINE void Communicator::check_rank(int rank, const std::string& what) const {
  if (rank < 0 || rank >= size())
    throw Error(what + ": rank " + std::to_string(rank) + " is not in communicator \"" + std::string(label()) +
                "\" of " + std::to_string(size()));
}

HALOGEN_INLINE std::size_t Communicator::total_of(const char* operation, std::span<const std::size_t> sizes) const {
  if (sizes.size() != static_cast<std::size_t>(transport(operation).size()))
    throw Error(std::string(operation) + " on \"" + std::string(label()) + "\": " + std::to_string(sizes.size()) +
                " sizes for " + std::to_string(size()) + " ranks: give one for each");
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

HALOGEN_INLINE std::size_t Communicator::check_sizes(const char* operation, std::size_t own,
                                                     std::span<const std::size_t> bytes_of_each) const {
  const std::size_t total = total_of(operation, bytes_of_each);
  const auto rank = static_cast<std::size_t>(transport_->rank());
  if (bytes_of_each[rank] != own)
    throw Error(std::string(operation) + " on \"" + std::string(label()) + "\": rank " + std::to_string(rank) +
                " has " + std::to_string(own) + " bytes, but its list of sizes says " +
                std::to_string(bytes_of_each[rank]));
  return total;
}
#endif

}  // namespace halogen
