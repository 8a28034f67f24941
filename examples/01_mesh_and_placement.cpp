// A mesh of ranks, a field cut over it, and the way back to one array.
//
//   mpirun -n 4 01_mesh_and_placement
#include <cstdio>
#include <halogen/array_language.hpp>
#include <numeric>
#include <vector>

using Mesh = hg::Mesh<"height", "width">;
// One placement per mesh dimension: "height" cuts the rows (dimension 0), "width" the columns (dimension 1).
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<1>>;  // (H/h, W/w)
// The same numbers placed otherwise, which is another type: rows cut, and the ranks of one row hold the same.
using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Replicate>;  // (H/h, W)

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const hg::Communicator& world = env.world();
  if (env.is_root()) std::printf("%s\n", env.describe().c_str());

  const int width = world.size() % 2 == 0 ? 2 : 1;
  auto mesh = hg::device_mesh<Mesh>(world, {-1, width});  // -1: as many as there are ranks for it

  // Rank 0 has the whole field; each rank gets its piece. 7 rows over 2 ranks are 4 and 3.
  const hg::index_t rows = 7, columns = 10;
  std::vector<float> whole;
  if (env.is_root()) {
    whole.resize(static_cast<std::size_t>(rows * columns));
    std::iota(whole.begin(), whole.end(), 0.f);
  }
  auto field = hg::distribute_tensor<Field>(mesh, {rows, columns}, whole, {.source_rank = 0});
  auto bands = hg::distribute_tensor<Rows>(mesh, {rows, columns}, whole);

  const auto shape = field.local_shape(), band = bands.local_shape();
  std::printf("rank %d at (%d, %d) of a %d x %d mesh: %lld x %lld from (%lld, %lld); as rows %lld x %lld\n",
              mesh.rank(), mesh.coordinate(0), mesh.coordinate(1), mesh.extent(0), mesh.extent(1),
              static_cast<long long>(shape[0]), static_cast<long long>(shape[1]),
              static_cast<long long>(field.offset(0)), static_cast<long long>(field.offset(1)),
              static_cast<long long>(band[0]), static_cast<long long>(band[1]));

  // A rank works on its own piece: here through the host; field.to_local() is the Kokkos view, without a copy.
  std::vector<float> piece = field.to_host();
  for (float& value : piece) value += 1000;
  field.copy_from_host(piece);

  // The whole field on every rank, for small fields. Both placements hold the same numbers.
  const std::vector<float> changed = hg::full_tensor(field), unchanged = hg::full_tensor(bands);
  for (std::size_t i = 0; i < changed.size(); ++i)
    if (changed[i] != unchanged[i] + 1000 || unchanged[i] != static_cast<float>(i))
      throw hg::Error("point " + std::to_string(i) + " was lost on the way");
  if (env.is_root()) std::printf("full_tensor: %zu points, each where it was\n", changed.size());
}
