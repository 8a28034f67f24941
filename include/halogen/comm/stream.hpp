// The stream that kernels and stream-ordered transports share; on the host, where a launch ends before it returns,
// nothing.
#pragma once

#include <Kokkos_Macros.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"

#ifdef KOKKOS_ENABLE_CUDA
#include <cuda_runtime.h>

#include <Kokkos_Core.hpp>
#endif

namespace halogen::detail {

#ifdef KOKKOS_ENABLE_CUDA

inline constexpr bool has_stream = true;

inline void check_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess)
    throw Error(std::string(call) + ": CUDA fails by error " + std::to_string(code) + " (" + cudaGetErrorString(code) +
                ")");
}

/// The default execution space's, on which all launches of the library are.
inline cudaStream_t stream() { return Kokkos::DefaultExecutionSpace().cuda_stream(); }

/// One beside it, for messages that no kernel carries. Left to the end of the process.
inline cudaStream_t side_stream() {
  static const cudaStream_t made = [] {
    cudaStream_t one = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return one;
  }();
  return made;
}

/// Whether a kernel's memory; pinned and plain host memory is not. There is none before Kokkos has chosen a device, and
/// asking then would open another one.
inline bool is_device_memory(const void* data) {
  if (!Kokkos::is_initialized()) return false;
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

/// A copy in stream order, between memory of any kind; pageable host memory makes the host wait.
inline void copy_in_order(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
}

inline void wait_for_stream() { check_cuda(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

/// Whether launches are being recorded into a graph instead of running.
inline bool is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

inline bool stream_ended() { return !Kokkos::is_initialized() || Kokkos::is_finalized(); }

/// The same text for processes that use one device: its UUID.
inline std::string device_identity() {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, Kokkos::device_id()), "cudaGetDeviceProperties");
  std::string text = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[static_cast<unsigned char>(byte) >> 4];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

/// For a thread that only asks for marks: while the main thread records a graph, CUDA forbids others even that, unless
/// they say so.
inline void prepare_watching_thread() {
  check_cuda(cudaSetDevice(Kokkos::device_id()), "cudaSetDevice");
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
}

/// A place in a stream; recorded again it moves. passed() may be asked by any thread.
class StreamMark {
 public:
  StreamMark() = default;
  StreamMark(StreamMark&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  StreamMark& operator=(StreamMark&& other) noexcept;
  ~StreamMark() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  void record(cudaStream_t where = stream());
  /// What is queued on `later` from now on waits until this place is passed.
  void hold(cudaStream_t later) const { check_cuda(cudaStreamWaitEvent(later, event_, 0), "cudaStreamWaitEvent"); }
  bool passed() const;

 private:
  cudaEvent_t event_ = nullptr;
};

#if HALOGEN_BODIES
HALOGEN_INLINE StreamMark& StreamMark::operator=(StreamMark&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

HALOGEN_INLINE void StreamMark::record(cudaStream_t where) {
  if (event_ == nullptr)
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check_cuda(cudaEventRecord(event_, where), "cudaEventRecord");
}

HALOGEN_INLINE bool StreamMark::passed() const {
  if (event_ == nullptr) return true;
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  check_cuda(code, "cudaEventQuery");
  return true;
}
#endif

#else

inline constexpr bool has_stream = false;

inline void* stream() { return nullptr; }
inline void* side_stream() {
  static char beside;
  return &beside;
}
/// How much was queued there, and how much of it is done. Variables, so that a test can have a side stream that lags.
inline std::uint64_t (*side_stream_queued)() = [] { return std::uint64_t{0}; };
inline std::uint64_t (*side_stream_done)() = [] { return std::uint64_t{0}; };

/// On the host all memory is a kernel's; a variable, so that a test can tell some of it apart.
inline bool (*is_device_memory)(const void*) = [](const void*) { return true; };

inline void copy_in_order(void* to, const void* from, std::size_t bytes) { std::memmove(to, from, bytes); }
inline void wait_for_stream() {}
/// A variable, so that a test can play a recording.
inline bool (*is_capturing)() = [] { return false; };
inline bool stream_ended() { return false; }
/// A variable, so that a test can let ranks share one.
inline std::string (*device_identity)() = [] { return std::string(); };
inline void prepare_watching_thread() {}

/// How often a mark is asked before it says that it is passed. A variable, so that a test can let the stream lag.
inline int polls_of_a_mark = 0;

class StreamMark {
 public:
  StreamMark() = default;
  StreamMark(StreamMark&& other) noexcept : left_(other.left_.exchange(0)), place_(other.place_.exchange(0)) {}
  StreamMark& operator=(StreamMark&& other) noexcept {
    left_ = other.left_.exchange(0);
    place_ = other.place_.exchange(0);
    return *this;
  }
  void record(void* where = stream()) {
    place_ = where == stream() ? 0 : side_stream_queued();
    left_ = polls_of_a_mark;
  }
  bool passed() const { return side_stream_done() >= place_ && (left_ <= 0 || --left_ < 0); }
  void hold(void*) const {
    while (side_stream_done() < place_) std::this_thread::yield();
  }

 private:
  mutable std::atomic<int> left_ = 0;
  std::atomic<std::uint64_t> place_ = 0;  // in the side stream
};

#endif

}  // namespace halogen::detail
