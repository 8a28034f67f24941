// hosts_call: a call of a model's library (docs/hosts.md) beside the call in C++, with one copy of the input into its
// field and one of the output out of it. UNet<7, 3, 16> on 360 x 720, cut into bands.
#include <hosts_model.h>

#include "beside_mpi.hpp"

namespace {

using Line = hg::Mesh<"rows">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 7, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
using Model = hg::UNet<7, 3, 16>;
constexpr hg::index_t height = 360, width = 720;

void run(const hg::Environment& env) {
  const auto mesh = hg::device_mesh<Line>(env.world(), {-1});
  Field image(mesh, {1, 7, height, width});
  const hg::Interval rows = image.owned(2);
  std::vector<float> in(static_cast<std::size_t>(7 * rows.size() * width)), out(3 * in.size() / 7);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 17) / 17;

  halogen_setup setup{};
  setup.size = sizeof setup, setup.abi = HALOGEN_MODEL_ABI, setup.threads = 1;
  setup.has_communicator = 1, setup.communicator = MPI_Comm_c2f(MPI_COMM_WORLD);
  setup.extent[1] = height, setup.begin[1] = rows.begin, setup.end[1] = rows.end;
  setup.extent[2] = setup.end[2] = width;
  hosts_model_model* model = nullptr;
  if (hosts_model_create(&model, &setup) != HALOGEN_OK) throw hg::Error(hosts_model_error());
  const auto array = [&](std::vector<float>& values, std::int64_t channels) {
    return halogen_array{
        values.data(), HALOGEN_FLOAT32, 3, {channels, rows.size(), width}, {rows.size() * width, width, 1}};
  };
  const halogen_array given = array(in, 7), made = array(out, 3);

  const auto parameters = hg::initial_parameters<Model, float>(0);
  hg::Network<Model, float> network;
  image.copy_from_host(in);
  std::vector<float> copied_in(in.size()), copied_out(out.size());
  bench::compare(
      env, "hosts_call", 3,
      [&] {
        if (hosts_model_infer(model, &given, 1, &made, 1, 0) != HALOGEN_OK) throw hg::Error(hosts_model_error());
      },
      [&] {
        std::memcpy(copied_in.data(), in.data(), in.size() * sizeof(float));
        network.evaluation<hg::PlanKind::inference>(image).forward(hg::detail::view_of(image), parameters.data());
        std::memcpy(copied_out.data(), out.data(), out.size() * sizeof(float));
      });
  hosts_model_destroy(model);
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  if (bench::wanted(argc, argv, "hosts_call")) run(env);
}
