// The transport over MPI: every operation is a non-blocking MPI call with its code checked.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "halogen/comm/mpi/device_memory.hpp"
#include "halogen/comm/mpi/exchange.hpp"
#include "halogen/comm/mpi/pending.hpp"
#include "halogen/comm/self/transport.hpp"
#include "halogen/comm/self_copy.hpp"
#include "halogen/comm/wait.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Owns a duplicated or split communicator; one of size 1 becomes a SelfTransport instead. MPI counts in int: longer
/// reductions and broadcasts are cut into pieces, longer gathers and scatters become messages under a tag of our own.
class MpiTransport final : public Transport {
 public:
  using Sizes = std::span<const std::size_t>;

  explicit MpiTransport(std::shared_ptr<const MpiHandle> handle)
      : Transport(handle->rank(), handle->size(), handle->label()), handle_(std::move(handle)) {}

  /// Takes ownership of `comm`.
  static std::shared_ptr<Transport> adopt(MPI_Comm comm, std::string label);
  static std::shared_ptr<Transport> adopt(std::shared_ptr<const MpiHandle> handle);

  /// Collective over `comm`, which stays the caller's.
  static std::shared_ptr<Transport> duplicate(MPI_Comm comm, std::string label);
  static std::shared_ptr<const MpiHandle> handle_of_copy(MPI_Comm comm, std::string label);

  /// MPI waits for all ranks within the calls that make communicators, where nobody can say so: they meet before. Any
  /// rank that is late is waited for here, and `what` said of it.
  static void meet(MPI_Comm comm, const std::string& what);

  std::string_view name() const override { return "mpi"; }
  bool messages_take_device_memory() const override { return takes_device_memory_; }

  std::shared_ptr<Transport> split(int color, int key, std::string label) override;

  std::shared_ptr<Transport> split_by_node(std::string label) override;

  std::unique_ptr<PreparedExchange> prepare(std::span<const Transfer> receives, std::span<const Transfer> sends,
                                            std::string what) override {
    return std::make_unique<MpiExchange>(handle_, receives, sends, std::move(what));
  }

  Pending all_reduce(void* data, std::size_t count, Scalar scalar, ReduceOp op) override;

  Pending reduce_scatter_v(const void* send, void* receive, Sizes counts, Scalar scalar, ReduceOp op) override;

  Pending broadcast(void* data, std::size_t bytes, int root) override;

  Pending all_gather(const void* send, void* receive, std::size_t bytes) override;

  Pending all_gather_v(const void* send, void* receive, Sizes sizes) override;

  Pending gather_v(const void* send, void* receive, Sizes sizes, int root) override;

  Pending scatter_v(const void* send, void* receive, Sizes sizes, int root) override;

  Pending barrier() override;

  bool test(Pending pending) override { return collectives_.test(pending, label()); }

  std::string awaited(Pending pending) const override { return named(std::string(collectives_.operation(pending))); }

  std::shared_ptr<const MpiHandle> mpi_handle() const override { return handle_; }

 private:
  static constexpr int own_tag = max_tag + 1;

  std::string named(const std::string& operation) const {
    return operation + " on \"" + label() + "\" of " + std::to_string(size()) + " ranks";
  }
  MPI_Comm comm() const { return handle_->comm(); }
  void check(int code, std::string_view operation, int peer = -1) const { check_mpi(code, operation, label(), peer); }

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static void* at(void* data, std::size_t offset) { return static_cast<char*>(data) + offset; }
  static const void* at(const void* data, std::size_t offset) { return static_cast<const char*>(data) + offset; }
  static std::size_t index_of(const char* piece, const void* data) {
    return static_cast<std::size_t>(piece - static_cast<const char*>(data));
  }
  static std::size_t offset(Sizes sizes, int rank) { return total(sizes.first(index(rank))); }
  static std::size_t total(Sizes sizes) { return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}); }

  template <class Emit>
  static void in_pieces(const void* data, std::size_t bytes, std::size_t longest, Emit&& emit);

  void receive_from(MpiCollective& place, int peer, void* data, Sizes sizes) const {
    receive_from(place, peer, data, sizes[index(peer)]);
  }
  void receive_from(MpiCollective& place, int peer, void* data, std::size_t bytes) const;
  void send_to(MpiCollective& place, int peer, const void* data, std::size_t bytes) const;

  static MPI_Datatype type_of(Scalar scalar);
  static MPI_Op op_of(ReduceOp op);

  std::shared_ptr<const MpiHandle> handle_;
  bool takes_device_memory_ = mpi_takes_device_memory();
  MpiCollectives collectives_;
};

template <class Emit>
void MpiTransport::in_pieces(const void* data, std::size_t bytes, std::size_t longest, Emit&& emit) {
  for (std::size_t begin = 0; begin < bytes; begin += longest)
    emit(static_cast<char*>(const_cast<void*>(data)) + begin, std::min(longest, bytes - begin));
}

#if HALOGEN_BODIES
HALOGEN_INLINE std::shared_ptr<Transport> MpiTransport::adopt(MPI_Comm comm, std::string label) {
  return adopt(std::make_shared<const MpiHandle>(comm, std::move(label)));
}

HALOGEN_INLINE std::shared_ptr<Transport> MpiTransport::adopt(std::shared_ptr<const MpiHandle> handle) {
  if (handle->size() == 1) return std::make_shared<SelfTransport>(handle->label());
  return std::make_shared<MpiTransport>(std::move(handle));
}

HALOGEN_INLINE void MpiTransport::meet(MPI_Comm comm, const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm, &request), "MPI_Ibarrier", what);
  poll_until([&] { return what; },
             [&] {
               int done = 0;
               check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Ibarrier", what);
               return done != 0;
             });
}

HALOGEN_INLINE std::shared_ptr<const MpiHandle> MpiTransport::handle_of_copy(MPI_Comm comm, std::string label) {
  MPI_Comm copy = MPI_COMM_NULL;
  meet(comm, "all ranks of \"" + label + "\", which is made");
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup", label);
  return std::make_shared<const MpiHandle>(copy, std::move(label));
}

HALOGEN_INLINE std::shared_ptr<Transport> MpiTransport::duplicate(MPI_Comm comm, std::string label) {
  return adopt(handle_of_copy(comm, std::move(label)));
}

HALOGEN_INLINE std::shared_ptr<Transport> MpiTransport::split(int color, int key, std::string label) {
  MPI_Comm part = MPI_COMM_NULL;
  meet(comm(), named("split"));
  check_mpi(MPI_Comm_split(handle_->comm(), color < 0 ? MPI_UNDEFINED : color, key, &part), "split", this->label());
  return part == MPI_COMM_NULL ? nullptr : adopt(part, std::move(label));
}

HALOGEN_INLINE std::shared_ptr<Transport> MpiTransport::split_by_node(std::string label) {
  MPI_Comm part = MPI_COMM_NULL;
  meet(comm(), named("split_by_node"));
  check_mpi(MPI_Comm_split_type(handle_->comm(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &part), "split_by_node",
            this->label());
  return adopt(part, std::move(label));
}

HALOGEN_INLINE Pending MpiTransport::all_reduce(void* data, std::size_t count, Scalar scalar, ReduceOp op) {
  const Pending pending = collectives_.open("all_reduce");
  const std::size_t width = bytes_of(scalar);
  in_pieces(data, count * width, max_message_bytes / width * width, [&](char* piece, std::size_t bytes) {
    check(MPI_Iallreduce(MPI_IN_PLACE, piece, static_cast<int>(bytes / width), type_of(scalar), op_of(op), comm(),
                         collectives_[pending].request()),
          "all_reduce");
  });
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::reduce_scatter_v(const void* send, void* receive, Sizes counts, Scalar scalar,
                                                      ReduceOp op) {
  const Pending pending = collectives_.open("reduce_scatter_v");
  MpiCollective& place = collectives_[pending];
  const std::size_t width = bytes_of(scalar), longest = max_message_bytes / width * width;
  if (total(counts) * width > longest) {
    for (int root = 0; root < size(); ++root) {
      const void* summands = at(send, offset(counts, root) * width);
      in_pieces(summands, counts[index(root)] * width, longest, [&](char* piece, std::size_t bytes) {
        void* sum = rank() == root ? at(receive, index_of(piece, summands)) : nullptr;
        check(MPI_Ireduce(piece, sum, static_cast<int>(bytes / width), type_of(scalar), op_of(op), root, comm(),
                          place.request()),
              "reduce_scatter_v");
      });
    }
    return pending;
  }
  place.lay_out(counts);
  check(MPI_Ireduce_scatter(send, receive, place.counts.data(), type_of(scalar), op_of(op), comm(), place.request()),
        "reduce_scatter_v");
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::broadcast(void* data, std::size_t bytes, int root) {
  const Pending pending = collectives_.open("broadcast");
  in_pieces(data, bytes, max_message_bytes, [&](char* piece, std::size_t part) {
    check(MPI_Ibcast(piece, static_cast<int>(part), MPI_BYTE, root, comm(), collectives_[pending].request()),
          "broadcast");
  });
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::all_gather(const void* send, void* receive, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  if (bytes > max_message_bytes / ranks) return all_gather_v(send, receive, std::vector(ranks, bytes));
  const Pending pending = collectives_.open("all_gather");
  const auto count = static_cast<int>(bytes);
  const bool in_place = send == at(receive, bytes * static_cast<std::size_t>(rank()));
  check(MPI_Iallgather(in_place ? MPI_IN_PLACE : send, count, MPI_BYTE, receive, count, MPI_BYTE, comm(),
                       collectives_[pending].request()),
        "all_gather");
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::all_gather_v(const void* send, void* receive, Sizes sizes) {
  const Pending pending = collectives_.open("all_gather_v");
  MpiCollective& place = collectives_[pending];
  void* own = at(receive, offset(sizes, rank()));
  if (total(sizes) > max_message_bytes) {
    for (int peer = 0; peer < size(); ++peer) receive_from(place, peer, at(receive, offset(sizes, peer)), sizes);
    for (int peer = 0; peer < size(); ++peer) send_to(place, peer, send, sizes[index(rank())]);
    copy_bytes(own, send, sizes[index(rank())]);
    return pending;
  }
  place.lay_out(sizes);
  check(MPI_Iallgatherv(send == own ? MPI_IN_PLACE : send, place.counts[index(rank())], MPI_BYTE, receive,
                        place.counts.data(), place.displacements.data(), MPI_BYTE, comm(), place.request()),
        "all_gather_v");
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::gather_v(const void* send, void* receive, Sizes sizes, int root) {
  const Pending pending = collectives_.open("gather_v");
  MpiCollective& place = collectives_[pending];
  if (total(sizes) > max_message_bytes) {
    if (rank() != root) return send_to(place, root, send, sizes[index(rank())]), pending;
    for (int peer = 0; peer < size(); ++peer) receive_from(place, peer, at(receive, offset(sizes, peer)), sizes);
    void* own = at(receive, offset(sizes, root));
    copy_bytes(own, send, sizes[index(root)]);
    return pending;
  }
  place.lay_out(sizes);
  const bool in_place = rank() == root && send == at(receive, offset(sizes, root));
  check(MPI_Igatherv(in_place ? MPI_IN_PLACE : send, place.counts[index(rank())], MPI_BYTE, receive,
                     place.counts.data(), place.displacements.data(), MPI_BYTE, root, comm(), place.request()),
        "gather_v");
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::scatter_v(const void* send, void* receive, Sizes sizes, int root) {
  const Pending pending = collectives_.open("scatter_v");
  MpiCollective& place = collectives_[pending];
  if (total(sizes) > max_message_bytes) {
    if (rank() != root) return receive_from(place, root, receive, sizes[index(rank())]), pending;
    for (int peer = 0; peer < size(); ++peer) send_to(place, peer, at(send, offset(sizes, peer)), sizes[index(peer)]);
    const void* own = at(send, offset(sizes, root));
    copy_bytes(receive, own, sizes[index(root)]);
    return pending;
  }
  place.lay_out(sizes);
  const bool in_place = rank() == root && receive == at(send, offset(sizes, root));
  check(
      MPI_Iscatterv(send, place.counts.data(), place.displacements.data(), MPI_BYTE, in_place ? MPI_IN_PLACE : receive,
                    place.counts[index(rank())], MPI_BYTE, root, comm(), place.request()),
      "scatter_v");
  return pending;
}

HALOGEN_INLINE Pending MpiTransport::barrier() {
  const Pending pending = collectives_.open("barrier");
  check(MPI_Ibarrier(comm(), collectives_[pending].request()), "barrier");
  return pending;
}

HALOGEN_INLINE void MpiTransport::receive_from(MpiCollective& place, int peer, void* data, std::size_t bytes) const {
  if (peer == rank()) return;
  in_pieces(data, bytes, max_message_bytes, [&](char* piece, std::size_t part) {
    check(MPI_Irecv(piece, static_cast<int>(part), MPI_BYTE, peer, own_tag, comm(), place.request()), place.operation,
          peer);
  });
}

HALOGEN_INLINE void MpiTransport::send_to(MpiCollective& place, int peer, const void* data, std::size_t bytes) const {
  if (peer == rank()) return;
  in_pieces(data, bytes, max_message_bytes, [&](char* piece, std::size_t part) {
    check(MPI_Isend(piece, static_cast<int>(part), MPI_BYTE, peer, own_tag, comm(), place.request()), place.operation,
          peer);
  });
}

HALOGEN_INLINE MPI_Datatype MpiTransport::type_of(Scalar scalar) {
  switch (scalar) {
    case Scalar::int32:
      return MPI_INT;
    case Scalar::int64:
      return MPI_INT64_T;
    case Scalar::uint64:
      return MPI_UINT64_T;
    case Scalar::float32:
      return MPI_FLOAT;
    case Scalar::float64:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

HALOGEN_INLINE MPI_Op MpiTransport::op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
