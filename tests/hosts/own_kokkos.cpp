// A host in C++ that has initialised a Kokkos of its own, uses Halogen itself, and calls two libraries of models: their
// bits are those of the C++ program.
#include <doctest/doctest.h>
#include <several.h>
#include <small.h>

#include <halogen/halogen.hpp>

#include "hosts/models.hpp"
#include "support/ran.hpp"

namespace {

using Grid = hg::Mesh<"rows", "columns">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;

halogen_array array_of(float* data, const std::vector<hg::index_t>& extents) {
  halogen_array array{data, HALOGEN_FLOAT32, static_cast<std::int32_t>(extents.size()), {}, {}};
  hg::index_t stride = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    array.extent[d] = extents[d], array.stride[d] = stride;
    stride *= extents[d];
  }
  return array;
}

struct Compared {
  int rank = 0, size = 1;
  hg::Cut rows, columns;
  halogen_setup setup{};

  Compared() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = size % 2 == 0 ? hg::Cut::of_sizes({5, 11}) : hg::Cut::of_sizes({16});
    columns = size / rows.parts() == 1 ? hg::Cut::of_sizes({12}) : hg::Cut::of_sizes({7, 5});
    setup.size = sizeof setup, setup.abi = HALOGEN_MODEL_ABI, setup.seed = 3;
    setup.has_communicator = 1, setup.communicator = MPI_Comm_c2f(MPI_COMM_WORLD);
    setup.extent[0] = setup.end[0] = 2, setup.extent[1] = 16, setup.extent[2] = 12;
    const hg::Interval down = rows.piece(rank / columns.parts()), across = columns.piece(rank % columns.parts());
    setup.begin[1] = down.begin, setup.end[1] = down.end, setup.begin[2] = across.begin, setup.end[2] = across.end;
  }
};

TEST_CASE("a library's inference, training and files have the bits of the C++ program") {
  Compared at;
  REQUIRE(Kokkos::is_initialized());
  const int threads = Kokkos::num_threads();
  const auto mesh = hg::device_mesh<Grid>(hg::from_mpi(MPI_COMM_WORLD, "cpp"), {at.rows.parts(), at.columns.parts()});
  Field x(mesh, {hg::Cut::chunk(2, 1), hg::Cut::chunk(3, 1), at.rows, at.columns});
  std::vector<float> values(static_cast<std::size_t>(2 * 3 * x.local_extent(2) * x.local_extent(3)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7 + 3 * at.rank) % 19) / 9 - 1;
  x.copy_from_host(values);
  hg::Trainer trainer(hosts::Small{}, hg::AdamW{.lr = 0.01}, mesh, {.seed = 3});
  auto y = trainer.predict(x);
  const std::vector<hg::index_t> of_input{2, 3, x.local_extent(2), x.local_extent(3)},
      of_output{2, 2, x.local_extent(2), x.local_extent(3)};
  std::vector<float> made(y.to_host().size()), labels(made.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i % 5);
  auto label = y.clone();
  label.copy_from_host(labels);

  small_model *model = nullptr, *loaded = nullptr;
  REQUIRE_MESSAGE(small_create(&model, &at.setup) == HALOGEN_OK, small_error());
  const halogen_array in = array_of(values.data(), of_input), out = array_of(made.data(), of_output),
                      wanted = array_of(labels.data(), of_output);
  REQUIRE_MESSAGE(small_infer(model, &in, 1, &out, 1, 0) == HALOGEN_OK, small_error());
  CHECK(made == y.to_host());
  REQUIRE(small_set(model, "lr", 0.01) == HALOGEN_OK);
  for (int step = 0; step < 3; ++step) {
    double loss = 0;
    REQUIRE_MESSAGE(small_step(model, &in, 1, &wanted, 1, nullptr, 0, &loss) == HALOGEN_OK, small_error());
    CHECK(loss == trainer.step(hg::mse, x, label).item());
  }
  const auto file = std::string("hosts_") + std::to_string(at.size) + ".safetensors";
  REQUIRE_MESSAGE(small_save(model, file.c_str()) == HALOGEN_OK, small_error());
  at.setup.seed = 99;
  REQUIRE(small_create(&loaded, &at.setup) == HALOGEN_OK);
  REQUIRE_MESSAGE(small_load(loaded, file.c_str()) == HALOGEN_OK, small_error());
  REQUIRE(small_infer(loaded, &in, 1, &out, 1, 0) == HALOGEN_OK);
  CHECK(made == trainer.predict(x).to_host());
  double loss = 0;  // with the optimiser's moments
  REQUIRE(small_set(loaded, "lr", 0.01) == HALOGEN_OK);
  REQUIRE_MESSAGE(small_step(loaded, &in, 1, &wanted, 1, nullptr, 0, &loss) == HALOGEN_OK, small_error());
  trainer.step(hg::mse, x, label);
  REQUIRE(small_infer(loaded, &in, 1, &out, 1, 0) == HALOGEN_OK);
  CHECK(made == trainer.predict(x).to_host());
  CHECK(small_memory(loaded) > 0);
  CHECK(std::string(small_explain(loaded)).find("launch") != std::string::npos);
  small_destroy(model), small_destroy(loaded);
  CHECK(Kokkos::num_threads() == threads);
  CHECK(Kokkos::is_initialized());
  if (at.rank == 0) std::remove(file.c_str());
}

}  // namespace
