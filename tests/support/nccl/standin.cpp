// NCCL for tests on the host: a call is its place in the stream, so it returns when it has been carried out; one on the
// side stream is carried out by a thread, where somebody asks how far that is (nccl_standin_queued). Stricter
// than NCCL: what is posted in another order or with another length than at the peer is an error, what nobody answers
// ends after NCCL_STANDIN_TIMEOUT seconds, sends wait for their receives, and all memory must be device memory in the
// eyes of the test (nccl_standin_check_memory). Beside the stand-in for CUDA (tests/support/cuda) a call takes its place in
// that one's stream.
// NCCL_STANDIN_FAULT=KIND:RANK makes the groups of one rank, from when it is set: stall; error, stall with an
// asynchronous error; late, end well but for an asynchronous error; refuse. NCCL_STANDIN_VERSION is the version that it
// claims to be; NCCL_STANDIN_NO_WINDOWS=1 makes it one whose GPUs do not reach each other's memory,
// NCCL_STANDIN_NO_SIGNALS=1 one that can register windows but do nothing with them, NCCL_STANDIN_NO_MEMORY=1 one
// without device memory left.
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "windows.hpp"
#include "wires.hpp"

using namespace standin;

struct ncclComm {
  std::string name;
  std::unique_ptr<Wires> wires;
  int splits = 0;
  bool has_signalled = false;
  std::atomic<int> beside = 0;         // operations on the side stream
  std::unique_ptr<Signals> signals{};  // from the first window on
  std::vector<std::unique_ptr<Window>> windows{};
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> error = ncclSuccess;
};

namespace {

enum Operation : std::int64_t {
  message,
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  split_ranks,
  register_window,
  meeting,
  put,
  signal_peer,
  await
};

struct Call {
  ncclComm_t comm;
  Operation operation;
  const char* send;
  char* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int root;  // or peer
  const Window* window = nullptr;
  std::size_t offset = 0;
  std::vector<ncclWaitSignalDesc_t> awaited{};
  cudaStream_t stream = nullptr;
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
  if (type == ncclUint64) return add<std::uint64_t>(sum, value, count, op);
  if (type == ncclFloat32) return add<float>(sum, value, count, op);
  if (type == ncclFloat64) return add<double>(sum, value, count, op);
  std::abort();
}

/// Calls of this process on the way, what on a device are its kernels.
std::atomic<int> calls_under_way = 0;
struct UnderWay {
  UnderWay() { ++calls_under_way; }
  ~UnderWay() { --calls_under_way; }
};

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
  const bool gathers =
      call.operation == all_gather || call.operation == split_ranks || call.operation == register_window;
  const auto gives = [&](int r) {
    return call.operation == broadcast && r != call.root ? 0 : call.operation == reduce_scatter ? bytes * size : bytes;
  };
  const auto takes = [&](int r) {
    return call.operation == reduce && r != call.root ? 0 : gathers ? bytes * size : bytes;
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

ncclResult_t refuse(const std::string& why) {
  std::fprintf(stderr, "nccl stand-in: %s\n", why.c_str());
  return ncclInvalidArgument;
}

std::atomic<int> messages_put = 0;

/// Returns when all ranks have come.
ncclResult_t meet(ncclComm& comm) {
  std::int32_t here = 0;
  return collective({&comm, meeting, reinterpret_cast<const char*>(&here), reinterpret_cast<char*>(&here), 1, ncclInt32,
                     ncclSum, -1});
}

/// Carries out a put, a signal or a wait. The first of a communicator waits for all its ranks, as NCCL's does.
ncclResult_t one_sided(const Call& call) {
  ncclComm& comm = *call.comm;
  if (!comm.signals) return refuse("signals before the first window"), ncclInvalidUsage;
  if (std::getenv("NCCL_STANDIN_NO_SIGNALS")) return ncclInvalidArgument;
  if (!std::exchange(comm.has_signalled, true))
    if (const ncclResult_t code = meet(comm); code != ncclSuccess || comm.aborted) return code;
  if (call.operation == put) {
    const auto bytes = static_cast<std::int64_t>(call.count) * width(call.type);
    const auto peer = static_cast<std::size_t>(call.root);
    std::memcpy(call.window->memory[peer]->data() + call.window->offsets[peer] + call.offset, call.send,
                static_cast<std::size_t>(bytes));
    ++messages_put;
  }
  if (call.operation != await) return comm.signals->give(call.root, comm.wires->rank()), ncclSuccess;
  for (const ncclWaitSignalDesc_t& one : call.awaited) comm.signals->expect(one.peer, one.opCnt);
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_seconds());
  for (const ncclWaitSignalDesc_t& one : call.awaited)
    while (!comm.signals->arrived(one.peer) && !comm.aborted) {
      if (Clock::now() > end)
        return refuse("rank " + std::to_string(comm.wires->rank()) + " waits for " + std::to_string(one.opCnt) +
                      " signals of " + std::to_string(one.peer) + ", and nobody answers"),
               ncclSystemError;
      usleep(50);
    }
  return ncclSuccess;
}

/// The side stream: what is queued there is carried out by a thread of its own, in order and late.
class SideStream {
 public:
  static inline std::atomic<std::uint64_t> queued = 0, done = 0;

  static SideStream& get() {
    static SideStream& one = *new SideStream;  // its thread ends with the process
    return one;
  }
  void queue(const std::vector<Call>& calls) {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), calls.begin(), calls.end());
    queued += calls.size();
    for (const Call& call : calls) ++call.comm->beside;
    has_come_.notify_one();
  }

 private:
  SideStream() {
    std::thread([this] { run(); }).detach();
  }
  void run() {
    for (std::minstd_rand random(getpid());;) {
      Call next{};
      {
        std::unique_lock lock(mutex_);
        has_come_.wait(lock, [this] { return !waiting_.empty(); });
        next = waiting_.front();
        waiting_.pop_front();
      }
      if (random() % 16 == 0) usleep(300);
      if (const ncclResult_t code = one_sided(next); code != ncclSuccess) next.comm->error = code;
      --next.comm->beside;
      ++done;
    }
  }

  std::mutex mutex_;
  std::condition_variable has_come_;
  std::deque<Call> waiting_;
};
bool has_side_stream = false;  // from when somebody asks for it, and waits

/// The fault that a group of this process shall have.
std::string fault() {
  const char* text = std::getenv("NCCL_STANDIN_FAULT");
  if (text == nullptr) return {};
  const std::string words = text, here = ":" + std::to_string(process_rank);
  return words.ends_with(here) ? words.substr(0, words.size() - here.size()) : "";
}

/// What tests/support/cuda offers where it stands for CUDA: calls take their place in its streams, and reach its
/// memory.
struct EmulatedDevice {
  void (*in_stream)(void* stream, void (*work)(void*), void* argument) = nullptr;
  char* (*bytes)(const void* address, std::size_t size, bool written) = nullptr;

  static const EmulatedDevice& get() {
    static const EmulatedDevice one{
        reinterpret_cast<decltype(in_stream)>(dlsym(RTLD_DEFAULT, "cuda_standin_in_stream")),
        reinterpret_cast<decltype(bytes)>(dlsym(RTLD_DEFAULT, "cuda_standin_bytes"))};
    return one;
  }
  /// The call with pointers that the host may use.
  Call reached(Call call) const {
    const auto size = static_cast<std::size_t>(call.count) * static_cast<std::size_t>(width(call.type));
    const auto ranks = static_cast<std::size_t>(call.comm->wires->size());
    if (call.send) call.send = bytes(call.send, call.operation == reduce_scatter ? size * ranks : size, false);
    if (call.receive) call.receive = bytes(call.receive, call.operation == all_gather ? size * ranks : size, true);
    return call;
  }
};

ncclResult_t run_calls(const std::vector<Call>& calls);

ncclResult_t run_group() {
  const std::vector<Call> calls = std::exchange(queue, {});
  const auto& device = EmulatedDevice::get();
  if (calls.empty() || device.in_stream == nullptr) return run_calls(calls);
  const auto work = [](void* argument) {  // again and again if a graph holds it
    std::vector<Call> reached;
    for (const Call& call : *static_cast<const std::vector<Call>*>(argument))
      reached.push_back(EmulatedDevice::get().reached(call));
    if (const ncclResult_t code = run_calls(reached); code != ncclSuccess) reached.front().comm->error = code;
  };
  device.in_stream(calls.front().stream, work, new std::vector<Call>(calls));
  return ncclSuccess;
}

ncclResult_t run_calls(const std::vector<Call>& calls) {
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
  if (has_side_stream && calls.front().stream != nullptr) return SideStream::get().queue(calls), ncclSuccess;
  const UnderWay here;
  ncclResult_t code = carry(comm, messages);
  for (const Call& call : calls)
    if (call.operation != message && code == ncclSuccess && !comm.aborted)
      code = call.operation >= put ? one_sided(call) : collective(call);
  return code;
}

bool is_a_peer(ncclComm_t comm, int rank) {
  return rank != comm->wires->rank() && rank >= 0 && rank < comm->wires->size();
}

ncclResult_t post(const Call& call) {
  if ((call.operation == message || call.operation == put || call.operation == signal_peer) &&
      !is_a_peer(call.comm, call.root))
    return ncclInvalidArgument;
  queue.push_back(call);
  return depth > 0 ? ncclSuccess : run_group();
}
ncclResult_t post(ncclComm_t comm, Operation operation, const void* send, void* receive, std::size_t count,
                  ncclDataType_t type, ncclRedOp_t reduction, int root, cudaStream_t stream) {
  // only puts may be late here
  const cudaStream_t kept = EmulatedDevice::get().in_stream != nullptr ? stream : nullptr;
  return post({comm,
               operation,
               static_cast<const char*>(send),
               static_cast<char*>(receive),
               count,
               type,
               reduction,
               root,
               nullptr,
               0,
               {},
               kept});
}

}  // namespace

extern "C" {

void nccl_standin_check_memory(bool (*is_device)(const void*)) { is_device_memory = is_device; }
bool nccl_standin_has_allocated(const void* data) { return allocated_around(data) != nullptr; }
std::uint64_t nccl_standin_queued() { return has_side_stream = true, SideStream::queued.load(); }
std::uint64_t nccl_standin_done() { return SideStream::done; }
/// How many messages this process has put.
int nccl_standin_puts() { return messages_put; }

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
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->beside != 0) refuse("a communicator ends before its stream"), std::abort();
  if (!comm->windows.empty()) refuse("a communicator ends before its windows"), std::abort();
  if (comm->signals && !comm->signals->all_were_awaited()) refuse("nobody waited for a signal"), std::abort();
  return delete comm, ncclSuccess;
}
/// Waits for the device, as NCCL does: for calls on other communicators too, which must be aborted meanwhile.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;  // its caller may be in it: kept
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (calls_under_way > 0 && Clock::now() < end) usleep(1000);
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) { return *error = comm->error, ncclSuccess; }
ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --depth == 0 ? run_group() : ncclSuccess; }

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post(comm, message, data, nullptr, count, type, ncclSum, peer, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post(comm, message, nullptr, data, count, type, ncclSum, peer, stream);
}
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return post(comm, all_reduce, send, receive, count, type, op, -1, stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return post(comm, reduce, send, receive, count, type, op, root, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return post(comm, reduce_scatter, send, receive, receive_count, type, op, -1, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return post(comm, all_gather, send, receive, send_count, type, ncclSum, -1, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return post(comm, broadcast, send, receive, count, type, ncclSum, root, stream);
}

ncclResult_t ncclMemAlloc(void** data, std::size_t bytes) {
  if (std::getenv("NCCL_STANDIN_NO_MEMORY")) return ncclUnhandledCudaError;
  auto memory = std::make_unique<SharedMemory>((bytes + 4095) / 4096 * 4096);
  *data = memory->data();
  const char* end = memory->data() + memory->bytes();
  allocated()[end] = std::move(memory);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* data) {
  SharedMemory* memory = allocated_around(data);
  if (memory == nullptr || memory->data() != data) return refuse("free of what was not allocated");
  allocated().erase(memory->data() + memory->bytes());
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, std::size_t bytes, ncclWindow_t* window, int flags) {
  *window = nullptr;
  if (std::getenv("NCCL_STANDIN_NO_WINDOWS")) return ncclSuccess;  // as NCCL says it
  const SharedMemory* memory = allocated_around(data);
  const auto size = static_cast<std::size_t>(comm->wires->size());
  if (memory == nullptr || static_cast<char*>(data) + bytes > memory->data() + memory->bytes())
    return refuse("a window of memory that ncclMemAlloc did not give");
  if (reinterpret_cast<std::uintptr_t>(data) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
    return refuse("a window that is not aligned");
  if (flags != NCCL_WIN_COLL_SYMMETRIC || depth > 0) return refuse("a window that is not symmetric, or in a group");
  const bool is_first = comm->signals == nullptr;
  if (is_first) comm->signals = std::make_unique<Signals>(comm->wires->size());
  struct Told {
    Place memory, signals;
    std::int64_t offset, bytes;
  };
  const Told own{memory->place(), comm->signals->place(), static_cast<char*>(data) - memory->data(),
                 static_cast<std::int64_t>(bytes)};
  std::vector<Told> all(size);
  const ncclResult_t code =
      collective({comm, register_window, reinterpret_cast<const char*>(&own), reinterpret_cast<char*>(all.data()),
                  sizeof own / sizeof(std::int64_t), ncclInt64, ncclSum, -1});
  if (code != ncclSuccess || comm->aborted) return code;
  auto made = std::make_unique<Window>(Window{static_cast<char*>(data), own.bytes, {}, {}});
  for (std::size_t r = 0; r < size; ++r) {
    if (all[r].bytes != own.bytes) return refuse("a window of another size than on another rank");
    const bool is_own = static_cast<int>(r) == comm->wires->rank();
    made->memory.push_back(is_own ? nullptr : std::make_unique<SharedMemory>(all[r].memory));
    made->offsets.push_back(all[r].offset);
    if (is_first && !is_own) comm->signals->find(static_cast<int>(r), all[r].signals);
  }
  const ncclResult_t met = meet(*comm);  // nobody ends before all have mapped what is theirs
  *window = reinterpret_cast<ncclWindow_t>(comm->windows.emplace_back(std::move(made)).get());
  return met;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  const auto is_it = [&](const auto& one) { return one.get() == reinterpret_cast<Window*>(window); };
  return std::erase_if(comm->windows, is_it) == 1 ? ncclSuccess : refuse("a window that is not there");
}

ncclResult_t ncclPutSignal(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           std::size_t offset, int index, int context, unsigned flags, ncclComm_t comm,
                           cudaStream_t stream) {
  const auto* to = reinterpret_cast<const Window*>(window);
  const auto bytes = static_cast<std::int64_t>(count) * width(type);
  const auto holds = [&](const auto& one) { return one->holds(data, bytes); };
  if (index != 0 || context != 0 || flags != 0) return refuse("a put with another signal than 0");
  if (std::ranges::none_of(comm->windows, [&](const auto& one) { return one.get() == to; }))
    return refuse("a put into a window that is not there");
  if (std::ranges::none_of(comm->windows, holds)) return refuse("a put from memory that lies in no window");
  if (offset + static_cast<std::size_t>(bytes) > static_cast<std::size_t>(to->bytes))
    return refuse("a put beyond its window");
  return post({comm, put, static_cast<const char*>(data), nullptr, count, type, ncclSum, peer, to, offset, {}, stream});
}
ncclResult_t ncclSignal(int peer, int index, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream) {
  if (index != 0 || context != 0 || flags != 0) return refuse("another signal than 0");
  return post({comm, signal_peer, nullptr, nullptr, 0, ncclUint8, ncclSum, peer, nullptr, 0, {}, stream});
}
ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm, cudaStream_t stream) {
  if (count <= 0 || signals == nullptr) return refuse("a wait for no signal");
  std::vector<ncclWaitSignalDesc_t> awaited(signals, signals + count);
  for (const ncclWaitSignalDesc_t& one : awaited)
    if (one.opCnt <= 0 || one.sigIdx != 0 || one.ctx != 0 || !is_a_peer(comm, one.peer))
      return refuse("a wait for another signal than 0");
  return post({comm, await, nullptr, nullptr, 0, ncclUint8, ncclSum, -1, nullptr, 0, std::move(awaited), stream});
}

}  // extern "C"
