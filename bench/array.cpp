// The array language beside hand-written MPI of the same pattern, in one process, in turn: host time of an operation on
// tiny pieces, and redistributions from 4 KB to 64 MB a rank (see beside_mpi.hpp).
#include <algorithm>

#include "beside_mpi.hpp"

namespace {

using Line = hg::Mesh<"ranks">;
template <class P>
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, P>;
using Rows = Plane<hg::Shard<0>>;
using Columns = Plane<hg::Shard<1>>;

// -- a five-point stencil, periodic in the columns, zero beyond the rows; pieces of 16 x 16
// -----------------------------

/// What one writes by hand: rows with a margin of one, persistent messages, two buffers.
struct HandStencil {
  static constexpr int n = 16, pitch = n + 2;
  std::vector<float> now = std::vector<float>((n + 2) * pitch), next = now;
  std::vector<MPI_Request> requests[2];
  int rank, size;

  HandStencil() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int b = 0; b < 2; ++b) {
      float* data = (b == 0 ? now : next).data();
      const auto add = [&](auto init, float* row, int peer) {
        if (peer < 0 || peer >= size) return;
        init(row, n, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, &requests[b].emplace_back());
      };
      add(&MPI_Recv_init, data + 1, rank - 1);
      add(&MPI_Recv_init, data + (n + 1) * pitch + 1, rank + 1);
      add(&MPI_Send_init, data + pitch + 1, rank - 1);
      add(&MPI_Send_init, data + n * pitch + 1, rank + 1);
    }
  }
  ~HandStencil() {
    for (auto& list : requests)
      for (MPI_Request& request : list) MPI_Request_free(&request);
  }
  void step(float k) {
    MPI_Startall(static_cast<int>(requests[0].size()), requests[0].data());
    for (int y = 1; y <= n; ++y) {
      now[static_cast<std::size_t>(y * pitch)] = now[static_cast<std::size_t>(y * pitch + n)];
      now[static_cast<std::size_t>(y * pitch + n + 1)] = now[static_cast<std::size_t>(y * pitch + 1)];
    }
    MPI_Waitall(static_cast<int>(requests[0].size()), requests[0].data(), MPI_STATUSES_IGNORE);
    for (int y = 1; y <= n; ++y)
      for (int x = 1; x <= n; ++x) {
        const float* u = now.data() + y * pitch + x;
        next[static_cast<std::size_t>(y * pitch + x)] = u[0] + k * (u[pitch] + u[-pitch] + u[1] + u[-1] - 4.f * u[0]);
      }
    std::swap(now, next);
    std::swap(requests[0], requests[1]);
  }
};

void operations(const hg::Environment& env, const hg::DeviceMesh<Line>& mesh, const std::string& name) {
  const auto world = env.world();
  Rows u(mesh, {16 * world.size(), 16});
  if (name == "op_overhead_stencil") {
    HandStencil hand;
    const float k = 0.1f;
    bench::compare(
        env, name, 2000,
        [&] {
          const auto v = hg::with_boundary<hg::Zero, hg::Periodic>(u);
          u = v + k * (hg::shift<0, 1>(v) + hg::shift<0, -1>(v) + hg::shift<1, 1>(v) + hg::shift<1, -1>(v) - 4.f * v);
        },
        [&] { hand.step(k); });
  } else if (name == "op_overhead_pointwise") {
    std::vector<float> values(256);
    bench::compare(
        env, name, 20000, [&] { u = 0.5f * u + 1.f; },
        [&] {
          for (float& value : values) value = 0.5f * value + 1.f;
          __asm__ volatile("" : : "r"(values.data()) : "memory");
        });
  } else {
    std::vector<float> values(256, 1.f);
    double total = 0;
    bench::compare(
        env, name, 2000, [&] { total += hg::sum(u).item(); },
        [&] {
          double sum = 0;
          for (const float value : values) sum += static_cast<double>(value);
          MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
          total += sum;
        });
    if (total < 0) std::puts("");
  }
}

// -- rows to columns
// ---------------------------------------------------------------------------------------------------

/// What one writes by hand: pack the blocks of the others, start, copy one's own; theirs arrive where they belong.
/// Large pages, as fields have.
struct HandTranspose {
  int rank, size, rows, columns;  ///< of this rank's row piece
  Kokkos::View<float*> from, to, send;
  std::vector<MPI_Request> requests;

  explicit HandTranspose(int points) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = points / size;
    columns = points;
    const auto count = static_cast<std::size_t>(rows * columns);
    for (Kokkos::View<float*>* one : {&from, &to, &send}) {
      *one = Kokkos::View<float*>(Kokkos::view_alloc("hand", Kokkos::WithoutInitializing), count);
      hg::advise_huge_pages(one->data(), count * sizeof(float));
      std::fill_n(one->data(), count, 0.f);
    }
    const int block = rows * (columns / size);
    for (int p = 0; p < size; ++p)
      if (p != rank)
        MPI_Recv_init(to.data() + p * block, block, MPI_FLOAT, p, 0, MPI_COMM_WORLD, &requests.emplace_back());
    for (int p = 0; p < size; ++p)
      if (p != rank)
        MPI_Send_init(send.data() + p * block, block, MPI_FLOAT, p, 0, MPI_COMM_WORLD, &requests.emplace_back());
  }
  ~HandTranspose() {
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
  void run() {
    const int width = columns / size, block = rows * width;
    const auto bytes = static_cast<std::size_t>(width) * sizeof(float);
    for (int p = 0; p < size; ++p)
      for (int y = 0; p != rank && y < rows; ++y)
        std::memcpy(send.data() + p * block + y * width, from.data() + y * columns + p * width, bytes);
    MPI_Startall(static_cast<int>(requests.size()), requests.data());
    for (int y = 0; y < rows; ++y)  // `to` has all rows of this rank's columns
      std::memcpy(to.data() + (rank * rows + y) * width, from.data() + y * columns + rank * width, bytes);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
};

void redistribution(const hg::Environment& env, const hg::DeviceMesh<Line>& mesh, const std::string& name, int points) {
  points -= points % env.world().size();
  const Rows rows(mesh, {points, points});
  const Columns columns(mesh, {points, points});
  hg::Redistribution<Columns, Rows> ours(rows, columns);
  HandTranspose hand(points);
  const int repeats = std::clamp(20000000 / (points * points), 3, 2000);
  bench::compare(
      env, name, repeats, [&] { ours.move(rows, columns); }, [&] { hand.run(); });
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  for (const char* name : {"op_overhead_pointwise", "op_overhead_stencil", "op_overhead_sum"})
    if (bench::wanted(argc, argv, name)) operations(env, mesh, name);
  // Squares of these sides on 2 ranks: 4 KB, 64 KB, 1 MB, 16 MB, 64 MB a rank.
  const std::pair<const char*, int> sizes[] = {{"redistribute_4K", 46},
                                               {"redistribute_64K", 182},
                                               {"redistribute_1M", 724},
                                               {"redistribute_16M", 2896},
                                               {"redistribute_64M", 5792}};
  for (const auto& [name, points] : sizes)
    if (bench::wanted(argc, argv, name)) redistribution(env, mesh, name, points);
}
