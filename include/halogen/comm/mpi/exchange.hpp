// A prepared exchange over MPI: persistent requests, started together.
#pragma once

#ifdef HALOGEN_WITH_MPI

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/mpi/handle.hpp"
#include "halogen/comm/self_copy.hpp"
#include "halogen/comm/transport.hpp"
#include "halogen/comm/wait.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Transfers longer than max_message_bytes are several messages under one tag; MPI keeps their order, because they are
/// started one by one (MPI_Startall may start in any order). Receives are posted first, so that sends find them.
class MpiExchange final : public PreparedExchange {
 public:
  MpiExchange(std::shared_ptr<const MpiHandle> handle, std::span<const Transfer> receives,
              std::span<const Transfer> sends, std::string what);
  ~MpiExchange() override;

  const std::string& what() const override { return what_; }

  void start() override;

  bool test() override;

  std::string awaited() override;

 private:
  struct Message {
    int peer;
    std::size_t bytes;
    bool receive;
  };

  void add(const Transfer& transfer, bool receive);

  static int MPI_Send_init_of_mutable(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                                      MPI_Request* request) {
    return MPI_Send_init(data, count, type, peer, tag, comm, request);
  }

  /// A message longer than its receive is MPI's error, a shorter one is not: it would leave old values in a halo.
  void check_length(std::size_t i) const;

  std::shared_ptr<const MpiHandle> handle_;
  std::string what_;
  SelfCopies copies_;
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  // one for each request, receives first
  std::vector<MPI_Status> statuses_;
  bool active_ = false;
};

#if HALOGEN_BODIES
HALOGEN_INLINE MpiExchange::MpiExchange(std::shared_ptr<const MpiHandle> handle, std::span<const Transfer> receives,
                                        std::span<const Transfer> sends, std::string what)
    : handle_(std::move(handle)), what_(std::move(what)), copies_(handle_->rank(), receives, sends, what_) {
  for (const Transfer& receive : receives) add(receive, true);
  for (const Transfer& send : sends) add(send, false);
  statuses_.resize(requests_.size());
}

HALOGEN_INLINE MpiExchange::~MpiExchange() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
  for (MPI_Request& request : requests_) MPI_Request_free(&request);
}

HALOGEN_INLINE void MpiExchange::start() {
  if (active_) throw Error(what_ + " on \"" + handle_->label() + "\" was started while still under way");
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    check_mpi(MPI_Start(&requests_[i]), what_, handle_->label(), messages_[i].peer);
    active_ = true;
    if (!messages_[i].receive) comm_stats().messages.add(messages_[i].bytes);
  }
  copies_.copy();
}

HALOGEN_INLINE bool MpiExchange::test() {
  if (!active_) return true;
  int done = 0;
  const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
  if (code == MPI_SUCCESS && !done) return false;
  active_ = false;
  if (code == MPI_ERR_IN_STATUS)
    for (std::size_t i = 0; i < statuses_.size(); ++i)
      check_mpi(statuses_[i].MPI_ERROR, what_, handle_->label(), messages_[i].peer);
  check_mpi(code, what_, handle_->label());
  for (std::size_t i = 0; i < statuses_.size() && messages_[i].receive; ++i) check_length(i);
  return true;
}

HALOGEN_INLINE std::string MpiExchange::awaited() {
  std::vector<int> peers;
  for (std::size_t i = 0; active_ && i < requests_.size(); ++i) {
    int done = 0;
    check_mpi(MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE), what_, handle_->label());
    if (!done) peers.push_back(messages_[i].peer);
  }
  return what_ + " on \"" + handle_->label() + "\"" + peers_text(std::move(peers));
}

HALOGEN_INLINE void MpiExchange::add(const Transfer& transfer, bool receive) {
  if (transfer.peer == handle_->rank()) return;
  for (std::size_t begin = 0; begin < transfer.bytes; begin += max_message_bytes) {
    const std::size_t bytes = std::min(max_message_bytes, transfer.bytes - begin);
    char* data = static_cast<char*>(transfer.data) + begin;
    const auto init = receive ? &MPI_Recv_init : &MPI_Send_init_of_mutable;
    check_mpi(init(data, static_cast<int>(bytes), MPI_BYTE, transfer.peer, transfer.tag, handle_->comm(),
                   &requests_.emplace_back(MPI_REQUEST_NULL)),
              what_, handle_->label(), transfer.peer);
    messages_.push_back({transfer.peer, bytes, receive});
  }
}

HALOGEN_INLINE void MpiExchange::check_length(std::size_t i) const {
  int bytes = 0;
  check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), what_, handle_->label(), messages_[i].peer);
  if (static_cast<std::size_t>(bytes) != messages_[i].bytes)
    throw Error(what_ + " on \"" + handle_->label() + "\", peer " + std::to_string(messages_[i].peer) + ": sent " +
                std::to_string(bytes) + " bytes where " + std::to_string(messages_[i].bytes) + " were expected");
}
#endif

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_MPI
