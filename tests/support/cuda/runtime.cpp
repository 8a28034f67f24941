// The functions of the CUDA runtime that Kokkos, Halogen and tests call, and three of the driver.
//
// A call that has to wait runs what is pending; others only add to their stream. What a function refuses, and CUDA's
// own would too, has CUDA's error; what is not written here does not link.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "memory.hpp"
#include "module.hpp"
#include "registration.hpp"
#include "streams.hpp"

namespace emulated {
namespace {

std::recursive_mutex all_calls;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t said(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

using Guard = std::lock_guard<std::recursive_mutex>;

Stream& stream_of(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy ? *default_stream() : *reinterpret_cast<Stream*>(stream);
}
Event& event_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

u64 address_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }

/// Whether a range of a copy or a set is allocated; a finding if it is not.
bool check_range(const char* what, const void* pointer, std::size_t bytes) {
  const u64 address = address_of(pointer);
  if (!Memory::holds(address) || bytes == 0) return true;
  const Allocation* one = memory().find(address);
  if (one != nullptr && !one->freed && address + bytes <= one->address + one->bytes) return true;
  finding(std::string(what) + " of " + std::to_string(bytes) +
          " bytes goes beyond an allocation: " + memory().describe(address));
  return false;
}

bool on_device(const void* pointer) { return address_of(pointer) >> space_shift == space_device; }

/// Whether the direction is what the pointers say.
bool fits(cudaMemcpyKind kind, const void* to, const void* from) {
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  // memory that both reach may be called either
  return (Memory::holds(address_of(to)) ? !on_device(to) || to_device : !to_device) &&
         (Memory::holds(address_of(from)) ? !on_device(from) || from_device : !from_device);
}

void copy_now(void* to, const void* from, std::size_t bytes) {
  if (!check_range("a copy to memory", to, bytes) || !check_range("a copy from memory", from, bytes)) return;
  std::memmove(memory().data(address_of(to)), memory().data(address_of(from)), bytes);
  if (!on_device(to)) return;
  if (on_device(from))  // what nobody wrote stays so
    std::memmove(memory().shadow(address_of(to)), memory().shadow(address_of(from)), bytes);
  else
    memory().mark_written(address_of(to), bytes);
}

/// Waits for what a stream has been given.
cudaError_t synchronise(Stream& stream) {
  if (stream.capture) return said(cudaErrorStreamCaptureUnsupported);
  if (&stream == default_stream()) {
    Event mark;
    record(mark, stream);
    run_until(mark.last);
  } else {
    run_until(stream.last);
  }
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Stream& stream, bool waits) {
  if (!fits(kind, to, from)) return said(cudaErrorInvalidValue);
  const bool pageable_from = !Memory::holds(address_of(from)), pageable_to = !Memory::holds(address_of(to));
  if (pageable_from) {  // read when the function returns
    std::vector<char> kept(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    enqueue(stream, [to, kept = std::move(kept)] { copy_now(to, kept.data(), kept.size()); });
  } else {
    enqueue(stream, [to, from, bytes] { copy_now(to, from, bytes); });
  }
  return waits || pageable_to ? synchronise(stream) : cudaSuccess;
}

void set_now(void* to, int value, std::size_t bytes) {
  if (!check_range("a set", to, bytes)) return;
  std::memset(memory().data(address_of(to)), value, bytes);
  memory().mark_written(address_of(to), bytes);
}

cudaError_t launch(Kernel* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream) {
  if (kernel == nullptr) return said(cudaErrorInvalidDeviceFunction);
  Launch made;
  made.function = kernel->function;
  made.grid = {grid.x, grid.y, grid.z}, made.block = {block.x, block.y, block.z};
  made.dynamic_shared = static_cast<u32>(shared);
  const int most = made.function->max_threads != 0 ? made.function->max_threads : 1024;
  if (made.grid.size() == 0 || made.block.size() == 0 || made.block.size() > static_cast<u64>(most) || grid.y > 65535 ||
      grid.z > 65535 || made.function->module->shared_bytes + shared > static_cast<u64>(kernel->shared_limit))
    return said(cudaErrorInvalidConfiguration);
  made.parameters.resize(made.function->parameter_bytes);
  std::size_t number = 0;
  for (const auto& one : made.function->parameters)
    std::memcpy(made.parameters.data() + one.place, arguments[number++], one.bytes);
  enqueue(stream_of(stream), [made = std::move(made)] { run(made); });
  return cudaSuccess;
}

/// A thread that runs what is pending, late: a process that waits for others elsewhere must not keep them waiting.
void goes_on_by_itself() {
  static const bool begun = [] {
    std::thread([] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        const Guard guard(all_calls);
        run_some();
      }
    }).detach();
    return true;
  }();
  static_cast<void>(begun);
}

const char* visible() {
  const char* const devices = std::getenv("CUDA_VISIBLE_DEVICES");
  return devices == nullptr ? "0" : devices;
}

cudaError_t allocate(void** pointer, Space space, std::size_t bytes, const char* label) {
  if (default_stream()->capture) return said(cudaErrorStreamCaptureUnsupported);
  if (bytes > Memory::region_bytes / 8) return said(cudaErrorMemoryAllocation);
  *pointer = reinterpret_cast<void*>(memory().allocate(space, bytes, label));
  return cudaSuccess;
}
cudaError_t release(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  run_all();
  return memory().free(address_of(pointer)) ? cudaSuccess : said(cudaErrorInvalidValue);
}

}  // namespace
}  // namespace emulated

using namespace emulated;

extern "C" {

// -- devices and errors
// ------------------------------------------------------------------------------------------------
cudaError_t cudaGetDeviceCount(int* count) {
  *count = *visible() == '\0' ? 0 : 1;
  return *count == 0 ? said(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : said(cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device != 0) return said(cudaErrorInvalidDevice);
  std::memset(static_cast<void*>(p), 0, sizeof *p);
  std::strcpy(p->name, "emulated GPU");
  p->totalGlobalMem = std::size_t{8} << 30;
  p->sharedMemPerBlock = 48 * 1024, p->sharedMemPerBlockOptin = 227 * 1024, p->sharedMemPerMultiprocessor = 228 * 1024;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32, p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048,
  p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536, p->major = 9, p->minor = 0;
  p->multiProcessorCount = 2, p->l2CacheSize = 50 << 20;
  p->concurrentKernels = 1, p->unifiedAddressing = 1, p->canMapHostMemory = 1, p->managedMemory = 1;
  p->concurrentManagedAccess = 1, p->asyncEngineCount = 1, p->streamPrioritiesSupported = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Guard guard(all_calls);
  run_all();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  const auto error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "an error of the emulated GPU";
  }
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit) { return *value = 0, cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }

// -- memory
// ------------------------------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  const Guard guard(all_calls);
  return allocate(pointer, space_device, bytes, "device memory");
}
cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  const Guard guard(all_calls);
  return allocate(pointer, space_pinned, bytes, "managed memory");
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  const Guard guard(all_calls);
  return allocate(pointer, space_pinned, bytes, "pinned memory");
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }
cudaError_t cudaFree(void* pointer) {
  const Guard guard(all_calls);
  return release(pointer);
}
cudaError_t cudaFreeHost(void* pointer) {
  const Guard guard(all_calls);
  return release(pointer);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Guard guard(all_calls);
  return copy(to, from, bytes, kind, stream_of(stream), false);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Guard guard(all_calls);
  return copy(to, from, bytes, kind, *default_stream(), true);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Guard guard(all_calls);
  enqueue(stream_of(stream), [=] { set_now(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  const Guard guard(all_calls);
  const u64 address = variable_of(symbol);
  if (address == 0) return said(cudaErrorInvalidSymbol);
  return copy(reinterpret_cast<void*>(address + offset), from, bytes, kind, stream_of(stream), false);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  const Guard guard(all_calls);
  const auto status = cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
  return status == cudaSuccess ? synchronise(*default_stream()) : status;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Guard guard(all_calls);
  const u64 address = address_of(pointer);
  const Allocation* const one = Memory::holds(address) ? memory().find(address) : nullptr;
  const bool known = one != nullptr && !one->freed && address < one->address + one->bytes;
  *attributes = {};
  attributes->type = !known                           ? cudaMemoryTypeUnregistered
                     : on_device(pointer)             ? cudaMemoryTypeDevice
                     : one->label == "managed memory" ? cudaMemoryTypeManaged
                                                      : cudaMemoryTypeHost;
  attributes->device = known ? 0 : -2;
  attributes->devicePointer = known ? const_cast<void*>(pointer) : nullptr;
  attributes->hostPointer = on_device(pointer) ? nullptr : const_cast<void*>(pointer);
  return cudaSuccess;
}

// -- kernels
// -----------------------------------------------------------------------------------------------------------
cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* function) {
  const Guard guard(all_calls);
  // the program calls this before its fat binaries are read: the address itself serves
  *handle = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  const Guard guard(all_calls);
  return launch(kernel_of(function), grid, block, arguments, shared, stream);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(handle), grid, block, arguments, shared, stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const Guard guard(all_calls);
  const Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return said(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->sharedSizeBytes = kernel->function->module->shared_bytes;
  attributes->maxThreadsPerBlock = kernel->function->max_threads != 0 ? kernel->function->max_threads : 1024;
  attributes->numRegs = 64, attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = kernel->shared_limit - static_cast<int>(attributes->sharedSizeBytes);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const Guard guard(all_calls);
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return said(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value > 227 * 1024) return said(cudaErrorInvalidValue);
    kernel->shared_limit = std::max(48 * 1024, value + static_cast<int>(kernel->function->module->shared_bytes));
  }
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, std::size_t,
                                                                   unsigned) {
  *blocks = 2048 / std::max(threads, 64);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

// -- streams and events
// ------------------------------------------------------------------------------------------------
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Guard guard(all_calls);
  *stream = reinterpret_cast<cudaStream_t>(make_stream((flags & cudaStreamNonBlocking) == 0));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard(all_calls);
  destroy(&stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard(all_calls);
  return synchronise(stream_of(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Guard guard(all_calls);
  run_some();
  return is_done(stream_of(stream).last) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Guard guard(all_calls);
  wait(stream_of(stream), event_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard(all_calls);
  record(event_of(event), stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard(all_calls);
  if (event_of(event).capture && !event_of(event).capture->ended) return said(cudaErrorStreamCaptureUnsupported);
  if (is_done(event_of(event).last)) return cudaSuccess;
  run_some();  // whoever asks again and again gets on
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(all_calls);
  run_until(event_of(event).last);
  return cudaSuccess;
}

// -- graphs
// ------------------------------------------------------------------------------------------------------------
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Guard guard(all_calls);
  return begin_capture(stream_of(stream)) ? cudaSuccess : said(cudaErrorIllegalState);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Guard guard(all_calls);
  auto made = end_capture(stream_of(stream));
  *graph = reinterpret_cast<cudaGraph_t>(made.release());
  return *graph != nullptr ? cudaSuccess : said(cudaErrorIllegalState);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Guard guard(all_calls);
  *status = stream_of(stream).capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
  std::swap(*mode, now);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const Guard guard(all_calls);
  emulated::launch(*reinterpret_cast<Graph*>(graph), stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const Guard guard(all_calls);
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

// -- for the stand-in for NCCL
// -------------------------------------------------------------------------------------------
/// Work of the host that has its place in a stream.
void cuda_standin_in_stream(void* stream, void (*work)(void*), void* argument) {
  const Guard guard(all_calls);
  goes_on_by_itself();
  enqueue(stream_of(static_cast<cudaStream_t>(stream)), [=] { work(argument); });
}
char* cuda_standin_bytes(const void* address, std::size_t size, bool written) {
  if (!check_range("an operation of NCCL", address, size)) unknown("an operation of NCCL");
  if (!Memory::holds(address_of(address))) {
    finding("an operation of NCCL was given memory of the host");
    return static_cast<char*>(const_cast<void*>(address));
  }
  if (written) memory().mark_written(address_of(address), size);
  return memory().data(address_of(address));
}

// -- of the driver, for Kokkos
// -----------------------------------------------------------------------------------------
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuStreamGetCtx(void*, void** context) {
  static char one;
  return *context = &one, 0;
}
}
