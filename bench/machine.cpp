// What this machine can do at this number of threads: fused multiply-adds in registers, and copying between huge pages.
//
//   OMP_NUM_THREADS=2 bench_machine        {"threads": 2, "fma_gflops": ..., "copy_gbs": ...}; a copy counts both ways
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;
#ifdef __AVX512F__
constexpr int width = 16;
#else
constexpr int width = 8;
#endif
typedef float Vector __attribute__((vector_size(width * sizeof(float))));
constexpr int chains = 12;  // enough to hide the latency, few enough to stay in registers

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// GFLOP/s of all threads together.
double multiply_adds(long repeats) {
  float sink = 0;
  const auto begin = Clock::now();
#pragma omp parallel reduction(+ : sink)
  {
    Vector sums[chains], a = {}, b = {};
    a += 0.999f, b += 1e-3f;
    __asm__ volatile("" : "+x"(a), "+x"(b));
    for (int c = 0; c < chains; ++c) sums[c] = b * static_cast<float>(c);
    for (long i = 0; i < repeats; ++i) {
#pragma GCC unroll 12
      for (int c = 0; c < chains; ++c) sums[c] = sums[c] * a + b;
    }
    for (int c = 0; c < chains; ++c) sink += sums[c][0];
  }
  const double seconds = seconds_since(begin);
  if (sink == 0) std::puts("");
  return 2.0 * width * chains * static_cast<double>(repeats) * omp_get_max_threads() / seconds / 1e9;
}

char* huge_pages(std::size_t bytes) {
  void* memory = std::aligned_alloc(std::size_t{1} << 21, bytes);
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  return static_cast<char*>(memory);
}

/// GB/s read plus GB/s written.
double copy(std::size_t bytes, char* from, char* to) {
  const auto begin = Clock::now();
#pragma omp parallel
  {
    const std::size_t piece = bytes / static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t first = piece * static_cast<std::size_t>(omp_get_thread_num());
    std::memcpy(to + first, from + first, piece);
  }
  return 2.0 * static_cast<double>(bytes) / seconds_since(begin) / 1e9;
}

}  // namespace

int main() {
  double flops = 0, bandwidth = 0;
  constexpr std::size_t bytes = std::size_t{1} << 28;
  char *from = huge_pages(bytes), *to = huge_pages(bytes);
  for (int i = 0; i < 7; ++i) {  // the best of them: what the machine can do when left alone
    flops = std::max(flops, multiply_adds(5000000));
    bandwidth = std::max(bandwidth, copy(bytes, from, to));
  }
  std::printf("{\"threads\": %d, \"fma_gflops\": %.1f, \"copy_gbs\": %.1f}\n", omp_get_max_threads(), flops, bandwidth);
  std::free(from);
  std::free(to);
}
