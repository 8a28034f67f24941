// A classifier from files to a confusion matrix: a narrow ResNet tells sea, land and ice on patches of the Earth's
// relief, whose kinds are those of the land mask and of the white in the Blue Marble; a sector is held out. Batches lie
// in files, of which each rank reads its own piece; the mesh cuts the batch and the rows. Without data it draws
// patches.
//
//   ./dev demo 13_classifier "$(scripts/data)"      or      mpirun -n 4 13_classifier [DATA [FOLDER]]
//
// links: halogen::io earth_data
// optimise: 1
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <halogen/files.hpp>
#include <halogen/halogen.hpp>
#include <string>
#include <vector>

#include "earth_unet/patches.hpp"

constexpr const char* names[] = {"sea", "land", "ice"};
constexpr hg::index_t patches = 8, size = 64;
constexpr int train = 16, held_out = 4;  // batches
using Mesh = hg::Mesh<"data", "height">;
using Images = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;
using Kinds = hg::Sharded<hg::Tensor<std::int64_t, hg::dyn, 1>, Mesh, hg::Shard<0>, hg::Replicate>;
using Net = hg::ResNet<18, 3, 2, 4>;  // three classes, two channels, a sixteenth of the usual width

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {env.world().size() % 2 == 0 ? 2 : 1, -1});
  const std::filesystem::path folder = argc > 2 ? argv[2] : "output/classifier_" + std::to_string(mesh.size());
  if (std::error_code none; env.is_root()) std::filesystem::create_directories(folder, none);  // save_fields tells
  mesh.world().barrier();
  const auto file = [&](hg::index_t batch) { return folder / ("batch" + std::to_string(batch) + ".safetensors"); };
  const earth::Patches earth = argc > 1 ? earth::Patches(argv[1]) : earth::Patches();
  for (int batch = 0; batch < train + held_out; ++batch) {
    Images images(mesh, {patches, 2, size, size});
    Kinds kinds(mesh, {patches, 1});
    std::vector<float> values;  // of this rank: rows of its patches
    std::vector<std::int64_t> truth;
    for (hg::index_t n = images.offset(0); n < images.offset(0) + images.local_extent(0); ++n) {
      const auto number = std::uint64_t(batch * patches + n);
      truth.push_back(std::int64_t(number % 3));
      earth.append(values, {int(number % 3), batch >= train, size, images.offset(2), images.local_extent(2)},
                   [&](std::uint64_t of) { return hg::uniform_at(2, of, number); });
    }
    images.copy_from_host(values);
    kinds.copy_from_host(truth);
    hg::save_fields(file(batch), hg::NamedField{"images", images}, hg::NamedField{"kinds", kinds});
  }
  const auto load = [&](hg::index_t i) {
    return hg::Batch{hg::load_field<Images>(file(i), "images", mesh), hg::load_field<Kinds>(file(i), "kinds", mesh)};
  };
  const auto test = hg::batches(held_out, [&](hg::index_t i) { return load(train + i); });
  hg::Trainer trainer(Net{}, hg::AdamW{.lr = 1e-2, .schedule = hg::cosine_rate(4 * train, {.warmup = 4})}, mesh,
                      {.seed = 3, .groups = {hg::without_decay()}});
  const hg::FitOptions options{.epochs = 4, .evaluate_every = 4, .metrics = folder / "metrics.jsonl"};
  const auto history = hg::fit(trainer, hg::cross_entropy, hg::batches(train, load), options, test);
  int confusion[3][3] = {}, right = 0;  // [what it is][what it is taken for]
  for (int batch = 0; batch < held_out; ++batch) {
    const auto [images, kinds, none] = test[batch];
    const std::vector<float> scores = hg::full_tensor(trainer.predict(images));
    const std::vector<std::int64_t> truth = hg::full_tensor(kinds);
    for (std::size_t n = 0; n < truth.size(); ++n)
      ++confusion[truth[n]][std::max_element(&scores[3 * n], &scores[3 * n] + 3) - &scores[3 * n]];
  }
  for (int k = 0; k < 3; ++k) {
    right += confusion[k][k];
    if (env.is_root())
      std::printf("%-5s taken for sea %3d, land %3d, ice %3d\n", names[k], confusion[k][0], confusion[k][1],
                  confusion[k][2]);
  }
  if (env.is_root())
    std::printf("held-out loss %.4f, %d of %d right\n", *history.back().held_out, right, held_out * int(patches));
  if (right < 0.7 * held_out * patches) throw hg::CollectiveError("it did not learn");
}
