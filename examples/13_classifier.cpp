// A classifier from files to a confusion matrix: a narrow ResNet tells sea, land and ice by height and temperature of
// patches. Batches lie in files, of which each rank reads its own piece; the mesh cuts the batch and the rows.
//
//   mpirun -n 4 13_classifier
//
// links: halogen::io
// optimise: 1
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <halogen/halogen.hpp>
#include <halogen/io.hpp>
#include <string>
#include <vector>

enum Kind { sea, land, ice };
constexpr hg::index_t patches = 8, size = 32;
constexpr int train = 12, held_out = 4;  // batches

using Mesh = hg::Mesh<"data", "height">;
using Images = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;
using Kinds = hg::Sharded<hg::Tensor<std::int64_t, hg::dyn, 1>, Mesh, hg::Shard<0>, hg::Replicate>;
using Net = hg::ResNet<18, 3, 2, 4>;  // three classes, two channels, an eighth and less of the usual width

// Height and temperature: sea is flat and low, land is rough, ice is cold. Noise and a random height hide it.
void write_batch(const hg::DeviceMesh<Mesh>& mesh, const std::filesystem::path& file, std::uint64_t batch) {
  Images noise(mesh, {patches, 2, size, size});
  noise = hg::cast<float>(hg::randn_like(noise, {.seed = 1, .step = batch}));
  std::vector<float> values = noise.to_host();
  std::vector<std::int64_t> kinds;
  std::size_t i = 0;
  for (hg::index_t n = noise.offset(0); n < noise.offset(0) + noise.local_extent(0); ++n) {
    const auto at = batch * patches + static_cast<std::uint64_t>(n);
    kinds.push_back(static_cast<std::int64_t>(3 * hg::uniform_at(2, 0, at)));
    const double height = hg::uniform_at(2, 1, at), warmth = hg::uniform_at(2, 2, at);
    const double rough[] = {0.1, 0.6, 0.4}, base[] = {height - 0.8, height - 0.2, height - 0.5},
                 warm[] = {0.6 + warmth, 0.4 + warmth, -0.4 - warmth};
    for (int c = 0; c < 2; ++c)
      for (hg::index_t p = 0; p < noise.local_extent(2) * size; ++p, ++i)
        values[i] = static_cast<float>(c == 0 ? base[kinds.back()] + rough[kinds.back()] * values[i]
                                              : warm[kinds.back()] + 0.8 * values[i]);
  }
  noise.copy_from_host(values);
  Kinds kind(mesh, {patches, 1});
  kind.copy_from_host(kinds);
  hg::save_fields(file, hg::NamedField{"images", noise}, hg::NamedField{"kinds", kind});
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const int data = env.world().size() % 2 == 0 ? 2 : 1;
  auto mesh = hg::device_mesh<Mesh>(env.world(), {data, -1});
  const auto folder = std::filesystem::temp_directory_path() / ("halogen_kinds_" + std::to_string(mesh.size()));
  if (env.is_root()) std::filesystem::create_directories(folder);
  mesh.world().barrier();
  const auto file = [&](hg::index_t batch) { return folder / ("batch" + std::to_string(batch) + ".safetensors"); };
  for (int batch = 0; batch < train + held_out; ++batch) write_batch(mesh, file(batch), static_cast<unsigned>(batch));
  const auto load = [&](hg::index_t batch) {
    return hg::Batch{hg::load_field<Images>(file(batch), "images", mesh),
                     hg::load_field<Kinds>(file(batch), "kinds", mesh)};
  };
  const auto test = hg::batches(held_out, [&](hg::index_t i) { return load(train + i); });

  hg::Trainer trainer(Net{}, hg::AdamW{.lr = 3e-3, .schedule = hg::cosine_rate(8 * train, {.warmup = 4})}, mesh,
                      {.seed = 3, .groups = {hg::without_decay()}});
  const auto history = hg::fit(trainer, hg::cross_entropy, hg::batches(train, load),
                               {.epochs = 8, .evaluate_every = 4, .metrics = folder / "metrics.jsonl"}, test);

  std::array<std::array<int, 3>, 3> confusion{};  // [what it is][what it is taken for]
  for (int batch = 0; batch < held_out; ++batch) {
    const auto [images, kinds, none] = test[batch];
    const std::vector<float> scores = hg::full_tensor(trainer.predict(images));
    const std::vector<std::int64_t> truth = hg::full_tensor(kinds);
    for (std::size_t n = 0; n < truth.size(); ++n)
      ++confusion[static_cast<std::size_t>(truth[n])]
                 [static_cast<std::size_t>(std::max_element(&scores[3 * n], &scores[3 * n] + 3) - &scores[3 * n])];
  }
  const int right = confusion[sea][sea] + confusion[land][land] + confusion[ice][ice];
  if (env.is_root()) {
    std::printf("          sea land  ice   (taken for)\n");
    for (int k = 0; k < 3; ++k)
      std::printf("%-6s %6d%5d%5d\n",
                  k == sea    ? "sea"
                  : k == land ? "land"
                              : "ice",
                  confusion[k][0], confusion[k][1], confusion[k][2]);
    std::printf("held-out loss %.4f, %d of %d right\n", *history.back().held_out, right, held_out * int(patches));
  }
  if (right < 0.8 * held_out * patches) throw hg::CollectiveError("it did not learn");
}
