// A classifier from files to a confusion matrix: a narrow ResNet tells sea, land and ice on patches of the Earth's
// relief, whose kinds are those of the land mask and of the white in the Blue Marble; a sector is held out. Batches lie
// in files, of which each rank reads its own piece; the mesh cuts the batch and the rows. Without data it draws
// patches.
//
//   ./dev demo 13_classifier "$(scripts/data)"      or      mpirun -n 4 13_classifier [DATA]
//
// links: halogen::io earth_data
// optimise: 1
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <halogen/halogen.hpp>
#include <halogen/io.hpp>
#include <optional>
#include <string>
#include <vector>

#include "earth_unet/jpeg_reader.hpp"
#include "earth_unet/land_mask.hpp"

constexpr const char* names[] = {"sea", "land", "ice"};
constexpr hg::index_t patches = 8, size = 64;
constexpr int train = 16, held_out = 4;  // batches
using Mesh = hg::Mesh<"data", "height">;
using Images = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;
using Kinds = hg::Sharded<hg::Tensor<std::int64_t, hg::dyn, 1>, Mesh, hg::Shard<0>, hg::Replicate>;
using Net = hg::ResNet<18, 3, 2, 4>;  // three classes, two channels, a sixteenth of the usual width

// A batch's patches, this rank's part of them, row-major, and the kinds of its patches.
struct Part {
  std::vector<float> values;
  std::vector<std::int64_t> kinds;
};

// The whole Earth at a quarter of a degree; patches of 16 degrees.
class Earth {
 public:
  explicit Earth(const std::filesystem::path& data)
      : relief_(earth::read_jpeg(data / "etopo1.jpg", grid, earth::whole(grid))),
        colours_(earth::read_jpeg(data / "bmng.jpg", grid, earth::whole(grid))),
        land_(earth::read_land_fraction(data / "globe_combined_mask_compressed.npz", grid, earth::whole(grid))) {}

  // Two channels of the relief: how bright it is, and how much more red than blue.
  Part part(const Images& images, std::uint64_t batch) const {
    Part part;
    for (hg::index_t n = images.offset(0); n < images.offset(0) + images.local_extent(0); ++n) {
      const auto [kind, y0, x0] = patch(batch * patches + std::uint64_t(n), batch >= std::uint64_t(train));
      part.kinds.push_back(kind);
      for (int channel = 0; channel < 2; ++channel)
        for (hg::index_t y = y0 + images.offset(2); y < y0 + images.offset(2) + images.local_extent(2); ++y)
          for (hg::index_t x = x0; x < x0 + size; ++x) {
            const float red = relief_.at(0, y, x), green = relief_.at(1, y, x), blue = relief_.at(2, y, x);
            part.values.push_back(channel == 0 ? red + green + blue - 1.5f : 2 * (red - blue));
          }
    }
    return part;
  }

 private:
  static constexpr earth::Grid grid{720, 1440};
  static constexpr hg::index_t sector = 1440 / 5;  // of longitudes, held out
  struct Patch {
    std::int64_t kind;
    hg::index_t y, x;
  };

  // Patches are drawn until one is of the kind wanted. Coasts are of none.
  Patch patch(std::uint64_t number, bool held_out_of_training) const {
    const auto wanted = static_cast<std::int64_t>(number % 3);
    for (std::uint64_t draw = 0;; ++draw) {
      const hg::index_t first = held_out_of_training ? 0 : sector, end = held_out_of_training ? sector : grid.width;
      const auto y = static_cast<hg::index_t>(hg::uniform_at(2, number, 2 * draw) * double(grid.height - size));
      const auto x =
          first + static_cast<hg::index_t>(hg::uniform_at(2, number, 2 * draw + 1) * double(end - first - size));
      double land = 0, white = 0;
      for (hg::index_t i = y; i < y + size; i += 4)
        for (hg::index_t j = x; j < x + size; j += 4) {
          land += land_.at(0, i, j) / 256;
          white += std::min({colours_.at(0, i, j), colours_.at(1, i, j), colours_.at(2, i, j)}) > 0.6f ? 1 / 256.0 : 0;
        }
      const std::int64_t kind = white > 0.6 ? 2 : land > 0.7 ? 1 : land < 0.1 ? 0 : -1;
      if (kind == wanted) return {kind, y, x};
    }
  }

  earth::Planes relief_, colours_, land_;
};

// Height and temperature: sea is flat and low, land is rough, ice is cold. Noise and a random height hide it.
Part drawn_part(Images images, std::uint64_t batch) {
  images = hg::cast<float>(hg::randn_like(images, {.seed = 1, .step = batch}));
  Part part{images.to_host(), {}};
  float* value = part.values.data();
  for (hg::index_t n = images.offset(0); n < images.offset(0) + images.local_extent(0); ++n) {
    const auto drawn = [&](std::uint64_t of) { return hg::uniform_at(2, of, batch * patches + std::uint64_t(n)); };
    const auto kind = static_cast<std::int64_t>(3 * drawn(0));
    const double height = drawn(1) - (kind == 0 ? 1.0 : kind == 1 ? 0.0 : 0.5), rough = kind == 0 ? 0.1 : 0.5;
    const double warmth = kind == 2 ? -0.4 - drawn(2) : 0.5 + drawn(2);
    const hg::index_t points = images.local_extent(2) * size;
    for (hg::index_t p = 0; p < points; ++p, ++value) *value = float(height + rough * *value);
    for (hg::index_t p = 0; p < points; ++p, ++value) *value = float(warmth + 0.8 * *value);
    part.kinds.push_back(kind);
  }
  return part;
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {env.world().size() % 2 == 0 ? 2 : 1, -1});
  const auto folder = std::filesystem::temp_directory_path() / ("halogen_kinds_" + std::to_string(mesh.size()));
  if (env.is_root()) std::filesystem::create_directories(folder);
  mesh.world().barrier();
  const auto file = [&](hg::index_t batch) { return folder / ("batch" + std::to_string(batch) + ".safetensors"); };
  const std::optional<Earth> earth = argc > 1 ? std::optional<Earth>(argv[1]) : std::nullopt;
  for (int batch = 0; batch < train + held_out; ++batch) {
    Images images(mesh, {patches, 2, size, size});
    Kinds kinds(mesh, {patches, 1});
    const Part part = earth ? earth->part(images, std::uint64_t(batch)) : drawn_part(images, std::uint64_t(batch));
    images.copy_from_host(part.values);
    kinds.copy_from_host(part.kinds);
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
