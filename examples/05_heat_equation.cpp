// A stencil code: heat spreads over a field that is zero beyond the poles and periodic in longitude.
//
//   mpirun -n 4 05_heat_equation
//
// The expression's type says what must move: one halo exchange of width 1 and one fused kernel a step.
#include <cmath>
#include <cstdio>
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;  // (H/h, W/w)

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});
  const hg::index_t height = 90, width = 180;
  Field u(mesh, {height, width});
  // A wave along a parallel decays by a known factor a step; coordinates need no array.
  const float pi = 3.14159265f;
  u = hg::sin((2 * pi * 3 / width) * hg::cast<float>(hg::global_index<1>(u))) *
      hg::sin((pi / (height + 1)) * (1.f + hg::cast<float>(hg::global_index<0>(u))));

  const float k = 0.2f;
  const auto step = [k](auto v) {
    return v + k * (hg::shift<0, 1>(v) + hg::shift<0, -1>(v) + hg::shift<1, 1>(v) + hg::shift<1, -1>(v) - 4.f * v);
  };
  const double before = hg::norm(u);
  const hg::CommStatistics start = hg::comm_stats();
  const int steps = 200;
  for (int t = 0; t < steps; ++t) u = step(hg::with_boundary<hg::Zero, hg::Periodic>(u));
  const hg::CommStatistics spent = hg::comm_stats() - start;
  const double decay = hg::norm(u) / before;

  const double expected = std::pow(1 - 2 * k * (2 - std::cos(2 * pi * 3 / width) - std::cos(pi / (height + 1))), steps);
  if (env.is_root())
    std::printf("%d steps: norm x %.6f (theory %.6f), %lld messages and %lld bytes from rank 0\n", steps, decay,
                expected, static_cast<long long>(spent.messages.count), static_cast<long long>(spent.messages.bytes));
  if (!(std::abs(decay - expected) < 1e-4)) throw hg::Error("the wave decays otherwise than theory says");
}
