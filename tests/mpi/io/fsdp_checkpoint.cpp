// program: sharded_parameters
// reads: convolutions
// Sharded parameters to and from a file: the same bytes as replicated ones write, whatever the number of shards.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <halogen/io/checkpoint.hpp>

#include "halogen/layers/batch_norm.hpp"
#include "support/convolutions.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"
#include "support/train_once.hpp"

namespace test_fsdp_checkpoint {

namespace {

/// With running statistics, which no rank shards.
using Net = hg::Sequential<hg::BatchNorm2d<3>, hg::UNet<3, 1, 4, hg::Boundary<hg::Zero, hg::Zero>, 2>>;
using Sharding = hg::ShardParameters<"data">;

std::filesystem::path file_of(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("halogen_fsdp_" + support::run_name(support::world().size()) + "_" + name + ".safetensors");
}

std::vector<char> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("saved and loaded, sharded and replicated in any combination") {
  const hg::Communicator world = support::world();
  const auto path = file_of("shards"), plain = file_of("whole");
  for (const auto& mesh : support::meshes(6)) {
    CAPTURE(support::text(mesh));
    const auto whole = hg::initial_parameters<Net, float>(5);
    const auto shards = hg::initial_parameters<Net, float>(5, mesh, hg::shard_parameters<"data">);
    hg::save_parameters(path, shards, world);
    hg::save_parameters(plain, whole, world);
    CHECK(bytes_of(path) == bytes_of(plain));

    hg::Parameters<Net, float> read;
    hg::load_parameters(path, read, world);
    CHECK(read.to_host() == whole.to_host());
    auto other = hg::initial_parameters<Net, float>(6, mesh, Sharding{.bucket_bytes = 5000});
    CHECK(hg::redistribute<hg::Replicate>(other).to_host() != whole.to_host());
    hg::load_parameters(path, other, world);
    CHECK(hg::redistribute<hg::Replicate>(other).to_host() == whole.to_host());
    world.barrier();  // before the next mesh writes anew
  }
  if (world.rank() == 0) std::filesystem::remove(path), std::filesystem::remove(plain);
}

TEST_CASE("a training that goes on from a checkpoint ends where it would have ended, replicated and sharded") {
  const hg::Communicator world = support::world();
  const auto path = file_of("training");
  constexpr hg::AdamW settings{.lr = 1e-2};
  for (const auto& mesh : support::meshes(6)) {
    CAPTURE(support::text(mesh));
    const std::array<hg::index_t, 4> of_image{12, 3, 24, 24}, of_label{12, 1, 24, 24};
    const auto image =
        hg::distribute_tensor<support::Field<float, 3>>(mesh, of_image, support::numbers<float>(12 * 3 * 24 * 24, 1));
    const auto label =
        hg::distribute_tensor<support::Field<float, 1>>(mesh, of_label, support::numbers<float>(12 * 24 * 24, 2));
    const auto run = [&](auto& trainer, int steps) {
      double loss = 0;
      for (int i = 0; i < steps; ++i) loss = trainer.step(hg::mse, image, label).item();
      return loss;
    };
    const auto shards = hg::shard_parameters<"data">;
    hg::Trainer whole(Net{}, settings, mesh, {.seed = 5}), again(Net{}, hg::AdamW{.lr = 3e-2}, mesh, {.seed = 6});
    hg::Trainer sharded(Net{}, settings, mesh, {.seed = 7}, shards), other(Net{}, settings, mesh, {.seed = 8}, shards);
    run(whole, 3);
    hg::save_checkpoint(path, whole, world);
    run(again, 1);
    again.set_learning_rate(settings.lr);  // which the file does not say
    hg::load_checkpoint(path, again, world);
    hg::load_checkpoint(path, sharded, world);
    CHECK(again.optimizer_state().steps() == 3);
    hg::save_checkpoint(path, sharded, world);
    hg::load_checkpoint(path, other, world);
    const double loss = run(whole, 3);
    CHECK(run(again, 3) == loss);
    CHECK(again.parameters().to_host() == whole.parameters().to_host());
    CHECK(run(sharded, 3) == doctest::Approx(loss).epsilon(1e-5));
    CHECK(run(other, 3) == doctest::Approx(loss).epsilon(1e-5));
    CHECK(hg::redistribute<hg::Replicate>(other.parameters()).to_host() ==
          hg::redistribute<hg::Replicate>(sharded.parameters()).to_host());

    hg::Parameters<Net, float> alone;
    hg::load_parameters(path, alone, world);  // a checkpoint's parameters alone
    hg::save_parameters(path, alone, world);
    const auto before = again.parameters().to_host();
    again.set_learning_rate(1e-4);
    CHECK(support::refusal([&] { hg::load_checkpoint(path, again, world); }) ==
          "'" + path.string() +
              "' is no checkpoint, it has no tensor 'optimizer.step': load_parameters reads parameters alone");
    CHECK(again.learning_rate() == 1e-4);
    CHECK(again.parameters().to_host() == before);
    CHECK(again.optimizer_state().steps() == 6);
    hg::Parameters<Net, double> wider;
    hg::load_parameters(path, wider, world);
    CHECK(support::relative_error(wider.to_host(), alone.to_host()) == 0);
  }
  if (world.rank() == 0) std::filesystem::remove(path);
}

TEST_CASE("a file that is missing or of another model is refused, alike on all ranks, and changes nothing") {
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {-1, 1, 1});
  auto shards = hg::initial_parameters<Net, float>(5, mesh, hg::shard_parameters<"data">);
  const auto before = hg::redistribute<hg::Replicate>(shards).to_host();
  CHECK_THROWS_AS(hg::load_parameters(file_of("missing"), shards, world), hg::CollectiveError);
  const auto path = file_of("other");
  hg::save_parameters(path, hg::initial_parameters<hg::Conv2d<3, 1>, float>(5), world);
  CHECK_THROWS_AS(hg::load_parameters(path, shards, world), hg::CollectiveError);
  CHECK_THROWS_AS(hg::save_parameters("/no/such/folder/file", shards, world), hg::CollectiveError);
  CHECK(hg::redistribute<hg::Replicate>(shards).to_host() == before);
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove(path);
}

}  // namespace test_fsdp_checkpoint
