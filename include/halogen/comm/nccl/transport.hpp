// The transport over NCCL: operations on device memory complete in the order of the stream, without the host.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/nccl/exchange.hpp"
#include "halogen/comm/node.hpp"
#include "halogen/comm/self/transport.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Device memory is given to NCCL as it is, and the operation is done for the host once issued. Host memory (words that
/// ranks agree on, fields read from files) is staged: done when test() says so. All ranks issue the operations of all
/// their communicators in one order, since they share one stream.
class NcclTransport final : public Transport {
 public:
  using Sizes = std::span<const std::size_t>;

  explicit NcclTransport(std::shared_ptr<NcclHandle> handle)
      : Transport(handle->rank(), handle->size(), handle->label()), handle_(std::move(handle)) {}

  /// Takes ownership of `comm`. Collective over it where there is message memory.
  static std::shared_ptr<Transport> adopt(ncclComm_t comm, std::string label,
                                          std::shared_ptr<NcclWindowMemory> message_memory);

  std::string_view name() const override { return "nccl"; }
  bool stream_ordered() const override { return true; }
  bool messages_take_device_memory() const override { return true; }
  bool collectives_take_device_memory() const override { return true; }
  void check_health() const override { handle_->check_health(); }
  std::shared_ptr<void> message_memory(std::size_t bytes) override {
    return handle_->window() == nullptr ? nullptr : handle_->message_memory()->take(bytes);
  }
  std::size_t message_memory_bytes() const override {
    return handle_->window() == nullptr ? 0 : handle_->message_memory()->bytes();
  }

  std::shared_ptr<Transport> split(int color, int key, std::string label) override;

  std::shared_ptr<Transport> split_by_node(std::string label) override;

  std::unique_ptr<PreparedExchange> prepare(std::span<const Transfer> receives, std::span<const Transfer> sends,
                                            std::string what) override {
    return std::make_unique<NcclExchange>(handle_, receives, sends, std::move(what));
  }

  Pending all_reduce(void* data, std::size_t count, Scalar scalar, ReduceOp op) override;

  Pending reduce_scatter_v(const void* send, void* receive, Sizes counts, Scalar scalar, ReduceOp op) override;

  Pending broadcast(void* data, std::size_t bytes, int root) override;

  Pending all_gather(const void* send, void* receive, std::size_t bytes) override;
  Pending all_gather_v(const void* send, void* receive, Sizes sizes) override {
    return all_gather("all_gather_v", send, receive, sizes);
  }

  Pending gather_v(const void* send, void* receive, Sizes sizes, int root) override;

  Pending scatter_v(const void* send, void* receive, Sizes sizes, int root) override;

  /// Of hosts as well: the word is host memory, so that test() waits for it.
  Pending barrier() override { return all_reduce(&arrived_, 1, Scalar::int32, ReduceOp::max); }

  bool test(Pending pending) override;

 private:
  /// Which of a collective's pieces, one a rank and side by side, this rank gives or takes.
  enum class Part { none, own, all };

  struct Ends {
    const void* send;
    void* receive;
    Sizes sizes;  // bytes of each piece
    int own;
    Part gives, takes;
    bool is_messages = false;
  };

  ncclComm_t comm() const { return handle_->comm(); }

  Pending all_gather(const char* name, const void* send, void* receive, Sizes sizes);

  /// Calls emit(nccl, in, out, sizes) for the whole, or for host memory round by round; the last round is left under
  /// way.
  template <class Emit>
  Pending run(const char* name, int root, const Ends& ends, Emit emit);

  /// On a GPU there is one kind of memory in a call; where nothing lies is of no kind.
  bool on_device(const char* name, const Ends& ends) const;

  static bool has_bytes(Part part, const Ends& ends);

  /// A root's own piece of gather_v and scatter_v, which are messages; whatever else gives and takes is NCCL's to copy.
  void copy_own(const Ends& ends, const std::byte* in, std::byte* out, Sizes now) const;

  static void segments(std::vector<HostSegment>& list, void* data, Part part, const Ends& ends, std::size_t begin,
                       Sizes now);

  static std::size_t before(Sizes sizes, int rank);
  static bool all_equal(Sizes sizes) { return std::ranges::adjacent_find(sizes, std::not_equal_to<>()) == sizes.end(); }

  /// Calls f(rank, offset, bytes) for the pieces that have any.
  template <class F>
  static ncclResult_t for_each_piece(Sizes sizes, F f);

  Pending open();

  const std::shared_ptr<const NcclOperation>& operation(const char* name, int root = -1);

  static ncclDataType_t type_of(Scalar scalar);
  static ncclRedOp_t op_of(ReduceOp op);

  std::shared_ptr<NcclHandle> handle_;
  std::map<std::pair<std::string_view, int>, std::shared_ptr<const NcclOperation>> operations_;
  std::deque<NcclStaging> places_;
  std::vector<Pending> free_;
  std::vector<std::size_t> sizes_, round_;  // kept for their memory
  int arrived_ = 0;
};

template <class Emit>
Pending NcclTransport::run(const char* name, int root, const Ends& ends, Emit emit) {
  const std::shared_ptr<const NcclOperation>& operation = this->operation(name, root);
  if (on_device(name, ends)) {
    const auto* in = static_cast<const std::byte*>(ends.send);
    auto* out = static_cast<std::byte*>(ends.receive);
    handle_->issue(operation, [&](const NcclLibrary& nccl) { return emit(nccl, in, out, ends.sizes); });
    copy_own(ends, in, out, ends.sizes);
    return nothing_pending;
  }
  const std::size_t longest = *std::ranges::max_element(ends.sizes);
  const std::size_t most = std::max(nccl_round_bytes / ends.sizes.size() / 8 * 8, std::size_t{8});
  std::vector<std::size_t>& now = round_;
  now.resize(ends.sizes.size());
  for (std::size_t begin = 0;; begin += most) {
    for (std::size_t r = 0; r < now.size(); ++r)
      now[r] = ends.sizes[r] > begin ? std::min(ends.sizes[r] - begin, most) : 0;
    const Pending pending = open();  // a fault leaves the place unused
    NcclStaging& place = places_[static_cast<std::size_t>(pending)];
    segments(place.sources, const_cast<void*>(ends.send), ends.gives, ends, begin, now);
    segments(place.targets, ends.receive, ends.takes, ends, begin, now);
    place.begin();
    handle_->issue(operation, [&](const NcclLibrary& nccl) { return emit(nccl, place.in(), place.out(), now); });
    copy_own(ends, place.in(), place.out(), now);
    place.end();
    if (begin + most >= longest) return pending;
    poll_until([&] { return awaited(pending); }, [&] { return test(pending); });
  }
}

template <class F>
ncclResult_t NcclTransport::for_each_piece(Sizes sizes, F f) {
  ncclResult_t code = ncclSuccess;
  std::size_t offset = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const ncclResult_t now = sizes[r] > 0 ? f(static_cast<int>(r), offset, sizes[r]) : ncclSuccess;
    if (code == ncclSuccess) code = now;
    offset += sizes[r];
  }
  return code;
}

#if HALOGEN_BODIES
HALOGEN_INLINE std::shared_ptr<Transport> NcclTransport::adopt(ncclComm_t comm, std::string label,
                                                               std::shared_ptr<NcclWindowMemory> message_memory) {
  const NcclLibrary& nccl = NcclLibrary::get();
  int size = 0;
  NcclHandle::check(nccl.comm_count(comm, &size), "ncclCommCount");
  if (size > 1) {
    auto handle = std::make_shared<NcclHandle>(comm, std::move(label));
    if (message_memory) handle->open_window(std::move(message_memory));
    return std::make_shared<NcclTransport>(std::move(handle));
  }
  NcclHandle::check(nccl.comm_destroy(comm), "ncclCommDestroy");
  return std::make_shared<SelfTransport>(std::move(label));
}

HALOGEN_INLINE std::shared_ptr<Transport> NcclTransport::split(int color, int key, std::string label) {
  ncclComm_t part = nullptr;
  wait_for_stream();  // NCCL wants nothing under way
  handle_->call(operation("split"), [&](const NcclLibrary& nccl) {
    return nccl.comm_split(handle_->comm(), color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, nullptr);
  });
  return color < 0 ? nullptr : adopt(part, std::move(label), handle_->message_memory());
}

HALOGEN_INLINE std::shared_ptr<Transport> NcclTransport::split_by_node(std::string label) {
  std::vector<std::uint64_t> nodes(static_cast<std::size_t>(size()));
  const std::uint64_t own = node_identity();
  const Pending pending = all_gather(&own, nodes.data(), sizeof own);
  poll_until([&] { return awaited(pending); }, [&] { return pending == nothing_pending || test(pending); });
  const auto first = std::ranges::find(nodes, own) - nodes.begin();
  return split(static_cast<int>(first), rank(), std::move(label));
}

HALOGEN_INLINE Pending NcclTransport::all_reduce(void* data, std::size_t count, Scalar scalar, ReduceOp op) {
  const std::size_t bytes[] = {count * bytes_of(scalar)};
  return run("all_reduce", -1, {data, data, bytes, 0, Part::own, Part::own},
             [&](const NcclLibrary& nccl, const std::byte* in, std::byte* out, Sizes now) {
               return nccl.all_reduce(in, out, now[0] / bytes_of(scalar), type_of(scalar), op_of(op), comm(), stream());
             });
}

HALOGEN_INLINE Pending NcclTransport::reduce_scatter_v(const void* send, void* receive, Sizes counts, Scalar scalar,
                                                       ReduceOp op) {
  const std::size_t width = bytes_of(scalar);
  sizes_.assign(counts.begin(), counts.end());
  for (std::size_t& size : sizes_) size *= width;
  return run("reduce_scatter_v", -1, {send, receive, sizes_, rank(), Part::all, Part::own},
             [&](const NcclLibrary& nccl, const std::byte* in, std::byte* out, Sizes now) {
               if (all_equal(now))
                 return nccl.reduce_scatter(in, out, now[0] / width, type_of(scalar), op_of(op), comm(), stream());
               return for_each_piece(now, [&](int root, std::size_t offset, std::size_t bytes) {
                 return nccl.reduce(in + offset, root == rank() ? out : nullptr, bytes / width, type_of(scalar),
                                    op_of(op), root, comm(), stream());
               });
             });
}

HALOGEN_INLINE Pending NcclTransport::broadcast(void* data, std::size_t bytes, int root) {
  const std::size_t sizes[] = {bytes};
  return run("broadcast", root, {data, data, sizes, 0, rank() == root ? Part::own : Part::none, Part::own},
             [&](const NcclLibrary& nccl, const std::byte* in, std::byte* out, Sizes now) {
               return nccl.broadcast(in, out, now[0], ncclUint8, root, comm(), stream());
             });
}

HALOGEN_INLINE Pending NcclTransport::all_gather(const void* send, void* receive, std::size_t bytes) {
  sizes_.assign(static_cast<std::size_t>(size()), bytes);
  return all_gather("all_gather", send, receive, sizes_);
}

HALOGEN_INLINE Pending NcclTransport::gather_v(const void* send, void* receive, Sizes sizes, int root) {
  const bool here = rank() == root;
  return run("gather_v", root, {send, receive, sizes, rank(), Part::own, here ? Part::all : Part::none, true},
             [&](const NcclLibrary& nccl, const std::byte* in, std::byte* out, Sizes now) {
               return for_each_piece(now, [&](int peer, std::size_t offset, std::size_t bytes) {
                 if (here && peer != root) return nccl.recv(out + offset, bytes, ncclUint8, peer, comm(), stream());
                 if (!here && peer == rank()) return nccl.send(in, bytes, ncclUint8, root, comm(), stream());
                 return ncclSuccess;
               });
             });
}

HALOGEN_INLINE Pending NcclTransport::scatter_v(const void* send, void* receive, Sizes sizes, int root) {
  const bool here = rank() == root;
  return run("scatter_v", root, {send, receive, sizes, rank(), here ? Part::all : Part::none, Part::own, true},
             [&](const NcclLibrary& nccl, const std::byte* in, std::byte* out, Sizes now) {
               return for_each_piece(now, [&](int peer, std::size_t offset, std::size_t bytes) {
                 if (here && peer != root) return nccl.send(in + offset, bytes, ncclUint8, peer, comm(), stream());
                 if (!here && peer == rank()) return nccl.recv(out, bytes, ncclUint8, root, comm(), stream());
                 return ncclSuccess;
               });
             });
}

HALOGEN_INLINE bool NcclTransport::test(Pending pending) {
  NcclStaging& place = places_[static_cast<std::size_t>(pending)];
  handle_->check_health();
  if (!place.passed()) return false;
  free_.push_back(pending);
  handle_->check_health();  // an abort lets the mark pass as well
  place.finish();
  return true;
}

HALOGEN_INLINE Pending NcclTransport::all_gather(const char* name, const void* send, void* receive, Sizes sizes) {
  return run(name, -1, {send, receive, sizes, rank(), Part::own, Part::all},
             [&](const NcclLibrary& nccl, const std::byte* in, std::byte* out, Sizes now) {
               if (all_equal(now)) return nccl.all_gather(in, out, now[0], ncclUint8, comm(), stream());
               return for_each_piece(now, [&](int root, std::size_t offset, std::size_t bytes) {
                 std::byte* to = out + offset;
                 return nccl.broadcast(root == rank() ? in : to, to, bytes, ncclUint8, root, comm(), stream());
               });
             });
}

HALOGEN_INLINE bool NcclTransport::on_device(const char* name, const Ends& ends) const {
  int kinds[2] = {0, 0};
  if (has_bytes(ends.gives, ends)) ++kinds[is_device_memory(ends.send) ? 1 : 0];
  if (has_bytes(ends.takes, ends)) ++kinds[is_device_memory(ends.receive) ? 1 : 0];
  if (has_stream && kinds[0] > 0 && kinds[1] > 0)
    throw Error(std::string(name) + " on \"" + label() + "\" from device to host memory or back: give one kind");
  return kinds[0] == 0;
}

HALOGEN_INLINE bool NcclTransport::has_bytes(Part part, const Ends& ends) {
  return part == Part::own   ? ends.sizes[static_cast<std::size_t>(ends.own)] > 0
         : part == Part::all ? before(ends.sizes, static_cast<int>(ends.sizes.size())) > 0
                             : false;
}

HALOGEN_INLINE void NcclTransport::copy_own(const Ends& ends, const std::byte* in, std::byte* out, Sizes now) const {
  const bool scatters = ends.gives == Part::all && ends.takes == Part::own;
  const bool gathers = ends.gives == Part::own && ends.takes == Part::all;
  if (!ends.is_messages || !(scatters || gathers)) return;
  const std::size_t offset = before(now, ends.own), bytes = now[static_cast<std::size_t>(ends.own)];
  const std::byte* from = in + (scatters ? offset : 0);
  std::byte* to = out + (gathers ? offset : 0);
  if (bytes > 0 && to != from) copy_in_order(to, from, bytes);
}

HALOGEN_INLINE void NcclTransport::segments(std::vector<HostSegment>& list, void* data, Part part, const Ends& ends,
                                            std::size_t begin, Sizes now) {
  std::size_t offset = 0;
  for (std::size_t r = 0; r < now.size(); ++r) {
    const bool mine = part == Part::all || (part == Part::own && static_cast<int>(r) == ends.own);
    if (mine && now[r] > 0) list.push_back({static_cast<std::byte*>(data) + offset + begin, now[r]});
    if (part == Part::all) offset += ends.sizes[r];
  }
}

HALOGEN_INLINE std::size_t NcclTransport::before(Sizes sizes, int rank) {
  const Sizes some = sizes.first(static_cast<std::size_t>(rank));
  return std::accumulate(some.begin(), some.end(), std::size_t{0});
}

HALOGEN_INLINE Pending NcclTransport::open() {
  if (free_.empty()) {
    free_.push_back(static_cast<Pending>(places_.size()));
    places_.emplace_back();
  }
  const Pending pending = free_.back();
  free_.pop_back();
  places_[static_cast<std::size_t>(pending)].clear();
  return pending;
}

HALOGEN_INLINE const std::shared_ptr<const NcclOperation>& NcclTransport::operation(const char* name, int root) {
  std::shared_ptr<const NcclOperation>& known = operations_[{name, root}];
  if (!known)
    known = std::make_shared<const NcclOperation>(
        NcclOperation{name, root < 0 || root == rank() ? std::vector<int>() : std::vector{root}});
  return known;
}

HALOGEN_INLINE ncclDataType_t NcclTransport::type_of(Scalar scalar) {
  switch (scalar) {
    case Scalar::int32:
      return ncclInt32;
    case Scalar::int64:
      return ncclInt64;
    case Scalar::uint64:
      return ncclUint64;
    case Scalar::float32:
      return ncclFloat32;
    case Scalar::float64:
      return ncclFloat64;
  }
  return ncclUint8;
}

HALOGEN_INLINE ncclRedOp_t NcclTransport::op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
  }
  return ncclSum;
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
