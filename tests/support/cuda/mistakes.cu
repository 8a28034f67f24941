// What tests/support/cuda must compute, and the mistakes that it must find. `mistakes right` runs all kernels as they
// should be and compares with the host; `mistakes NAME` makes one mistake, which ends the program or makes a result
// wrong.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

int failures = 0;
void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong result: %s\n", what);
  ++failures;
}
void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}
#define MUST(call) must(call, #call)

template <class T>
struct Device {
  T* data = nullptr;
  std::size_t size;
  explicit Device(std::size_t n) : size(n) { MUST(cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(T))); }
  explicit Device(const std::vector<T>& from) : Device(from.size()) {
    MUST(cudaMemcpy(data, from.data(), size * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> host() const {
    std::vector<T> to(size);
    MUST(cudaMemcpy(to.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }
};

std::vector<float> numbers(std::size_t n) {
  std::vector<float> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<float>((i * 37 + 11) % 101) / 16 - 3;
  return all;
}

// -- shared memory and barriers
// ----------------------------------------------------------------------------------------
template <bool Barrier>
__global__ void reverse(float* values) {
  extern __shared__ float part[];
  const int i = threadIdx.x, n = blockDim.x;
  part[i] = values[blockIdx.x * n + i];
  if (Barrier) __syncthreads();
  values[blockIdx.x * n + i] = part[n - 1 - i];
}
/// All threads write, read their neighbours, write again: without a barrier behind the reads one overtakes another.
template <bool Barrier>
__global__ void turned(float* values) {
  extern __shared__ float part[];
  const int i = threadIdx.x, n = blockDim.x;
  part[i] = values[i];
  __syncthreads();
  const float next = part[(i + 32) % n];
  if (Barrier) __syncthreads();
  part[i] = next + 1;
  __syncthreads();
  values[i] = part[i];
}
template <bool Meet>
__global__ void neighbours(const float* from, float* to) {
  __shared__ float part[32];
  const int i = threadIdx.x;
  part[i] = from[i];
  if (Meet) __syncwarp();
  to[i] = part[(i + 1) % 32];
}
template <int Shift>
__global__ void shifted(const float* from, float* to) {
  extern __shared__ float part[];
  part[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = part[threadIdx.x + Shift];
}
template <bool InBranch>
__global__ void barrier_in_branch(int* to) {
  if (!InBranch || threadIdx.x < 7) __syncthreads();
  to[threadIdx.x] = 1;
}

// -- lanes
// -------------------------------------------------------------------------------------------------------------
template <bool InBranch>
__global__ void sum_of_lanes(const float* from, float* to) {
  float value = from[threadIdx.x];
  if (!InBranch || threadIdx.x % 32 < 20)
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
  to[threadIdx.x] = value;
}
/// Lanes that end early within a branch: the others meet behind it.
__global__ void some_end(const float* from, float* to) {
  const int lane = threadIdx.x;
  float value = from[lane];
  if (lane < 16) {
    if (lane < 8) return;
    value *= 2;
  } else if (lane % 3 == 0) {
    value += 1;
  }
  to[lane] = value + __shfl_sync(0xffffff00u, value, 8 + (lane % 24 + 5) % 24);
}
__global__ void votes(const int* from, int* to) {
  const int lane = threadIdx.x;
  const bool odd = from[lane] % 2 != 0;
  to[lane] = static_cast<int>(__ballot_sync(0xffffffffu, odd));
  to[32 + lane] = __any_sync(0xffffffffu, odd) + 2 * __all_sync(0xffffffffu, odd);
  to[64 + lane] = __shfl_down_sync(0xffffffffu, from[lane], 3) + 1000 * __shfl_up_sync(0xffffffffu, from[lane], 2, 8);
  to[96 + lane] = __syncthreads_or(from[lane] == 17) + 2 * __syncthreads_count(odd);
}

/// As lane `of` of a warp. Swapped: lanes 5 and 6 exchange what they load.
template <bool Swapped>
__device__ int place_of(int lane) {
  return !Swapped ? lane : lane == 5 ? 6 : lane == 6 ? 5 : lane;
}
// A 16 x 8, B 8 x 8, C 16 x 8, all row by row
template <bool Swapped>
__global__ void product_tf32(const float* a, const float* b, float* c) {
  const int lane = place_of<Swapped>(threadIdx.x), group = lane / 4, t = lane % 4;
  float sum[4] = {};
  const auto word = [](float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
  };
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(word(a[group * 8 + t])), "r"(word(a[(group + 8) * 8 + t])), "r"(word(a[group * 8 + t + 4])),
        "r"(word(a[(group + 8) * 8 + t + 4])), "r"(word(b[t * 8 + group])), "r"(word(b[(t + 4) * 8 + group])));
  const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
  c[row * 8 + column] = sum[0], c[row * 8 + column + 1] = sum[1];
  c[(row + 8) * 8 + column] = sum[2], c[(row + 8) * 8 + column + 1] = sum[3];
}
__global__ void product_f64(const float* a, const float* b, float* c) {
  const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
  double sum[4] = {};
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(double(a[group * 8 + t])), "d"(double(a[(group + 8) * 8 + t])), "d"(double(a[group * 8 + t + 4])),
        "d"(double(a[(group + 8) * 8 + t + 4])), "d"(double(b[t * 8 + group])), "d"(double(b[(t + 4) * 8 + group])));
  const int row = lane / 4, column = lane % 4 * 2;
  c[row * 8 + column] = float(sum[0]), c[row * 8 + column + 1] = float(sum[1]);
  c[(row + 8) * 8 + column] = float(sum[2]), c[(row + 8) * 8 + column + 1] = float(sum[3]);
}
__global__ void product_f64_small(const float* a, const float* b, float* c) {  // 8 x 4 by 4 x 8, twice
  const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
  for (int rows = 0; rows < 16; rows += 8) {
    double first = 0, second = 0;
    for (int k = 0; k < 8; k += 4)
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
          : "+d"(first), "+d"(second)
          : "d"(double(a[(rows + group) * 8 + k + t])), "d"(double(b[(k + t) * 8 + group])));
    c[(rows + group) * 8 + t * 2] = float(first), c[(rows + group) * 8 + t * 2 + 1] = float(second);
  }
}
__global__ void product_bf16(const float* a, const float* b, float* c) {  // inner dimension 16, the second half zeros
  const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
  const auto half = [](float value) { return __float_as_uint(value) >> 16; };  // numbers() are exact in 8 bits
  const auto pair = [&](float low, float high) { return half(low) | half(high) << 16; };
  const auto from_a = [&](int row, int k) { return k < 8 ? pair(a[row * 8 + k], a[row * 8 + k + 1]) : 0u; };
  const auto from_b = [&](int k) { return k < 8 ? pair(b[k * 8 + group], b[(k + 1) * 8 + group]) : 0u; };
  float sum[4] = {};
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(from_a(group, 2 * t)), "r"(from_a(group + 8, 2 * t)), "r"(from_a(group, 2 * t + 8)),
        "r"(from_a(group + 8, 2 * t + 8)), "r"(from_b(2 * t)), "r"(from_b(2 * t + 8)));
  const int row = lane / 4, column = lane % 4 * 2;
  c[row * 8 + column] = sum[0], c[row * 8 + column + 1] = sum[1];
  c[(row + 8) * 8 + column] = sum[2], c[(row + 8) * 8 + column + 1] = sum[3];
}

// -- what a thread computes alone
// --------------------------------------------------------------------------------------
/// Loops, breaks, integers of all widths.
__host__ __device__ long long walk(int seed) {
  long long sum = 0;
  for (int i = 0; i < 40; ++i) {
    if ((seed + i) % 7 == 0) continue;
    int steps = 0;
    for (int x = seed * 13 + i + 1; x != 1 && steps < 25; ++steps) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    sum += steps * (seed - 50) / (i + 1) + (static_cast<unsigned>(seed * 2654435761u) >> (i % 32)) % 1000u;
    if (sum % 11 == 5) break;
    sum ^= static_cast<long long>(static_cast<signed char>(seed * i)) << 20;
    sum = static_cast<long long>(static_cast<unsigned long long>(sum) * 6364136223846793005ull) / 3 -
          static_cast<short>(sum);
  }
  return sum;
}
__global__ void walks(long long* to) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = walk(i);
}
template <class T>
__host__ __device__ T function(int which, T x) {
  using namespace std;
  switch (which) {
    case 0:
      return exp(x);
    case 1:
      return log(fabs(x) + T(0.5));
    case 2:
      return sin(x);
    case 3:
      return cos(x * 300);
    case 4:
      return tanh(x);
    case 5:
      return sqrt(fabs(x));
    case 6:
      return T(1) / (x + T(10));
    case 7:
      return pow(fabs(x) + T(0.1), T(1.7));
    case 8:
      return floor(x * 7) + fma(x, x, x);
    default:
      return static_cast<T>(static_cast<int>(x * 100)) + fmax(x, T(0));
  }
}
template <class T>
__global__ void functions(const float* from, T* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int which = 0; which < 10; ++which) to[which * n + i] = function<T>(which, static_cast<T>(from[i]));
}
__global__ void atomics(const float* from, double* sum, int* counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(sum, double(from[i]));
  atomicMax(counts, static_cast<int>(from[i] * 16));
  atomicAdd(counts + 1, 1);
  atomicCAS(counts + 2, 0, i + 1);
}

// -- memory
// ------------------------------------------------------------------------------------------------------------
__global__ void add(float* values, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += by;
}
__global__ void misaligned(const char* from, float* to) { to[threadIdx.x] = *reinterpret_cast<const float*>(from + 2); }

struct Two {
  cudaStream_t first, second;
  cudaEvent_t event;
  Two() {
    MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
};
/// Writes on one stream, reads on another.
void two_streams(bool waits) {
  const Two two;
  Device<float> values(numbers(64)), to(std::size_t{64});
  add<<<1, 64, 0, two.first>>>(values.data, 64, 1.f);
  MUST(cudaEventRecord(two.event, two.first));
  if (waits) MUST(cudaStreamWaitEvent(two.second, two.event, 0));
  MUST(cudaMemcpyAsync(to.data, values.data, 64 * sizeof(float), cudaMemcpyDeviceToDevice, two.second));
  MUST(cudaStreamSynchronize(two.second));
  check(to.host()[3] == numbers(64)[3] + 1, "a stream reads what another wrote");
}
void graph() {
  const Two two;
  Device<float> values(numbers(64)), to(std::size_t{64});
  MUST(cudaMemset(to.data, 0, 64 * sizeof(float)));
  MUST(cudaStreamBeginCapture(two.first, cudaStreamCaptureModeThreadLocal));
  add<<<1, 64, 0, two.first>>>(values.data, 64, 1.f);
  MUST(cudaEventRecord(two.event, two.first));
  MUST(cudaStreamWaitEvent(two.second, two.event, 0));
  MUST(cudaMemcpyAsync(to.data, values.data, 64 * sizeof(float), cudaMemcpyDeviceToDevice, two.second));
  MUST(cudaEventRecord(two.event, two.second));
  MUST(cudaStreamWaitEvent(two.first, two.event, 0));
  add<<<1, 64, 0, two.first>>>(to.data, 64, 0.5f);
  cudaGraph_t graph;
  MUST(cudaStreamEndCapture(two.first, &graph));
  cudaGraphExec_t made;
  MUST(cudaGraphInstantiate(&made, graph, 0));
  check(values.host()[5] == numbers(64)[5], "what is recorded does not run");
  for (int i = 0; i < 3; ++i) MUST(cudaGraphLaunch(made, two.first));
  MUST(cudaStreamSynchronize(two.first));
  check(to.host()[5] == numbers(64)[5] + 3.5f, "a graph that was launched three times");
}

void right() {
  const auto from = numbers(128);
  Device<float> values(from), to(std::size_t{128});
  reverse<true><<<2, 64, 64 * sizeof(float)>>>(values.data);
  const auto reversed = values.host();
  for (int i = 0; i < 128; ++i) check(reversed[i] == from[i / 64 * 64 + 63 - i % 64], "reverse");
  const Device<float> again(from);
  Device<float> around(from);
  turned<true><<<1, 128, 128 * sizeof(float)>>>(around.data);
  check(around.host()[100] == from[4] + 1, "turned");
  neighbours<true><<<1, 32>>>(again.data, to.data);
  check(to.host()[31] == from[0] && to.host()[4] == from[5], "neighbours");
  barrier_in_branch<false><<<1, 48>>>(reinterpret_cast<int*>(to.data));
  sum_of_lanes<false><<<1, 64>>>(again.data, to.data);
  float sum = 0;
  for (int i = 32; i < 64; ++i) sum += from[i];
  check(to.host()[40] == sum, "sum of lanes");

  some_end<<<1, 32>>>(again.data, to.data);
  check(to.host()[9] == 2 * from[9] + from[22] && to.host()[30] == from[30] + 1 + from[19], "lanes that end early");

  std::vector<int> whole(32);
  for (int i = 0; i < 32; ++i) whole[i] = i * 5 + i / 3;
  Device<int> some(whole), votes_to(std::size_t{128});
  votes<<<1, 32>>>(some.data, votes_to.data);
  const auto said = votes_to.host();
  unsigned odd = 0;
  for (int i = 0; i < 32; ++i) odd |= static_cast<unsigned>(whole[i] % 2) << i;
  for (int i = 0; i < 32; ++i) {
    check(static_cast<unsigned>(said[i]) == odd && said[32 + i] == 1, "ballot, any, all");
    const int up = i % 8 < 2 ? i : i - 2, down = i + 3 > 31 ? i : i + 3;
    check(said[64 + i] == whole[down] + 1000 * whole[up], "shuffles down and up");
    check(said[96 + i] == 0 + 2 * __builtin_popcount(odd), "barriers that join");
  }

  const Device<float> a(numbers(128)), b(numbers(64));
  const auto product = [&](auto kernel, const char* what) {
    kernel<<<1, 32>>>(a.data, b.data, to.data);
    const auto c = to.host();
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        float wanted = 0;
        for (int k = 0; k < 8; ++k) wanted += from[row * 8 + k] * from[k * 8 + column];
        check(std::fabs(c[row * 8 + column] - wanted) < 1e-4f, what);
      }
  };
  product(product_tf32<false>, "product of tf32");
  product(product_f64, "product of f64");
  product(product_f64_small, "product of f64, m8n8k4");
  product(product_bf16, "product of bf16");

  Device<long long> walked(std::size_t{512});
  walks<<<4, 128>>>(walked.data);
  const auto walks_to = walked.host();
  for (int i = 0; i < 512; ++i) check(walks_to[i] == walk(i), "walk");
  Device<float> singles(std::size_t{1280});
  Device<double> doubles(std::size_t{1280});
  functions<float><<<3, 50>>>(again.data, singles.data, 128);
  functions<double><<<3, 50>>>(again.data, doubles.data, 128);
  const auto f = singles.host();
  const auto d = doubles.host();
  for (int i = 0; i < 1280; ++i) {
    const double wanted = function<double>(i / 128, double(from[i % 128]));
    const float wanted_float = function<float>(i / 128, from[i % 128]);
    check(std::fabs(d[i] - wanted) <= 4e-15 * (1 + std::fabs(wanted)), "functions of double");
    check(std::fabs(f[i] - wanted_float) <= 4e-6f * (1 + std::fabs(wanted_float)), "functions of float");
  }
  Device<double> total(std::vector<double>{0});
  Device<int> counts(std::vector<int>{-1000, 0, 0});
  atomics<<<2, 64>>>(again.data, total.data, counts.data, 128);
  double all = 0;
  int most = -1000;
  for (const float one : from) all += one, most = std::max(most, static_cast<int>(one * 16));
  check(total.host()[0] == all && counts.host()[0] == most && counts.host()[1] == 128 && counts.host()[2] != 0,
        "atomics");
  two_streams(true);
  graph();
}

void mistake(const std::string& name) {
  Device<float> values(numbers(64)), to(std::size_t{64});
  if (name == "dropped_barrier") reverse<false><<<1, 64, 64 * sizeof(float)>>>(values.data);
  if (name == "overtaken") turned<false><<<1, 64, 64 * sizeof(float)>>>(values.data);
  if (name == "dropped_syncwarp") neighbours<false><<<1, 32>>>(values.data, to.data);
  if (name == "shared_index_beyond") shifted<1><<<1, 64, 64 * sizeof(float)>>>(values.data, to.data);
  if (name == "shared_never_written") shifted<1><<<1, 64, 65 * sizeof(float)>>>(values.data, to.data);
  if (name == "barrier_in_branch") barrier_in_branch<true><<<1, 48>>>(reinterpret_cast<int*>(to.data));
  if (name == "shuffle_in_branch") sum_of_lanes<true><<<1, 64>>>(values.data, to.data);
  if (name == "beyond_allocation") add<<<1, 128>>>(values.data, 65, 1.f);
  if (name == "never_written") add<<<1, 64>>>(to.data, 64, 1.f);
  if (name == "misaligned") misaligned<<<1, 1>>>(reinterpret_cast<const char*>(values.data), to.data);
  if (name == "of_the_host") {
    std::vector<float> here(64);
    add<<<1, 64>>>(here.data(), 64, 1.f);
    MUST(cudaDeviceSynchronize());
  }
  if (name == "freed") {
    float* const had = values.data;
    MUST(cudaFree(had));
    add<<<1, 64>>>(had, 64, 1.f);
  }
  if (name == "copy_beyond") MUST(cudaMemset(values.data, 0, 65 * sizeof(float)));
  if (name == "host_reads") std::printf("%g\n", static_cast<double>(values.data[3]));
  if (name == "event_not_waited_for")  // some order of the two shows it
    for (int i = 0; i < 20; ++i) two_streams(false);
  if (name == "swapped_lanes") {
    const Device<float> a(numbers(128)), b(numbers(64));
    Device<float> wrong(std::size_t{128}), good(std::size_t{128});
    product_tf32<true><<<1, 32>>>(a.data, b.data, wrong.data);
    product_tf32<false><<<1, 32>>>(a.data, b.data, good.data);
    check(wrong.host() == good.host(), "a product with two lanes swapped");
  }
  MUST(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "right";
  if (name == "right")
    right();
  else
    mistake(name);
  std::printf("%s: %d wrong\n", name.c_str(), failures);
  return failures == 0 ? 0 : 1;
}
