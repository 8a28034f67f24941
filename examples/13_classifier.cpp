// A classifier from files to a confusion matrix: a narrow ResNet tells sea, land and ice by height and temperature of
// patches. Batches lie in files, of which each rank reads its own piece; the mesh cuts the batch and the rows.
//
//   mpirun -n 4 13_classifier
//
// links: halogen::io
// optimise: 1
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <halogen/halogen.hpp>
#include <halogen/io.hpp>
#include <string>
#include <vector>

constexpr const char* names[] = {"sea", "land", "ice"};
constexpr hg::index_t patches = 8, size = 64;
constexpr int train = 16, held_out = 4;  // batches
using Mesh = hg::Mesh<"data", "height">;
using Images = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;
using Kinds = hg::Sharded<hg::Tensor<std::int64_t, hg::dyn, 1>, Mesh, hg::Shard<0>, hg::Replicate>;
using Net = hg::ResNet<18, 3, 2, 4>;  // three classes, two channels, a sixteenth of the usual width

// Height and temperature: sea is flat and low, land is rough, ice is cold. Noise and a random height hide it.
void write_batch(const hg::DeviceMesh<Mesh>& mesh, const std::filesystem::path& file, std::uint64_t batch) {
  Images images(mesh, {patches, 2, size, size});
  images = hg::cast<float>(hg::randn_like(images, {.seed = 1, .step = batch}));
  std::vector<float> values = images.to_host();
  std::vector<std::int64_t> kinds;
  float* value = values.data();
  for (hg::index_t n = images.offset(0); n < images.offset(0) + images.local_extent(0); ++n) {
    const auto drawn = [&](std::uint64_t of) { return hg::uniform_at(2, of, batch * patches + std::uint64_t(n)); };
    const auto kind = static_cast<std::int64_t>(3 * drawn(0));
    const double height = drawn(1) - (kind == 0 ? 1.0 : kind == 1 ? 0.0 : 0.5), rough = kind == 0 ? 0.1 : 0.5;
    const double warmth = kind == 2 ? -0.4 - drawn(2) : 0.5 + drawn(2);
    const hg::index_t points = images.local_extent(2) * size;
    for (hg::index_t p = 0; p < points; ++p, ++value) *value = float(height + rough * *value);
    for (hg::index_t p = 0; p < points; ++p, ++value) *value = float(warmth + 0.8 * *value);
    kinds.push_back(kind);
  }
  images.copy_from_host(values);
  Kinds field(mesh, {patches, 1});
  field.copy_from_host(kinds);
  hg::save_fields(file, hg::NamedField{"images", images}, hg::NamedField{"kinds", field});
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {env.world().size() % 2 == 0 ? 2 : 1, -1});
  const auto folder = std::filesystem::temp_directory_path() / ("halogen_kinds_" + std::to_string(mesh.size()));
  if (env.is_root()) std::filesystem::create_directories(folder);
  mesh.world().barrier();
  const auto file = [&](hg::index_t batch) { return folder / ("batch" + std::to_string(batch) + ".safetensors"); };
  for (int batch = 0; batch < train + held_out; ++batch) write_batch(mesh, file(batch), std::uint64_t(batch));
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
