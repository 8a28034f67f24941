// The same convolution as 08, sharded: one line, and it is right. Forward, mean and gradient on all ranks equal what
// one rank computes alone.
//
//   mpirun -n 4 09_one_line
//
// ranks: 1 4
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>

using Mesh = hg::Mesh<"height">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;  // (1, 8, H/h, W)
using Conv = hg::Conv2d<8, 8, hg::Kernel<3>, hg::Padding<1>>;

/// A field of smooth numbers: each rank makes its own piece.
Field make_field(const hg::DeviceMesh<Mesh>& mesh) {
  const Field field(mesh, {1, 8, 1024, 1024});
  const auto channel = hg::cast<float>(hg::global_index<1>(field));
  const auto y = hg::cast<float>(hg::global_index<2>(field));
  const auto x = hg::cast<float>(hg::global_index<3>(field));
  Field values = field;
  values = hg::sin(0.013f * y * (1.f + channel)) * hg::cos(0.021f * x - channel);
  return values;
}

struct Result {
  double mean;
  Field output, gradient;
};

Result run(const hg::DeviceMesh<Mesh>& mesh) {
  const auto parameters = hg::initial_parameters<Conv, float>(7);  // the same on every rank
  const Field x = make_field(mesh);
  const Field y = hg::infer(parameters, x);  // the one line: the halo is derived, exchanged, computed
  auto f = hg::value_and_grad([&](auto v) { return hg::mean(hg::square(hg::infer(parameters, v))); });
  auto [mean, dx] = f(x);
  return {mean, y, dx};
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const Result sharded = run(hg::device_mesh<Mesh>(env.world(), {-1}));
  const auto shape = sharded.gradient.local_shape();
  if (env.is_root())
    std::printf("gradient: %s, %lld x %lld x %lld x %lld on each of %d ranks\n",
                hg::placement_name(Field::placements[0]).c_str(), static_cast<long long>(shape[0]),
                static_cast<long long>(shape[1]), static_cast<long long>(shape[2]), static_cast<long long>(shape[3]),
                env.world().size());

  const Result single = run(hg::device_mesh<Mesh>(hg::Communicator(), {1}));  // every rank for itself, the whole field
  const auto difference = [](const Field& a, const Field& b) {
    const std::vector<float> pieces = hg::full_tensor(a), whole = hg::full_tensor(b);
    float worst = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) worst = std::max(worst, std::abs(pieces[i] - whole[i]));
    return worst;
  };
  const float output = difference(sharded.output, single.output), dx = difference(sharded.gradient, single.gradient);
  if (env.is_root())
    std::printf("mean %.9g, alone %.9g; largest difference of the output %g, of the input's gradient %g\n",
                sharded.mean, single.mean, static_cast<double>(output), static_cast<double>(dx));
  if (output != 0 || dx != 0 || std::abs(sharded.mean - single.mean) > 1e-12 * single.mean)
    throw hg::CollectiveError("the sharded convolution differs from the whole one");
}
