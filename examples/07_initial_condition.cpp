// Finding where a tracer came from: gradient descent through 50 steps of advection, the adjoint derived.
//
//   mpirun -n 4 07_initial_condition
//
// The transpose of a step is the gradient of <step(v), c> with respect to v: one fused kernel, one halo exchange.
#include <cstdio>
#include <halogen/array_language.hpp>

using Grid = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;  // (H/h, W/w)

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});
  const hg::index_t height = 24, width = 48;
  const int steps = 50;
  // Eastward everywhere, faster in the middle rows; first order upwind, periodic in longitude.
  const auto step = [](auto u) {
    const auto row = hg::cast<double>(hg::global_index<0>(u));
    const auto speed = 0.2 + 0.1 * hg::sin(row * 0.13);
    return u - speed * (u - hg::shift<1, -1>(u));
  };
  const auto advance = [&](Field u) {
    for (int t = 0; t < steps; ++t) u = step(hg::with_boundary<hg::Zero, hg::Periodic>(u));
    return u;
  };

  Field truth(mesh, {height, width});
  const auto y = hg::cast<double>(hg::global_index<0>(truth));
  const auto x = hg::cast<double>(hg::global_index<1>(truth));
  truth = hg::exp(-(hg::square(y - 12.0) + hg::square(x - 16.0)) / 20.0);
  const Field observed = advance(truth);

  Field guess(mesh, {height, width});
  const double start = hg::norm(truth - guess);
  Field cotangent;
  auto transposed_step = hg::value_and_grad(
      [&](auto v) { return hg::dot(step(hg::with_boundary<hg::Zero, hg::Periodic>(v)), cotangent); });
  for (int iteration = 0; iteration < 80; ++iteration) {
    cotangent = advance(guess) - observed;
    if (env.is_root() && iteration % 20 == 0) std::printf("iteration %d\n", iteration);
    for (int t = 0; t < steps; ++t) cotangent = std::get<1>(transposed_step(guess));
    guess = guess - cotangent;
  }
  const double error = hg::norm(truth - guess) / start;
  if (env.is_root()) std::printf("relative error of the recovered field: %.4f\n", error);
  if (!(error < 0.1)) throw hg::Error("the initial condition was not recovered");
}
