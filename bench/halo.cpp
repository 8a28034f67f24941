// The halo exchange of a field beside hand-written MPI (see beside_mpi.hpp): 16 channels, cut into rows or columns.
#include "beside_mpi.hpp"

namespace {

using Mesh = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 16, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

/// What one writes by hand: a piece with margins, persistent messages, strips packed and unpacked by plain loops.
class HandHalo {
 public:
  static constexpr int channels = 16;

  /// A piece of rows x columns points, its neighbours along rows (or columns) at distance 1 in rank, `reach` deep.
  HandHalo(int rows, int columns, int reach, bool along_rows)
      : height_(rows + (along_rows ? 2 * reach : 0)), width_(columns + (along_rows ? 0 : 2 * reach)) {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    data_.resize(static_cast<std::size_t>(channels * height_ * width_));
    for (const int side : {-1, 1}) {
      if (rank + side < 0 || rank + side >= size) continue;
      const int extent = along_rows ? height_ : width_;
      const int outer = side < 0 ? 0 : extent - reach, inner = side < 0 ? reach : extent - 2 * reach;
      const auto box = [&](int at) {
        return along_rows ? Box{at, at + reach, 0, width_} : Box{0, height_, at, at + reach};
      };
      sides_.push_back({rank + side, box(inner), box(outer), {}, {}});
    }
    for (Side& side : sides_) {
      side.send.resize(side.from.count()), side.receive.resize(side.from.count());
      const int count = static_cast<int>(side.send.size());
      MPI_Recv_init(side.receive.data(), count, MPI_FLOAT, side.peer, 0, MPI_COMM_WORLD, &requests_.emplace_back());
      MPI_Send_init(side.send.data(), count, MPI_FLOAT, side.peer, 0, MPI_COMM_WORLD, &requests_.emplace_back());
    }
  }
  ~HandHalo() {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
  }

  void run() {
    for (Side& side : sides_)
      each_row(side.from, [&, at = side.send.data()](const float* row, std::size_t count) mutable {
        std::memcpy(at, row, count * sizeof(float)), at += count;
      });
    MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (Side& side : sides_)
      each_row(side.to, [&, at = side.receive.data()](float* row, std::size_t count) mutable {
        std::memcpy(row, at, count * sizeof(float)), at += count;
      });
  }

 private:
  struct Box {
    int y0, y1, x0, x1;
    std::size_t count() const { return static_cast<std::size_t>(channels * (y1 - y0) * (x1 - x0)); }
  };
  struct Side {
    int peer;
    Box from, to;
    std::vector<float> send, receive;
  };

  template <class F>
  void each_row(const Box& box, F f) {
    for (int c = 0; c < channels; ++c)
      for (int y = box.y0; y < box.y1; ++y)
        f(data_.data() + (c * height_ + y) * width_ + box.x0, static_cast<std::size_t>(box.x1 - box.x0));
  }

  int height_, width_;
  std::vector<float> data_;
  std::vector<Side> sides_;
  std::vector<MPI_Request> requests_;
};

struct Case {
  const char* name;
  int points, reach;
  bool along_rows;
};

void exchange(const hg::Environment& env, const Case& one) {
  const int ranks = env.world().size(), points = one.points - one.points % ranks;
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {one.along_rows ? ranks : 1, one.along_rows ? 1 : ranks});
  const Field field(mesh, {1, 16, points, points});
  hg::Reach<4> reach;
  reach.lo[one.along_rows ? 2 : 3] = reach.hi[one.along_rows ? 2 : 3] = one.reach;
  HandHalo hand(one.along_rows ? points / ranks : points, one.along_rows ? points : points / ranks, one.reach,
                one.along_rows);
  const hg::execution_space space;
  bench::compare(
      env, one.name, 1000,
      [&] {
        hg::halo_exchange(space, field, reach);
        space.fence();
      },
      [&] { hand.run(); });
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const Case cases[] = {{"halo_rows", 1024, 1, true},
                        {"halo_columns", 1024, 1, false},
                        {"halo_rows_deep", 1024, 4, true},
                        {"halo_rows_small", 64, 1, true}};
  for (const Case& one : cases)
    if (bench::wanted(argc, argv, one.name)) exchange(env, one);
}
