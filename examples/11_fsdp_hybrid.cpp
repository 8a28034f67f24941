// Two ways of cutting at once: "data" deals out samples and holds 1/N of parameters, gradient and optimiser state on
// each of its ranks (FSDP), "height" cuts each sample.
//
//   mpirun -n 4 11_fsdp_hybrid
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <numbers>
#include <vector>

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
using Net = hg::UNet<1, 1, 16, Globe>;
using Mesh = hg::Mesh<"data", "height">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;
constexpr hg::index_t samples = 8, height = 32, width = 64;

// Each rank computes (or reads) its own rows of its own samples: (N/n, 1, H/h, W), row-major.
template <class Value>
void fill(Field field, Value value) {
  const auto shape = field.local_shape();
  std::vector<float> piece;
  for (hg::index_t n = field.offset(0); n < field.offset(0) + shape[0]; ++n)
    for (hg::index_t y = field.offset(2); y < field.offset(2) + shape[2]; ++y)
      for (hg::index_t x = 0; x < width; ++x)
        piece.push_back(static_cast<float>(value(static_cast<double>(n), std::numbers::pi * double(y) / height,
                                                 2 * std::numbers::pi * double(x) / width)));
  field.copy_from_host(piece);
}

void print(const char* what, const hg::ParameterMemory& bytes) {
  std::printf("%-10s  %10zu  %8zu  %9zu  %7zu  %7zu bytes a rank\n", what, bytes.parameters, bytes.gradient,
              bytes.optimizer, bytes.staging, bytes.total());
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {env.world().size() % 2 == 0 ? 2 : 1, -1});
  Field image(mesh, {samples, 1, height, width}), label(mesh, {samples, 1, height, width});
  fill(image, [](double n, double y, double x) { return std::sin(3 * x + n) * std::cos((1 + n / 4) * y); });
  fill(label, [](double n, double y, double x) { return std::cos(3 * x + n) * std::cos((1 + n / 4) * y); });  // d/dx

  hg::Trainer trainer(Net{}, hg::AdamW{.lr = 3e-3}, mesh, {.seed = 1}, hg::shard_parameters<"data">);
  double first = 0, last = 0;
  hg::CommStatistics step_sends;
  for (int step = 0; step < 30; ++step) {
    const hg::CommStatistics before = hg::comm_stats();
    last = trainer.step(hg::mse, image, label).item();  // gathers a layer before it is used, reduces its gradient after
    step_sends = hg::comm_stats() - before;
    if (step == 0) first = last;
    if (step % 10 == 0 && env.is_root()) std::printf("step %2d: loss %.4f\n", step, last);
  }

  const hg::ParameterMemory own = trainer.parameter_memory(), whole = hg::parameter_memory<Net, float>();
  if (env.is_root()) {
    std::printf("loss %.4f -> %.4f on %d x %d ranks (data x height)\n", first, last, mesh.extent(0), mesh.extent(1));
    std::printf("            parameters  gradient  optimizer  staging    total\n");
    print("replicated", whole);
    print("sharded", own);
    print("on 64 x 1", hg::parameter_memory<Net, float>(hg::dry_mesh<Mesh>({64, 1}), hg::shard_parameters<"data">));
    std::printf(
        "a step: %lld all_gathers, %lld reduce_scatters, %lld all_reduces, %lld halo messages\n",
        static_cast<long long>(step_sends.all_gathers.count), static_cast<long long>(step_sends.reduce_scatters.count),
        static_cast<long long>(step_sends.all_reduces.count), static_cast<long long>(step_sends.messages.count));
  }
  const auto share = [&](std::size_t bytes) { return bytes / static_cast<std::size_t>(mesh.extent(0)) + 12 * 8; };
  if (own.parameters > share(whole.parameters) || own.gradient > share(whole.gradient) ||
      own.optimizer > share(whole.optimizer))  // 11 layers, each rounded up to a value a rank
    throw hg::CollectiveError("a rank holds more than its share of the parameters");
  if (!(last < 0.5 * first)) throw hg::CollectiveError("it did not learn: loss " + std::to_string(last));
}
