// An MPI code that exists calls Halogen: a solver with a ghost-celled array of its own, beside a server of output that
// makes no Environment. Each step the solver advances its array, and a network corrects it in place.
//
//   mpirun -n 4 15_embedding
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <vector>
#ifdef HALOGEN_WITH_MPI
using Line = hg::Mesh<"rows">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;  // (1, 1, H/h, W)
using Net = hg::Conv2d<1, 1, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<hg::Zero, hg::Periodic>>;
constexpr hg::index_t height = 30, width = 20, line = width + 2;

double solve(const hg::DeviceMesh<Line>& mesh) {
  const hg::Cut rows = hg::Cut::balanced(height, mesh.size()), one = hg::Cut::chunk(1, 1);
  const hg::Interval own = rows.piece(mesh.rank());
  std::vector<float> array((own.size() + 2) * line);  // the solver's: one ghost cell on each side
  float* const first = array.data() + line + 1;
  for (hg::index_t i = 0; i < own.size(); ++i)
    for (hg::index_t j = 0; j < width; ++j) first[i * line + j] = std::sin(0.3f * (own.begin + i)) * std::cos(0.6f * j);
  const Field::Margins margins{{{0, 0}, {0, 0}, {1, 1}, {1, 1}}};
  Field u = Field::over(mesh, {one, one, rows, hg::Cut::chunk(width, 1)}, array.data(), margins);
  const hg::Reach<4> ghosts{{0, 0, 1, 1}, {0, 0, 1, 1}, {false, false, false, true}};  // periodic along the rows
  const auto parameters = hg::initial_parameters<Net, float>(1);
  for (int step = 0; step < 20; ++step) {
    hg::halo_exchange(hg::execution_space(), u, ghosts);  // into the array's ghost cells
    const std::vector<float> before = array;
    for (hg::index_t i = 0; i < own.size(); ++i)
      for (hg::index_t j = 0; j < width; ++j) {
        const float* p = before.data() + (i + 1) * line + j + 1;
        first[i * line + j] = p[0] + 0.2f * (p[1] + p[-1] + p[line] + p[-line] - 4 * p[0]);
      }
    u += 0.1f * hg::infer(parameters, u);  // reads the array and writes it
  }
  return hg::mean(u * u).item();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool serves = size > 1 && rank == size - 1;
  MPI_Comm model = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, serves ? MPI_UNDEFINED : 0, rank, &model);
  double cut = 0;
  if (!serves && hg::runs_on_host) {  // on a GPU the array would lie there
    hg::Environment env(model, argc, argv);
    cut = solve(hg::device_mesh<Line>(env.world(), {-1}));
    const double whole = solve(hg::device_mesh<Line>(hg::Communicator(), {1}));  // each rank alone
    if (!(std::abs(cut - whole) < 1e-6 * whole)) throw hg::Error("the mesh changes the mean square");
    if (env.is_root() && size > 1) MPI_Send(&cut, 1, MPI_DOUBLE, size - 1, 0, MPI_COMM_WORLD);
  }
  if (serves && hg::runs_on_host) MPI_Recv(&cut, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == size - 1) std::printf("mean square %.6f after 20 steps\n", cut);
  return MPI_Finalize();
}
#else
int main() { std::puts("this program is for a build with MPI"); }
#endif
