// What this device can do: fused multiply-adds in registers, and copying its own memory. bench_machine of a CUDA build;
// the peak of tensor cores is what PyTorch's matrix product reaches (bench/peers/matmul_torch.py).
//
//   bench_machine        {"threads": 1, "fma_gflops": ..., "copy_gbs": ...}; a copy, by a kernel or by the runtime, the
//                        faster, counts both ways
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <halogen/comm/environment.hpp>
#include <halogen/tensor/space.hpp>

namespace {

using halogen::index_t;
using Clock = std::chrono::steady_clock;
using Values = Kokkos::View<float*, halogen::memory_space>;
constexpr int chains = 16, repeats = 4096;

struct MultiplyAdds {
  float *values, factor;
  KOKKOS_FUNCTION void operator()(const index_t i) const {
    float sums[chains];
    for (int c = 0; c < chains; ++c) sums[c] = values[i] + static_cast<float>(c);
    for (int r = 0; r < repeats; ++r)
      for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + factor;
    for (int c = 0; c < chains; ++c) values[i] += sums[c];
  }
};

struct Copy {
  const float* from;
  float* to;
  KOKKOS_FUNCTION void operator()(const index_t i) const { to[i] = from[i]; }
};

/// The best of some times of run(space): what the device can do when left alone.
template <class Run>
double seconds(Run run) {
  const halogen::execution_space space;
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    space.fence("bench::machine");
    const auto begin = Clock::now();
    run(space);
    space.fence("bench::machine");
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const halogen::Environment env(argc, argv);
  const index_t threads = halogen::runs_on_host ? 1 << 10 : 1 << 20, values = halogen::runs_on_host ? 1 << 24 : 1 << 28;
  const Values from("bench::from", static_cast<std::size_t>(values)), to("bench::to", static_cast<std::size_t>(values));
  const double flops = 2.0 * chains * repeats * static_cast<double>(threads);
  const double bytes = 2.0 * sizeof(float) * static_cast<double>(values);
  const auto launched = [](index_t count, const auto& functor) {
    return seconds([&](const auto& space) { halogen::launch_range(space, "bench::machine", count, functor); });
  };
  const double by_runtime = seconds([&](const auto& space) { Kokkos::deep_copy(space, to, from); });
  std::printf("{\"threads\": %d, \"fma_gflops\": %.1f, \"copy_gbs\": %.1f}\n", Kokkos::num_threads(),
              flops / launched(threads, MultiplyAdds{to.data(), 0.999f}) / 1e9,
              bytes / std::min(by_runtime, launched(values, Copy{from.data(), to.data()})) / 1e9);
}
