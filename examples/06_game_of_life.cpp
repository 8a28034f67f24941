// The Game of Life on a torus that is cut over the ranks: integers, comparisons, where.
//
//   mpirun -n 4 06_game_of_life
#include <cstdio>
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<int, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;  // (H/h, W/w)

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const int width_of_mesh = env.world().size() % 2 == 0 ? 2 : 1;
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, width_of_mesh});
  const hg::index_t rows = 24, columns = 40;
  std::vector<int> cells(static_cast<std::size_t>(rows * columns), 0);
  for (hg::index_t i : {1l, columns + 2, 2 * columns, 2 * columns + 1, 2 * columns + 2})
    cells[static_cast<std::size_t>(i)] = 1;
  auto life = hg::distribute_tensor<Field>(mesh, {rows, columns}, cells);

  for (int generation = 0; generation < 40; ++generation) {
    const auto u = hg::with_boundary<hg::Periodic, hg::Periodic>(life);
    const auto three_rows = hg::shift<0, -1>(u) + u + hg::shift<0, 1>(u);
    const auto neighbours = hg::shift<1, -1>(three_rows) + three_rows + hg::shift<1, 1>(three_rows) - u;
    life = hg::where(neighbours == 3 || (u == 1 && neighbours == 2), 1, 0);  // one exchange, corners included
  }

  const std::vector<int> now = hg::full_tensor(life);  // the glider has moved 10 cells down and right
  if (env.is_root())
    for (hg::index_t y = 9; y < 14; ++y) {
      for (hg::index_t x = 8; x < 15; ++x) std::putchar(now[static_cast<std::size_t>(y * columns + x)] ? '#' : '.');
      std::putchar('\n');
    }
  const int alive = static_cast<int>(hg::sum(life).item());
  for (hg::index_t i = 0; i < rows * columns; ++i)
    if (now[static_cast<std::size_t>(i)] != cells[static_cast<std::size_t>((i / columns - 10 + rows) % rows * columns +
                                                                           (i % columns - 10 + columns) % columns)])
      throw hg::Error("the glider is not where it should be");
  if (env.is_root()) std::printf("%d cells alive\n", alive);
}
