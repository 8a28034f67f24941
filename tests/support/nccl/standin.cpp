// NCCL for tests on the host: a call is its place in the stream, so it returns when it has been carried out. Stricter
// than NCCL: what is posted in another order or with another length than at the peer is an error, what nobody answers
// ends after NCCL_STANDIN_TIMEOUT seconds, sends wait for their receives, and all memory must be device memory in the
// eyes of the test (nccl_standin_check_memory).
// NCCL_STANDIN_FAULT=KIND:RANK makes the groups of one rank, from when it is set: stall; error, stall with an
// asynchronous error; late, end well but for an asynchronous error; refuse. NCCL_STANDIN_VERSION is the version that it
// claims to be.
#include <nccl.h>

#include <algorithm>
#include <memory>
#include <random>

#include "wires.hpp"

using namespace standin;

struct ncclComm {
  std::string name;
  std::unique_ptr<Wires> wires;
  int splits = 0;
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> error = ncclSuccess;
};

namespace {

enum Operation : std::int64_t { message, all_reduce, reduce, reduce_scatter, all_gather, broadcast, split_ranks };

struct Call {
  ncclComm_t comm;
  Operation operation;
  const char* send;
  char* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int root;  // or peer
};

bool (*is_device_memory)(const void*) = nullptr;
int process_rank = -1, depth = 0;
std::vector<Call> queue;

std::int64_t width(ncclDataType_t type) {
  return type <= ncclUint8                                                ? 1
         : type == ncclFloat16                                            ? 2
         : type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4
                                                                          : 8;
}

template <class T>
void add(char* sum, const char* value, std::size_t count, ncclRedOp_t op) {
  T* a = reinterpret_cast<T*>(sum);
  const T* b = reinterpret_cast<const T*>(value);
  for (std::size_t i = 0; i < count; ++i)
    a[i] = op == ncclSum    ? a[i] + b[i]
           : op == ncclProd ? a[i] * b[i]
           : op == ncclMax  ? std::max(a[i], b[i])
                            : std::min(a[i], b[i]);
}
void add(char* sum, const char* value, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  if (type == ncclInt32) return add<std::int32_t>(sum, value, count, op);
  if (type == ncclInt64) return add<std::int64_t>(sum, value, count, op);
  if (type == ncclFloat32) return add<float>(sum, value, count, op);
  if (type == ncclFloat64) return add<double>(sum, value, count, op);
  std::abort();
}

/// Hangs as NCCL does: until somebody aborts, or the test has waited long enough.
ncclResult_t hang(ncclComm& comm, ncclResult_t error) {
  comm.error = error;
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_seconds());
  while (!comm.aborted && Clock::now() < end) usleep(1000);
  return comm.aborted ? ncclSuccess : ncclSystemError;
}

ncclResult_t carry(ncclComm& comm, const std::vector<Message>& messages) {
  switch (comm.wires->run(messages, comm.aborted)) {
    case Outcome::done:
    case Outcome::aborted:
      return ncclSuccess;  // the stream goes on behind an aborted call
    case Outcome::lost:
      return hang(comm, ncclRemoteError);
    case Outcome::differs:
      return ncclInvalidUsage;
    case Outcome::deadlock:
      return ncclSystemError;
  }
  return ncclInternalError;
}

/// Rank 0 collects, checks that all call the same, and passes on what each shall have.
ncclResult_t collective(const Call& call) {
  ncclComm& comm = *call.comm;
  const int size = comm.wires->size(), rank = comm.wires->rank();
  const std::int64_t bytes = static_cast<std::int64_t>(call.count) * width(call.type);
  const bool reduces = call.operation == all_reduce || call.operation == reduce || call.operation == reduce_scatter;
  const auto gives = [&](int r) {
    return call.operation == broadcast && r != call.root ? 0 : call.operation == reduce_scatter ? bytes * size : bytes;
  };
  const auto takes = [&](int r) {
    return call.operation == reduce && r != call.root                      ? 0
           : call.operation == all_gather || call.operation == split_ranks ? bytes * size
                                                                           : bytes;
  };
  const auto header = [&](std::int64_t length) {
    return Header{call.operation, length, call.type, reduces ? call.reduction : -1, call.root};
  };
  std::vector<std::vector<char>> given(static_cast<std::size_t>(size)), taken(given.size());
  std::vector<Message> there, back;
  for (int r = 0; r < size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (rank != 0 && rank != r) continue;
    given[i].resize(static_cast<std::size_t>(gives(r)));
    taken[i].resize(static_cast<std::size_t>(takes(r)));
    if (r == rank && !given[i].empty()) std::memcpy(given[i].data(), call.send, given[i].size());
    if (r == 0) continue;
    there.push_back({rank == 0 ? r : 0, header(gives(r)), given[i].data(), rank != 0});
    back.push_back({rank == 0 ? r : 0, header(takes(r)), taken[i].data(), rank == 0});
  }
  if (const ncclResult_t code = carry(comm, there); code != ncclSuccess || comm.aborted) return code;
  if (rank == 0) {
    std::vector<char> whole;
    if (reduces) {
      whole = given[0];
      for (std::size_t r = 1; r < given.size(); ++r)
        add(whole.data(), given[r].data(), whole.size() / static_cast<std::size_t>(width(call.type)), call.type,
            call.reduction);
    } else {
      for (const std::vector<char>& part : given) whole.insert(whole.end(), part.begin(), part.end());
    }
    for (std::size_t r = 0; r < taken.size(); ++r)
      std::copy_n(whole.begin() + (call.operation == reduce_scatter ? static_cast<std::int64_t>(r) * bytes : 0),
                  taken[r].size(), taken[r].begin());
  }
  if (const ncclResult_t code = carry(comm, back); code != ncclSuccess || comm.aborted) return code;
  const std::vector<char>& own = taken[static_cast<std::size_t>(rank)];
  std::copy(own.begin(), own.end(), call.receive);
  return ncclSuccess;
}

/// The fault that a group of this process shall have.
std::string fault() {
  const char* text = std::getenv("NCCL_STANDIN_FAULT");
  if (text == nullptr) return {};
  const std::string words = text, here = ":" + std::to_string(process_rank);
  return words.ends_with(here) ? words.substr(0, words.size() - here.size()) : "";
}

ncclResult_t run_group() {
  const std::vector<Call> calls = std::exchange(queue, {});
  if (calls.empty()) return ncclSuccess;
  ncclComm& comm = *calls.front().comm;
  const std::string what = fault();
  if (what == "stall") return hang(comm, ncclSuccess);
  if (what == "error") return hang(comm, ncclSystemError);
  if (what == "late") comm.error = ncclRemoteError;
  if (what == "refuse") return ncclInternalError;
  std::vector<Message> messages;
  for (const Call& call : calls) {
    if (call.comm != &comm) return ncclInvalidUsage;
    for (const void* data : {static_cast<const void*>(call.send), static_cast<const void*>(call.receive)})
      if (data != nullptr && is_device_memory != nullptr && !is_device_memory(data)) {
        std::fprintf(stderr, "nccl stand-in: operation %d was given host memory\n", static_cast<int>(call.operation));
        return ncclInvalidArgument;
      }
    const auto bytes = static_cast<std::int64_t>(call.count) * width(call.type);
    if (call.operation == message)
      messages.push_back({call.root,
                          {message, bytes, call.type, -1, -1},
                          call.receive ? call.receive : const_cast<char*>(call.send),
                          call.receive == nullptr});
  }
  ncclResult_t code = carry(comm, messages);
  for (const Call& call : calls)
    if (call.operation != message && code == ncclSuccess && !comm.aborted) code = collective(call);
  return code;
}

ncclResult_t post(ncclComm_t comm, Operation operation, const void* send, void* receive, std::size_t count,
                  ncclDataType_t type, ncclRedOp_t reduction, int root) {
  if (operation == message && (root == comm->wires->rank() || root < 0 || root >= comm->wires->size()))
    return ncclInvalidArgument;
  queue.push_back(
      {comm, operation, static_cast<const char*>(send), static_cast<char*>(receive), count, type, reduction, root});
  return depth > 0 ? ncclSuccess : run_group();
}

}  // namespace

extern "C" {

void nccl_standin_check_memory(bool (*is_device)(const void*)) { is_device_memory = is_device; }

ncclResult_t ncclGetVersion(int* version) {
  const char* text = std::getenv("NCCL_STANDIN_VERSION");
  *version = text == nullptr ? 22809 : std::atoi(text);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  static const char* texts[] = {"no error",
                                "unhandled cuda error",
                                "unhandled system error",
                                "internal error",
                                "invalid argument",
                                "invalid usage",
                                "remote process exited or there was a network error",
                                "NCCL operation in progress"};
  return texts[result];
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device device;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "nccl-%08x%08x", device(), device());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (process_rank < 0) process_rank = rank;
  *comm = new ncclComm{id.internal, std::make_unique<Wires>(id.internal, rank, ranks)};
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  const int size = comm->wires->size();
  const std::int32_t own[] = {color, key};
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(size));
  const ncclResult_t code = collective({comm, split_ranks, reinterpret_cast<const char*>(own),
                                        reinterpret_cast<char*>(all.data()), 2, ncclInt32, ncclSum, -1});
  const std::string name = comm->name + "/" + std::to_string(comm->splits++) + ":" + std::to_string(color);
  *part = nullptr;
  if (code != ncclSuccess || comm->aborted || color < 0) return code;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int r = 0; r < size; ++r)
    if (all[2 * static_cast<std::size_t>(r)] == color) members.push_back({all[2 * static_cast<std::size_t>(r) + 1], r});
  std::ranges::sort(members);
  const auto own_place = std::ranges::find(members, std::pair{key, comm->wires->rank()}) - members.begin();
  *part =
      new ncclComm{name, std::make_unique<Wires>(name, static_cast<int>(own_place), static_cast<int>(members.size()))};
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) { return *count = comm->wires->size(), ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) { return *rank = comm->wires->rank(), ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return delete comm, ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return comm->aborted = true, ncclSuccess;
}  // its caller may be in it: kept
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) { return *error = comm->error, ncclSuccess; }
ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --depth == 0 ? run_group() : ncclSuccess; }

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return post(comm, message, data, nullptr, count, type, ncclSum, peer);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t) {
  return post(comm, message, nullptr, data, count, type, ncclSum, peer);
}
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) {
  return post(comm, all_reduce, send, receive, count, type, op, -1);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t) {
  return post(comm, reduce, send, receive, count, type, op, root);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return post(comm, reduce_scatter, send, receive, receive_count, type, op, -1);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
  return post(comm, all_gather, send, receive, send_count, type, ncclSum, -1);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  return post(comm, broadcast, send, receive, count, type, ncclSum, root);
}

}  // extern "C"
