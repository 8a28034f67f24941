// Small steps of a stencil code beside plain loops (and hand-written MPI where there are two ranks), in one process, in
// turn: what a step costs beside its arithmetic (see beside_mpi.hpp).
#include <utility>

#include "beside_mpi.hpp"

namespace {

using Line = hg::Mesh<"ranks">;
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Volume = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;

// -- heat: a five-point stencil of n x n points, zero beyond all ends, cut into rows ----------------------------------

/// What one writes by hand: rows with a margin of one, persistent messages, two buffers.
class HandHeat {
 public:
  HandHeat(int rows, int columns)
      : rows_(rows), pitch_(columns + 2), now_(static_cast<std::size_t>((rows + 2) * pitch_)), next_(now_) {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int b = 0; b < 2; ++b) {
      float* data = (b == 0 ? now_ : next_).data();
      const auto add = [&](auto init, int row, int peer) {
        if (peer < 0 || peer >= size) return;
        init(data + row * pitch_ + 1, columns, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, &requests_[b].emplace_back());
      };
      add(&MPI_Recv_init, 0, rank - 1), add(&MPI_Recv_init, rows + 1, rank + 1);
      add(&MPI_Send_init, 1, rank - 1), add(&MPI_Send_init, rows, rank + 1);
    }
  }
  ~HandHeat() {
    for (auto& list : requests_)
      for (MPI_Request& request : list) MPI_Request_free(&request);
  }
  void step(float k) {
    const int count = static_cast<int>(requests_[0].size());
    if (count > 0) {  // MPI refuses a list that is nowhere
      MPI_Startall(count, requests_[0].data());
      MPI_Waitall(count, requests_[0].data(), MPI_STATUSES_IGNORE);
    }
    const int pitch = pitch_;
    for (int y = 1; y <= rows_; ++y) {
      const float* u = now_.data() + y * pitch;
      float* out = next_.data() + y * pitch;
      for (int x = 1; x < pitch - 1; ++x)
        out[x] = u[x] + k * (u[x + pitch] + u[x - pitch] + u[x + 1] + u[x - 1] - 4.f * u[x]);
    }
    std::swap(now_, next_);
    std::swap(requests_[0], requests_[1]);
  }

 private:
  int rows_, pitch_;
  std::vector<float> now_, next_;
  std::vector<MPI_Request> requests_[2];
};

void heat(const hg::Environment& env, const hg::DeviceMesh<Line>& mesh, const std::string& name, int points) {
  Plane u(mesh, {points, points});
  HandHeat hand(points / env.world().size(), points);
  const float k = 0.1f;
  bench::compare(
      env, name, 1000,
      [&] {
        using hg::shift;
        u = u + k * (shift<0, 1>(u) + shift<0, -1>(u) + shift<1, 1>(u) + shift<1, -1>(u) - 4.f * u);
      },
      [&] { hand.step(k); });
}

// -- waves: a seven-point stencil of n^3 points in two time levels, on one rank ---------------------------------------

struct HandWave {
  int points, pitch = points + 2, plane = pitch * pitch;
  std::vector<float> now = std::vector<float>(static_cast<std::size_t>(plane * pitch)), before = now;

  explicit HandWave(int n) : points(n) {}
  void step(float c) {
    for (int z = 1; z <= points; ++z)
      for (int y = 1; y <= points; ++y) {
        const float* u = now.data() + z * plane + y * pitch;
        float* out = before.data() + z * plane + y * pitch;
        for (int x = 1; x <= points; ++x)
          out[x] = 2.f * u[x] - out[x] +
                   c * (u[x + plane] + u[x - plane] + u[x + pitch] + u[x - pitch] + u[x + 1] + u[x - 1] - 6.f * u[x]);
      }
    std::swap(now, before);
  }
};

void wave(const hg::Environment& env, const hg::DeviceMesh<Line>& mesh, const std::string& name, int points) {
  Volume u(mesh, {points, points, points}), before(mesh, {points, points, points});
  HandWave hand(points);
  const float c = 0.1f;
  bench::compare(
      env, name, 40000000 / (points * points * points) / 20 + 5,
      [&] {
        using hg::shift;
        const Volume next = 2.f * u - before +
                            c * (shift<0, 1>(u) + shift<0, -1>(u) + shift<1, 1>(u) + shift<1, -1>(u) + shift<2, 1>(u) +
                                 shift<2, -1>(u) - 6.f * u);
        before = u, u = next;
      },
      [&] { hand.step(c); });
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  if (bench::wanted(argc, argv, "stencil_small_32")) heat(env, mesh, "stencil_small_32", 32);
  if (env.world().size() > 1) return 0;
  if (bench::wanted(argc, argv, "stencil_small_31_3")) wave(env, mesh, "stencil_small_31_3", 31);
  if (bench::wanted(argc, argv, "stencil_small_128_3")) wave(env, mesh, "stencil_small_128_3", 128);
}
