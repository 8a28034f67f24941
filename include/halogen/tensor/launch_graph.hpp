// Launches recorded once and started again as one.
#pragma once

#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

#ifdef KOKKOS_ENABLE_CUDA

/// What a function launches on an execution space, as a CUDA graph. The function must neither allocate nor wait; what
/// it launches finds its memory where it was when recorded. Throws Error, naming the call that CUDA refused.
class LaunchGraph {
 public:
  static constexpr bool records = std::is_same_v<execution_space, Kokkos::Cuda>;

  LaunchGraph() = default;
  LaunchGraph(LaunchGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  LaunchGraph& operator=(LaunchGraph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~LaunchGraph() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

  /// Calls f, whose launches are recorded and not run.
  template <class F>
  void record(const execution_space& space, F f) {
    cudaStream_t const stream = space.cuda_stream();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t recorded = nullptr;
    try {
      f();
    } catch (...) {  // the stream must leave its capture, or nothing runs on it again
      cudaStreamEndCapture(stream, &recorded);
      if (recorded != nullptr) cudaGraphDestroy(recorded);
      throw;
    }
    check(cudaStreamEndCapture(stream, &recorded), "cudaStreamEndCapture");
    LaunchGraph made;
    const cudaError_t status = cudaGraphInstantiate(&made.graph_, recorded, 0);
    cudaGraphDestroy(recorded);
    check(status, "cudaGraphInstantiate");
    *this = std::move(made);
  }

  /// Starts all that was recorded, ordered on `space`.
  void launch(const execution_space& space) const {
    check(cudaGraphLaunch(graph_, space.cuda_stream()), "cudaGraphLaunch");
  }

 private:
  static void check(cudaError_t status, const char* call) {
    if (status != cudaSuccess)
      throw Error(std::string("a step could not be captured into a CUDA graph: ") + call + " says '" +
                  cudaGetErrorString(status) + "': call step() of the trainer instead");
  }

  cudaGraphExec_t graph_ = nullptr;
};

#else

/// The host's launches are not recorded: each runs when it is called.
class LaunchGraph {
 public:
  static constexpr bool records = false;
};

#endif

}  // namespace halogen
