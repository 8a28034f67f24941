// ranks: 1 3 8
// program: field_files
// Zarr arrays: what zarr-python and xarray have written (tests/reference/make_zarr_references.py), whole and by box, by
// every codec, version and kind of shard; what is not read; pieces of fields; a dataset of a time series,
// whose samples have the same bits on every mesh, of which each rank reads its chunks and no other.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <halogen/io/field_dataset.hpp>
#include <halogen/io/zarr_writer.hpp>
#include <random>

#include "support/full_disk.hpp"
#include "support/meshes.hpp"
#include "support/reference_files.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_zarr_files {

namespace {

namespace fs = std::filesystem;
using hg::index_t;

const fs::path& folder() {
  static const fs::path path =
      fs::temp_directory_path() / ("halogen_zarr_" + support::run_name(support::world().size()));
  return path;
}

struct Stores : support::ReferenceFiles {
  Stores() : support::ReferenceFiles("zarr.json", folder()) {}
};

double value(index_t t, index_t i, index_t j) { return static_cast<double>(35 * t + 7 * i + j - 20); }

/// An array of float64 without compression in a store of version 3, written out here: value_of(index) at each point.
template <class F>
void write_plain(const fs::path& store, const std::string& name, const std::vector<index_t>& shape,
                 const std::vector<index_t>& chunk, F value_of) {
  fs::create_directories(store / name);
  nlohmann::json about{
      {"zarr_format", 3}, {"node_type", "array"}, {"shape", shape}, {"data_type", "float64"}, {"fill_value", 0}};
  about["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", chunk}}}};
  about["chunk_key_encoding"] = {{"name", "default"}, {"configuration", {{"separator", "/"}}}};
  about["codecs"] = {{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}};
  std::ofstream(store / name / "zarr.json") << about;
  const hg::detail::PointBox all{std::vector<index_t>(shape.size(), 0), shape};
  hg::detail::for_each_chunk(all, chunk, [&](const std::vector<index_t>& at) {
    std::string key = "c";
    hg::detail::PointBox box{at, chunk};
    for (std::size_t d = 0; d < at.size(); ++d) key += "/" + std::to_string(at[d]), box.begin[d] *= chunk[d];
    std::vector<double> values;
    hg::detail::for_each_chunk(box, std::vector<index_t>(shape.size(), 1), [&](const std::vector<index_t>& point) {
      bool inside = true;
      for (std::size_t d = 0; d < shape.size(); ++d) inside = inside && point[d] < shape[d];
      values.push_back(inside ? value_of(point) : -1e9);
    });
    fs::create_directories((store / name / key).parent_path());
    std::ofstream(store / name / key, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(double)));
  });
}

}  // namespace

TEST_CASE("what zarr-python has written, whole and by box") {
  const Stores stores;
  const hg::Communicator world = support::world();
  std::mt19937 bits(static_cast<unsigned>(world.rank()));
  int arrays = 0;
  for (const std::string version : {"v2", "v3"})
    for (const fs::directory_entry& entry : fs::directory_iterator(folder() / version)) {
      if (!entry.is_directory()) continue;
      const std::string name = entry.path().filename();
      CAPTURE(version);
      CAPTURE(name);
      ++arrays;
      const hg::ZarrArray array(folder() / version, name);
      REQUIRE(array.shape() == std::vector<index_t>{2, 5, 7});
      CHECK(array.chunks() == std::vector<index_t>{1, 3, 4});
      const auto expected = [&](index_t t, index_t i, index_t j) {
        if (name == "hole" && t == 1) return std::numeric_limits<double>::quiet_NaN();
        if (name == "shards_in_part" && (t == 0 || i >= 3)) return -7.0;
        const double number = value(t, i, j);
        return name == "uint8" && number < 0 ? number + 256 : number;
      };
      bool right = true;
      for (int round = 0; round < 8; ++round) {
        std::vector<index_t> begin(3), extent = array.shape();
        for (std::size_t d = 0; d < 3 && round > 0; ++d) {
          begin[d] = static_cast<index_t>(bits() % static_cast<unsigned>(array.shape()[d]));
          extent[d] = static_cast<index_t>(bits() % static_cast<unsigned>(array.shape()[d] - begin[d])) + 1;
        }
        std::vector<float> narrow(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]), -1e9f);
        std::vector<double> wide(narrow.size(), -1e9);
        array.read(begin, extent, narrow.data());
        array.read(begin, extent, wide.data());
        std::size_t k = 0;
        for (index_t t = begin[0]; t < begin[0] + extent[0]; ++t)
          for (index_t i = begin[1]; i < begin[1] + extent[1]; ++i)
            for (index_t j = begin[2]; j < begin[2] + extent[2]; ++j, ++k) {
              const double number = expected(t, i, j);
              right = right && (wide[k] == number || (std::isnan(wide[k]) && std::isnan(number))) &&
                      (narrow[k] == static_cast<float>(number) || (std::isnan(narrow[k]) && std::isnan(number)));
            }
      }
      CHECK(right);
    }
  CHECK(arrays == 39);
}

TEST_CASE("scale, offset and missing numbers, as xarray writes them") {
  const Stores stores;
  for (const std::string version : {"2", "3"})
    for (const std::string type : {"int16", "float32"}) {
      CAPTURE(version);
      CAPTURE(type);
      const hg::ZarrArray array(support::world(), folder() / ("cf" + version + "_" + type), "t2m");
      CHECK(array.dimension_names() == std::vector<std::string>{"time", "lat", "lon"});
      CHECK(array.attributes()["units"] == "K");
      std::vector<double> all(70);
      array.read({0, 0, 0}, {2, 5, 7}, all.data());
      bool right = true;
      for (index_t t = 0, k = 0; t < 2; ++t)
        for (index_t i = 0; i < 5; ++i)
          for (index_t j = 0; j < 7; ++j, ++k)
            right =
                right && (t == 1 && i == 2 && j == 3 ? std::isnan(all[static_cast<std::size_t>(k)])
                                                     : all[static_cast<std::size_t>(k)] == 0.5 * value(t, i, j) + 3);
      CHECK(right);
    }
}

TEST_CASE("what is not read or not there is refused by name") {
  const Stores stores;
  const hg::Communicator world = support::world();
  const auto said = [&](const std::string& store, const std::string& name) {
    return support::refusal<hg::CollectiveError>([&] { hg::ZarrArray(world, folder() / store, name); });
  };
  const auto of = [](const std::string& store, const std::string& name) {
    return "cannot read '" + name + "' of '" + (folder() / store).string() + "': ";
  };
  CHECK(said("v3", "nothing") ==
        of("v3", "nothing") +
            "the store has no array of that name (no zarr.json or .zarray): give the name of one that it has");
  CHECK(said("nowhere", "a") == of("nowhere", "a") + "there is no such folder: give the path of a store that is there");
  CHECK(said("other", "complex") ==
        of("other", "complex") + "numbers of type 'complex64' are not read: store float32, float64, or integers");
  CHECK(said("other", "fortran") ==
        of("other", "fortran") + "its chunks are in the order of Fortran, which is not read: store them in that of C");
  CHECK(said("other", "filtered") == of("other", "filtered") + "it has filters, which are not read: store it without");
  const hg::ZarrArray array(world, folder() / "v3", "float32");
  float out;
  CHECK(support::refusal([&] {
          array.read({0, 0, 7}, {1, 1, 1}, &out);
        }) ==
        of("v3", "float32") + "points (0 x 0 x 7) and (1 x 1 x 1) from there on are asked for, but it is (2 x 5 x 7)");
  support::Field<float, 1> unmade;
  const auto given_unmade = [](auto f) { return support::refusal<hg::CollectiveError>(f).substr(0, 25); };
  CHECK(given_unmade([&] { hg::save_zarr(folder() / "never", "u", unmade); }) == "save_zarr is given a fiel");
  CHECK(given_unmade([&] { hg::load_variable(array, unmade); }) == "load_variable is given a ");
  CHECK(given_unmade([&] { hg::read_piece(array, unmade, {}, {}); }) == "read_piece is given a fie");
  CHECK(!fs::exists(folder() / "never"));
}

TEST_CASE("pieces of a field") {
  const Stores stores;
  const hg::Communicator world = support::world();
  const hg::ZarrArray array(world, folder() / "v2", "blosc_zstd_1");
  for (const auto& mesh : support::meshes(1)) {
    support::Field<float, 1> field(mesh, {1, 1, 5, 7});
    hg::load_variable(array, field, {1});
    const auto all = hg::full_tensor(field);
    bool right = true;
    for (index_t k = 0; k < 35; ++k)
      right = right && all[static_cast<std::size_t>(k)] == static_cast<float>(value(1, k / 7, k % 7));
    CHECK(right);
    CHECK(support::refusal<hg::CollectiveError>([&] { hg::load_variable(array, field); }) ==
          "load_variable: 'blosc_zstd_1' is (2 x 5 x 7), 0 indices are given, but the field is (1 x 1 x 5 x 7)");
  }
}

TEST_CASE("long rows of plain numbers are read without the rest of their chunk") {
  const Stores stores;
  const hg::Communicator world = support::world();
  using Wide = support::Field<float, 1>;
  const std::array<index_t, 4> extents{1, 1, 13, 5000};
  const auto values = support::numbers<float>(13 * 5000, 8);
  const auto rows = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  hg::save_zarr(folder() / "wide.zarr", "a", hg::distribute_tensor<Wide>(rows, extents, values),
                {.chunks = {1, 1, 4, 2600}, .compression = hg::ZarrCompression::none});
  for (const auto& mesh : support::meshes(1)) {
    const hg::ZarrArray array(world, folder() / "wide.zarr", "a");
    Wide field(mesh, extents);
    hg::load_variable(array, field);
    CHECK(std::ranges::equal(hg::full_tensor(field), values));
    const auto own = hg::detail::piece_box(field, mesh.rank());
    if (mesh.extent(2) == 1) CHECK(array.bytes_read() == static_cast<std::uint64_t>(own.points()) * sizeof(float));
  }
}

TEST_CASE("a dataset: samples of a series, on every mesh with the same bits, each rank its own chunks") {
  const Stores stores;
  const hg::Communicator world = support::world();
  const fs::path store = folder() / "series.zarr";
  constexpr index_t times = 12, levels = 2, height = 13, width = 11;
  const auto h = [](index_t t, index_t y, index_t x) {
    return std::sin(0.7 * static_cast<double>(t)) + 0.1 * static_cast<double>(y * x % 17);
  };
  const auto z = [](index_t t, index_t level, index_t y, index_t x) {
    return static_cast<double>(100 * level) + static_cast<double>((t * 5 + y * 3 + x) % 19);
  };
  const auto land = [](index_t y, index_t x) { return static_cast<double>((y + x) % 2); };
  if (world.rank() == 0) {
    write_plain(store, "h", {times, height, width}, {1, 5, 4}, [&](const auto& at) {
      return at[0] == 6 && at[1] == 4 && at[2] == 5 ? std::nan("") : h(at[0], at[1], at[2]);
    });
    write_plain(store, "z", {times, levels, height, width}, {2, 1, 13, 3},
                [&](const auto& at) { return z(at[0], at[1], at[2], at[3]); });
    write_plain(store, "land", {height, width}, {13, 11}, [&](const auto& at) { return land(at[0], at[1]); });
  }
  world.barrier();
  using Image = support::Field<double, 8>;  // two times of h and two levels of z, land, and the mask
  using Label = support::Field<double, 1>;
  using Mask = support::Field<double, 1>;
  const hg::FieldDatasetOptions options{.inputs = {"h", "z"},
                                        .targets = {"h"},
                                        .statics = {"land"},
                                        .input_times = {-1, 0},
                                        .target_times = {1},
                                        .input_mask = true,
                                        .samples = 3,
                                        .seed = 11};
  std::vector<std::vector<double>> images, labels;
  for (const auto& mesh : support::meshes(3)) {
    CAPTURE(support::text(mesh));
    const hg::FieldDataset<Image, Label, Mask> data(hg::ZarrStore(store), mesh, options);
    REQUIRE(data.size() == 3);  // 10 samples
    const auto& of_h = data.statistics("h");
    const auto& of_z = data.statistics("z");
    CHECK(of_z.mean[1] - of_z.mean[0] == doctest::Approx(100));
    std::vector<bool> seen(times);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::uint64_t before = data.bytes_read();
      if (i > 0) data.prefetch(i);
      const auto batch = data[i];
      const auto image = hg::full_tensor(batch.x), label = hg::full_tensor(batch.y),
                 mask = hg::full_tensor(batch.weight);
      bool right = true;
      std::size_t k = 0;
      for (const index_t t : data.times(i)) {
        seen[static_cast<std::size_t>(t)] = true;
        const auto number = [&](double stored, double mean, double deviation) {
          return std::isnan(stored) ? 0 : (stored - mean) / deviation;
        };
        const auto is_missing = [](index_t time, index_t y, index_t x) { return time == 6 && y == 4 && x == 5; };
        const auto h_at = [&](index_t time, index_t y, index_t x) {
          return number(is_missing(time, y, x) ? std::nan("") : h(time, y, x), of_h.mean[0], of_h.deviation[0]);
        };
        for (int c = 0; c < 8; ++c)
          for (index_t y = 0; y < height; ++y)
            for (index_t x = 0; x < width; ++x, ++k) {
              const index_t time = t - (c < 3 ? 1 : 0);
              const auto level = static_cast<std::size_t>(c % 3 - 1);
              const double expected =
                  c == 7   ? (is_missing(t - 1, y, x) || is_missing(t, y, x) ? 0 : 1)
                  : c == 6 ? number(land(y, x), data.statistics("land").mean[0], data.statistics("land").deviation[0])
                  : c % 3 == 0 ? h_at(time, y, x)
                               : number(z(time, c % 3 - 1, y, x), of_z.mean[level], of_z.deviation[level]);
              right = right && image[k] == expected;
            }
        for (index_t y = 0; y < height; ++y)
          for (index_t x = 0; x < width; ++x) {
            const std::size_t at =
                (k / 8) - static_cast<std::size_t>(height * width) + static_cast<std::size_t>(y * width + x);
            right = right && label[at] == h_at(t + 1, y, x) && mask[at] == (is_missing(t + 1, y, x) ? 0 : 1);
          }
      }
      CHECK(right);
      if (images.size() <= i) {
        images.push_back({image.begin(), image.end()});
        labels.push_back({label.begin(), label.end()});
      } else {
        CHECK(std::equal(image.begin(), image.end(), images[i].begin()));
        CHECK(std::equal(label.begin(), label.end(), labels[i].begin()));
      }
      // the chunks that this rank's box touches, of h (three times) and z (two), and no other
      const Image piece(mesh, {3, 8, height, width});
      const auto own = [&](int d) { return piece.cut(d).piece(piece.decomposition().part(mesh.rank(), d)); };
      const auto touched = [](hg::Interval box, index_t chunk) {
        return box.empty() ? 0 : (box.end - 1) / chunk - box.begin / chunk + 1;
      };
      const index_t samples = own(0).empty() ? 0 : own(0).size();
      const index_t of_one =
          3 * touched(own(2), 5) * touched(own(3), 4) * 20 + 2 * levels * touched(own(2), 13) * touched(own(3), 3) * 78;
      const bool has_points = !own(2).empty() && !own(3).empty();
      CHECK(data.bytes_read() - before == static_cast<std::uint64_t>(has_points ? 8 * samples * of_one : 0));
    }
    CHECK(std::ranges::count(seen, true) == 9);
    CHECK(data.seconds()[0] > 0);
  }
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  using Short = support::Field<double, 6>;
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::FieldDataset<Short, Label>(hg::ZarrStore(store), mesh, options);
        }) == "FieldDataset: inputs make 8 channels and targets 1, but the fields have 6 and 1");
  const hg::FieldDataset<Image, Label> no_mask(hg::ZarrStore(store), mesh, options);
  const std::string sentence = support::refusal<hg::CollectiveError>([&] {
    for (std::size_t i = 0; i < 3; ++i) no_mask[i];
  });
  CHECK(sentence ==
        "FieldDataset: a target misses numbers at time 5: name a third field, the mask, FieldDataset<Image, Label, "
        "Mask>");
  if (world.size() == 1) {  // mean and deviation of what is there
    double sum = 0, squares = 0;
    for (index_t t = 0; t < times; ++t)
      for (index_t k = 0; k < height * width; ++k) sum += z(t, 1, k / width, k % width);
    const double mean = sum / static_cast<double>(times * height * width);
    for (index_t t = 0; t < times; ++t)
      for (index_t k = 0; k < height * width; ++k) squares += std::pow(z(t, 1, k / width, k % width) - mean, 2);
    CHECK(no_mask.statistics("z").mean[1] == doctest::Approx(mean).epsilon(1e-12));
    CHECK(no_mask.statistics("z").deviation[1] ==
          doctest::Approx(std::sqrt(squares / static_cast<double>(times * height * width))).epsilon(1e-12));
  }
}

TEST_CASE("fields come back, whatever the cut, the chunks and the shards; no two ranks write one file") {
  const Stores stores;
  const hg::Communicator world = support::world();
  const fs::path store = folder() / "written.zarr";
  std::mt19937 bits(5);
  const auto below = [&](index_t n) { return static_cast<index_t>(bits() % static_cast<unsigned>(n)); };
  using Series = support::Field<float, 2>;
  using Copies = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, support::Mesh, hg::Replicate,
                             hg::Shard<3>, hg::Replicate>;
  int number = 0;
  for (const auto& mesh : support::meshes(3))
    for (int round = 0; round < (world.size() == 8 ? 15 : 6); ++round) {  // of 8 writers 100 files and more
      const std::array<index_t, 4> extents{3, 2, 1 + below(14), 1 + below(14)};
      hg::ZarrOptions options{.compression = static_cast<hg::ZarrCompression>(round % 4),
                              .dimension_names = {"time", "channel", "lat", "lon"}};
      if (round > 0)
        for (int d = 0; d < 4; ++d) {
          options.chunks.push_back(1 + below(extents[static_cast<std::size_t>(d)]));
          if (round % 2 == 0) options.shards.push_back(options.chunks.back() * (1 + below(3)));
        }
      CAPTURE(support::text(mesh));
      CAPTURE(hg::detail::text_of(extents));
      CAPTURE(hg::detail::text_of(options.chunks));
      CAPTURE(hg::detail::text_of(options.shards));
      const std::string name = "a" + std::to_string(++number);
      const auto count = static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]);
      const auto values = support::numbers<float>(count, static_cast<unsigned>(number));
      const auto field = hg::distribute_tensor<Series>(mesh, extents, values);
      hg::save_zarr(store, name, field, options);
      const hg::ZarrArray array(world, store, name);
      std::vector<float> all(count);
      array.read({0, 0, 0, 0}, {extents.begin(), extents.end()}, all.data());
      CHECK(std::equal(all.begin(), all.end(), values.begin()));
      if (round == 0) {  // of ranks that hold the same points one writes them
        hg::save_zarr(store, name + "_copies", hg::distribute_tensor<Copies>(mesh, extents, values), options);
        hg::ZarrArray(world, store, name + "_copies").read({0, 0, 0, 0}, {extents.begin(), extents.end()}, all.data());
        CHECK(std::equal(all.begin(), all.end(), values.begin()));
      }
      // whatever the cut, of what is compressed each chunk is read by one rank
      std::uint64_t stored = 0;
      for (const auto& file : fs::recursive_directory_iterator(store / name))
        if (file.is_regular_file() && file.path().filename() != "zarr.json") stored += file.file_size();
      const auto check_read = [&](auto again) {
        const std::uint64_t before = array.bytes_read();
        hg::load_variable(array, again);
        CHECK(std::ranges::equal(hg::full_tensor(again), values));
        auto bytes = static_cast<std::int64_t>(array.bytes_read() - before);
        world.all_reduce(&bytes, 1);
        if (options.shards.empty() && options.compression != hg::ZarrCompression::none)
          CHECK(static_cast<std::uint64_t>(bytes) == stored);
      };
      check_read(Series(mesh, extents));
      check_read(Copies(mesh, extents));
      world.barrier();
    }
  // as a run goes on: times one by one
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 1, -1});
  const hg::ZarrSeries<Series> series(store, "series", mesh, {4, 2, 9, 7});
  for (index_t t = 0; t < 4; ++t)
    series.write(
        t, hg::distribute_tensor<Series>(mesh, {1, 2, 9, 7}, support::numbers<float>(126, static_cast<unsigned>(t))));
  const hg::ZarrArray array(world, store, "series");
  for (index_t t = 0; t < 4; ++t) {
    std::vector<float> all(126);
    array.read({t, 0, 0, 0}, {1, 2, 9, 7}, all.data());
    CHECK(all == support::numbers<float>(126, static_cast<unsigned>(t)));
  }
  const auto said = [&](auto f) { return support::refusal<hg::CollectiveError>(f); };
  const std::string path = "cannot write '" + (store / "series").string() + "': ";
  CHECK(said([&] {
          series.write(4, Series(mesh, {1, 2, 9, 7}));
        }) ==
        path +
            "a field of (1 x 2 x 9 x 7) at 4, but the array has (4 x 2 x 9 x 7): give a field of its extents and mesh");
  CHECK(said([&] {
          hg::ZarrSeries<Series>(store, "by_two", mesh, {4, 2, 9, 7}, {.chunks = {2, 2, 9, 7}})
              .write(1, Series(mesh, {1, 2, 9, 7}));
        }) == "cannot write '" + (store / "by_two").string() +
                  "': points 1 to 2 of its first dimension fill no whole files of 2: write as many at once, or give "
                  "chunks of 1 there");
  CHECK(said([&] {
          hg::save_zarr(store, "series", Series(mesh, {1, 2, 9, 7}), {.chunks = {1, 2, 9}});
        }) == path + "give as many chunks, shards and names as the field has dimensions, 4");
  // a link stays, and a file is not replaced
  const Series zeros(mesh, {1, 2, 9, 7});
  if (world.rank() == 0) {
    fs::create_directory(folder() / "elsewhere");
    fs::create_directory_symlink(folder() / "elsewhere", store / "linked");
    std::ofstream(store / "file") << "kept";
  }
  world.barrier();
  hg::save_zarr(store, "linked", zeros);
  CHECK(fs::is_symlink(store / "linked"));
  CHECK(fs::exists(folder() / "elsewhere" / "zarr.json"));
  CHECK(said([&] { hg::save_zarr(store, "file", zeros); }).find("is no folder") != std::string::npos);
  CHECK(fs::is_regular_file(store / "file"));
}

namespace {

using Small = support::Field<float, 2>;
constexpr std::array<index_t, 4> small{1, 2, 6, 5};

/// f() by rank 0, seen by all.
template <class F>
void on_root(F f) {
  support::world().barrier();
  if (support::world().rank() == 0) f();
  support::world().barrier();
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Small field_of(const hg::DeviceMesh<support::Mesh>& mesh, unsigned seed) {
  return hg::distribute_tensor<Small>(mesh, small, support::numbers<float>(60, seed));
}

/// Whether an array holds field_of(mesh, seed), and nothing of an unfinished write lies in its folder.
bool holds(const fs::path& store, const std::string& name, unsigned seed) {
  std::vector<float> all(60);
  hg::ZarrArray(support::world(), store, name).read({0, 0, 0, 0}, {small.begin(), small.end()}, all.data());
  bool hidden = false;
  for (const auto& entry : fs::recursive_directory_iterator(store / name))
    hidden = hidden || entry.path().filename().string().starts_with(".");
  support::world().barrier();
  return !hidden && all == support::numbers<float>(60, seed);
}

/// What f() throws on all ranks, without the path.
template <class F>
std::string said_of(const fs::path& path, F f) {
  const std::string said = support::refusal<hg::CollectiveError>(f), begin = "cannot write '" + path.string() + "': ";
  return said.starts_with(begin) ? said.substr(begin.size()) : "otherwise: " + said;
}

}  // namespace

TEST_CASE("a name that leads elsewhere is refused, and nothing is removed") {
  const Stores stores;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const fs::path store = folder() / "kept.zarr";
  hg::save_zarr(store, "a", field_of(mesh, 1));
  hg::save_zarr(store, "deep/er/a", field_of(mesh, 2));
  on_root([&] {
    std::ofstream(store / "mine") << "kept";
    fs::create_directories(store / "folder" / "c");
    std::ofstream(store / "folder" / "mine") << "kept";
    std::ofstream(store / "a" / "mine") << "kept";
  });
  const std::string absolute = (folder() / "kept.zarr" / "a").string();
  for (const std::string& name :
       std::vector<std::string>{"", ".", "..", absolute, "a/", "deep/../a", "deep//a", ".hidden", "zarr.json"}) {
    CAPTURE(name);
    CHECK(said_of(store / name, [&] { hg::save_zarr(store, name, field_of(mesh, 3)); }) ==
          "'" + name +
              "' is no name of an array in a store: give words with slashes between them, of which none is empty, "
              "begins with a dot or is zarr.json");
    CHECK(support::refusal([&] { hg::save_zarr_coordinate(store, name, {1}); }).find("is no name of") !=
          std::string::npos);
  }
  for (const char* group : {"deep", "deep/er"})
    CHECK(said_of(store / group, [&] { hg::save_zarr(store, group, field_of(mesh, 3)); }) ==
          "'" + (store / group).string() + "' is a group, which may hold arrays: give the array another name");
  CHECK(said_of(store / "folder", [&] { hg::save_zarr(store, "folder", field_of(mesh, 3)); }) ==
        "'" + (store / "folder").string() +
            "' is a folder with something else than an array: remove it, or give the array another name");
  CHECK(said_of(store / "a/b", [&] { hg::save_zarr(store, "a/b", field_of(mesh, 3)); }) ==
        "'" + (store / "a").string() + "' is an array, which holds no others: give another name");
  CHECK(text_of(store / "folder" / "mine") == "kept");
  CHECK(holds(store, "a", 1));
  CHECK(holds(store, "deep/er/a", 2));
  hg::save_zarr(store, "a", field_of(mesh, 3), {.chunks = {1, 1, 6, 5}});
  CHECK(holds(store, "a", 3));
  CHECK(text_of(store / "a" / "mine") == "kept");
  CHECK(text_of(store / "mine") == "kept");
}

TEST_CASE("what fails, fails before the older array goes") {
  const Stores stores;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const fs::path store = folder() / "older.zarr";
  hg::save_zarr(store, "a", field_of(mesh, 1));
  const auto said = [&](const hg::ZarrOptions& options) {
    const std::string sentence = said_of(store / "a", [&] { hg::save_zarr(store, "a", field_of(mesh, 2), options); });
    CHECK(holds(store, "a", 1));
    CHECK(said_of(store / "a", [&] { hg::ZarrSeries<Small>(store, "a", mesh, small, options); }) == sentence);
    CHECK(holds(store, "a", 1));
    return sentence;
  };
  CHECK(said({.attributes = {{"units", "\xff"}}}) == "a text in it is not UTF-8");
  CHECK(said({.attributes = nlohmann::ordered_json::array()}) == "its attributes are no object");
  CHECK(said({.attributes = {{"_FillValue", "none"}}}) ==
        "its _FillValue is \"none\", which is not a number of float32: correct it, or leave it out");
  CHECK(said({.level = 40}) == "a level of compression of 40: give one from -131072 to 22");
  CHECK(said({.compression = hg::ZarrCompression::gzip, .level = 10}) ==
        "a level of compression of 10: give one from 0 to 9");
  CHECK(said({.chunks = {1, 1, 1 << 15, 1 << 15}, .compression = hg::ZarrCompression::blosc})
            .starts_with("a chunk of 4294967296 bytes, but blosc takes at most 21474"));
  const std::string too_large = "a file there may not be so large, by its file system or by the limit of this process";
  {  // the chunks have space, the metadata do not
    const support::FullDisk full(400);
    CHECK(said_of(store / "a", [&] { hg::save_zarr(store, "a", field_of(mesh, 2)); }).starts_with(too_large));
  }
  CHECK(holds(store, "a", 1));
  {  // neither has
    const support::FullDisk full(20);
    CHECK(said_of(store / "a", [&] {
            hg::save_zarr(store, "a", field_of(mesh, 2), {.compression = hg::ZarrCompression::none});
          }).starts_with("otherwise: cannot write '" + (store / "a" / ".partial" / "c").string()));
    on_root([&] {
      CHECK(support::refusal([&] { hg::save_zarr_coordinate(store, "a", {1}); }).find(too_large) != std::string::npos);
    });
  }
  CHECK(holds(store, "a", 1));
  {  // of a series the older chunk stays
    const hg::ZarrSeries<Small> series(store, "s", mesh, small, {.compression = hg::ZarrCompression::none});
    series.write(0, field_of(mesh, 4));
    const support::FullDisk full(20);
    CHECK(support::refusal<hg::CollectiveError>([&] { series.write(0, field_of(mesh, 5)); }).find(too_large) !=
          std::string::npos);
  }
  CHECK(holds(store, "s", 4));
}

TEST_CASE("an array that is being written is not written by another") {
  const Stores stores;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const fs::path store = folder() / "two.zarr";
  {
    const hg::ZarrSeries<Small> series(store, "a", mesh, small);
    CHECK(said_of(store / "a", [&] { hg::save_zarr(store, "a", field_of(mesh, 2)); }) ==
          "another run, or a ZarrSeries of this one, writes it: give this one another name");
    CHECK(said_of(store / "a", [&] { hg::ZarrSeries<Small>(store, "a", mesh, small); }).starts_with("another run, "));
    hg::save_zarr(store, "b", field_of(mesh, 2));
    series.write(0, field_of(mesh, 1));
  }
  CHECK(holds(store, "a", 1));
  CHECK(holds(store, "b", 2));
  hg::save_zarr(store, "a", field_of(mesh, 3));
  CHECK(holds(store, "a", 3));
  on_root([&] {  // a run that was killed between the older array and the new one
    fs::create_directories(store / "c" / ".removed");
    fs::rename(store / "a" / "c", store / "c" / "c");
    std::ofstream(store / "c" / ".lock") << "";
  });
  hg::save_zarr(store, "c", field_of(mesh, 4));
  CHECK(holds(store, "c", 4));
}

namespace {

/// The metadata of an array of four points without a chunk, of version 3; `more` takes the place of what it names.
void write_metadata(const fs::path& folder, const nlohmann::ordered_json& more) {
  nlohmann::ordered_json about = nlohmann::ordered_json::parse(
      R"({"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "float32", "fill_value": 0,
          "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
          "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
          "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})");
  about.update(more);
  fs::create_directories(folder / "c");
  std::ofstream(folder / "zarr.json") << hg::detail::json_text(about);
}

template <class T>
void write_chunk(const fs::path& folder, const std::array<T, 4>& values) {
  std::ofstream(folder / "c" / "0", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), sizeof values);
}

std::vector<double> read_four(const fs::path& store) {
  std::vector<double> all(4);
  hg::ZarrArray(store, "a").read({0}, {4}, all.data());
  return all;
}

}  // namespace

TEST_CASE("one decoder of attributes and fill values: what it does not know is refused") {
  const Stores stores;
  if (support::world().rank() != 0) return;  // local
  const fs::path store = folder() / "marks.zarr";
  const double nan = std::nan(""), inf = HUGE_VAL;
  const auto read = [&]<class T>(const char* type, const std::array<T, 4>& values, const char* attributes) {
    write_metadata(store / "a", {{"data_type", type}, {"attributes", hg::detail::parse_json(attributes)}});
    write_chunk(store / "a", values);
    std::vector<double> all = read_four(store);
    for (double& value : all) value = std::isnan(value) ? -12345 : value;  // as numbers that compare
    return all;
  };
  using Values = std::vector<double>;
  const std::array<float, 4> floats{-999.9f, 1e20f, 2, 3};
  // -999.9 of float32 in base64, as xarray 2026.9 wrote it; numbers in float32 are those of the attribute rounded
  CHECK(read("float32", floats, R"({"_FillValue": "AAAAQDM/j8A="})")[0] == -12345);
  CHECK(read("float32", floats, R"({"_FillValue": -999.9, "missing_value": [1e20, 3]})") ==
        Values{-12345, -12345, 2, -12345});
  CHECK(read("float32", floats, R"({"_FillValue": "0x40000000"})")[2] == -12345);
  CHECK(read("float32", floats, R"({"_FillValue": NaN, "missing_value": null})")[3] == 3);
  CHECK(read("float64", std::array<double, 4>{1, inf, nan, 4}, R"({"missing_value": "Infinity"})") ==
        Values{1, -12345, -12345, 4});
  const std::array<std::int16_t, 4> shorts{-1, 100, 200, -32768};
  CHECK(read("int16", shorts, R"({"scale_factor": [0.01], "add_offset": 3})")[1] == 100 * 0.01 + 3);
  CHECK(read("int16", shorts, R"({"_Unsigned": "true", "_FillValue": -1})") == Values{-12345, 100, 200, 32768});
  CHECK(read("int16", shorts, R"({"_Unsigned": "true", "_FillValue": 65535})") == Values{-12345, 100, 200, 32768});
  CHECK(read("uint8", std::array<std::uint8_t, 4>{255, 128, 127, 0}, R"({"_Unsigned": "false", "_FillValue": -128})") ==
        Values{-1, -12345, 127, 0});
  CHECK(read("int64", std::array<std::int64_t, 4>{INT64_MAX, 1, 2, INT64_MIN},
             R"({"_FillValue": 9223372036854775807})")[0] == -12345);
  const auto refused = [&](const char* type, const char* attributes) {
    write_metadata(store / "a", {{"data_type", type}, {"attributes", hg::detail::parse_json(attributes)}});
    const std::string said = support::refusal([&] { hg::ZarrArray(store, "a"); });
    return said.substr(std::min(said.size(), said.find("': ") + 3));
  };
  for (const auto& [type, attributes, words] : std::vector<std::array<const char*, 3>>{
           {"float32", R"({"scale_factor": [0.01, 0.02]})", "its scale_factor is [0.01,0.02], which is not one number"},
           {"int16", R"({"scale_factor": "0.01"})", "its scale_factor is \"0.01\", which is not one number"},
           {"int16", R"({"add_offset": NaN})", "its add_offset is NaN, which is not one number"},
           {"int16", R"({"_FillValue": -999.5})", "its _FillValue is -999.5, which is not a number of int16"},
           {"int16", R"({"_FillValue": 40000})", "its _FillValue is 40000, which is not a number of int16"},
           {"uint8", R"({"missing_value": -1})", "its missing_value is -1, which is not a number of uint8"},
           {"float32", R"({"_FillValue": "none"})", "its _FillValue is \"none\", which is not a number of float32"},
           {"float32", R"({"_FillValue": "0x7fc0"})", "its _FillValue is \"0x7fc0\", which is not a number of float32"},
           {"int32", R"({"_FillValue": "AAAAQDM/j8A="})", "its _FillValue is \"AAAAQDM/j8A=\", which is not a number"},
           {"int8", R"({"_Unsigned": "yes"})", "its _Unsigned is \"yes\", which is not \"true\" or \"false\""},
           {"int8", R"({"missing_value": {"a": 1}})", "its missing_value is {\"a\":1}, which is not a number of int8"}})
    CHECK(refused(type, attributes).substr(0, std::string(words).size()) == words);
  // words and numbers of the metadata themselves
  const auto said = [&](const nlohmann::ordered_json& more) {
    write_metadata(store / "a", more);
    const std::string sentence = support::refusal([&] { hg::ZarrArray(store, "a"); });
    return sentence.substr(std::min(sentence.size(), sentence.find("': ") + 3));
  };
  CHECK(said({{"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "-"}}}}}}) ==
        "its separator is \"-\", which is not read: store it with \".\" or \"/\"");
  CHECK(said({{"chunk_key_encoding", {{"name", "suffix"}}}}).starts_with("its name is \"suffix\", which is not read"));
  CHECK(said({{"storage_transformers", {{{"name", "other"}}}}}).starts_with("it has storage transformers, "));
  CHECK(said({{"shape", {1e99}}}) ==
        "its metadata are not those of an array: 1e+99 stands where a whole number belongs");
  // fill values, of a chunk that is not there
  const auto filled = [&](const char* type, const nlohmann::ordered_json& fill) {
    fs::remove_all(store / "a");
    write_metadata(store / "a", {{"data_type", type}, {"fill_value", fill}});
    return read_four(store)[3];
  };
  CHECK(std::isnan(filled("float32", "0x7fc00000")));
  CHECK(filled("float64", "0xc008000000000000") == -3);
  CHECK(filled("float32", "-Infinity") == -inf);
  CHECK(filled("float32", 0.1) == static_cast<double>(0.1f));
  CHECK(filled("uint16", 65535) == 65535);
  CHECK(support::refusal([&] {
          filled("float32", "nought");
        }).find("its fill_value is \"nought\", which is not a number") != std::string::npos);
  CHECK(support::refusal([&] { filled("uint8", 256); }).find("its fill_value is 256, ") != std::string::npos);
  CHECK(support::refusal([&] { filled("float32", nullptr); }).find("its fill_value is null, ") != std::string::npos);
}

TEST_CASE("marks of missing points are written as numbers of the array's type") {
  const Stores stores;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const fs::path store = folder() / "marked.zarr";
  using Line =
      hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, 1>, support::Mesh, hg::Replicate, hg::Shard<2>, hg::Replicate>;
  const auto line = hg::distribute_tensor<Line>(mesh, {1, 1, 4, 1}, std::vector<float>{-999.9f, 1e20f, 2, 3});
  const hg::ZarrSeries<Line> series(
      store, "a", mesh, {2, 1, 4, 1},
      {.attributes = {{"_FillValue", -999.9}, {"missing_value", 1e20}, {"valid_max", std::nan("")}}});
  series.write(0, line);
  const auto about = hg::detail::parse_json(text_of(store / "a" / "zarr.json"));
  CHECK(about["attributes"]["_FillValue"] == "AAAAQDM/j8A=");
  CHECK(about["attributes"]["missing_value"] == static_cast<double>(1e20f));
  CHECK(about["fill_value"] == static_cast<double>(-999.9f));
  using hg::detail::missing_as;  // whole numbers that no double holds
  CHECK(missing_as<std::int64_t>("_FillValue", -9223372036854775806) == std::vector<std::int64_t>{INT64_MIN + 2});
  CHECK(missing_as<std::int64_t>("_FillValue", INT64_MAX) == std::vector<std::int64_t>{INT64_MAX});
  CHECK(missing_as<std::uint64_t>("_FillValue", UINT64_MAX - 1) == std::vector<std::uint64_t>{UINT64_MAX - 1});
  CHECK_THROWS_AS(missing_as<std::int64_t>("_FillValue", std::uint64_t{1} << 63), std::runtime_error);
  CHECK_THROWS_AS(missing_as<std::uint8_t>("_FillValue", -1), std::runtime_error);
  const hg::ZarrArray array(support::world(), store, "a");
  std::vector<double> all(8);
  array.read({0, 0, 0, 0}, {2, 1, 4, 1}, all.data());
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(all[i]) == (i < 2 || i > 3));
  CHECK(std::isnan(array.attributes()["valid_max"].get<double>()));
}

TEST_CASE("a chunk that cannot be what it says takes no memory of its size, gzip no numbers of 32 bits") {
  const Stores stores;
  if (support::world().rank() != 0) return;  // local
  const fs::path store = folder() / "large.zarr";
  std::mt19937 bits(3);
  std::string noise(100'000, ' ');
  for (char& c : noise) c = static_cast<char>(bits());
  const std::string known("\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x60", 9);  // a frame of zstd of 1.5 GiB
  const std::string unknown("\x28\xb5\x2f\xfd\x00\x58", 6);            // of which it says no size
  for (const std::string& frame : {known, unknown}) {
    write_metadata(store / "a",
                   {{"shape", {402653184}},
                    {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", {402653184}}}}}},
                    {"codecs", {{{"name", "bytes"}}, {{"name", "zstd"}}}}});
    std::ofstream(store / "a" / "c" / "0", std::ios::binary) << frame << noise;
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    float one;
    CHECK(support::refusal([&] {
            hg::ZarrArray(store, "a").read({0}, {1}, &one);
          }).ends_with("its zstd data are not of a chunk of its size"));
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 100'000);  // KiB
  }
  const auto bytes = std::as_bytes(std::span(noise));
  const auto whole = hg::detail::deflated(bytes, 6), parts = hg::detail::deflated(bytes, 6, 777);
  REQUIRE(whole);
  REQUIRE(parts);
  std::vector<std::byte> back(bytes.size());
  for (const auto& data : {*whole, *parts})
    for (const std::size_t step : {std::size_t{1} << 30, std::size_t{555}}) {
      std::ranges::fill(back, std::byte{});
      hg::detail::inflate_into(data, back, step);
      CHECK(std::ranges::equal(back, bytes));
    }
}

TEST_CASE("stores are consolidated, and groups have their metadata") {
  const Stores stores;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const fs::path outer = folder() / "outer.zarr", store = outer / "run";
  const auto listed = [](const fs::path& of) {
    const auto group = nlohmann::ordered_json::parse(text_of(of / "zarr.json"));
    CHECK(group["node_type"] == "group");
    CHECK(group["consolidated_metadata"]["kind"] == "inline");
    CHECK(group["consolidated_metadata"]["must_understand"] == false);
    return nlohmann::json(group["consolidated_metadata"]["metadata"]);
  };
  hg::save_zarr(outer, "run/first", field_of(mesh, 1));
  hg::save_zarr(store, "fields/density", field_of(mesh, 2));  // the outer store knows it as well
  CHECK(nlohmann::json::parse(text_of(store / "fields" / "zarr.json"))["node_type"] == "group");
  CHECK(listed(store)["first"]["node_type"] == "array");
  CHECK(listed(store)["fields"]["node_type"] == "group");
  CHECK(listed(store)["fields/density"]["shape"] == std::vector<index_t>{1, 2, 6, 5});
  CHECK(listed(outer)["run/fields/density"] == listed(store)["fields/density"]);
  CHECK(listed(outer)["run/fields"]["node_type"] == "group");
  CHECK(listed(outer).size() == 4);
  // saved over, of another shape: no list keeps the older one
  hg::save_zarr(store, "fields/density", Small(mesh, {3, 2, 4, 4}));
  for (const auto& [of, name] : {std::pair{store, "fields/density"}, {outer, "run/fields/density"}})
    CHECK(hg::ZarrArray(support::world(), of, name).shape() == std::vector<index_t>{3, 2, 4, 4});
  on_root([&] { hg::save_zarr_coordinate(store, "fields/lat", {1, 2}); });
  CHECK(listed(outer)["run/fields/lat"]["dimension_names"] == std::vector<std::string>{"lat"});
  // a store of version 2 is left as it is
  const fs::path old = folder() / "old.zarr";
  on_root([&] {
    fs::create_directories(old);
    std::ofstream(old / ".zmetadata") << "{}";
  });
  CHECK(said_of(old / "a", [&] {
          hg::save_zarr(old, "a", field_of(mesh, 1));
        }).starts_with("'" + old.string() + "' is of Zarr's version 2, and arrays are written in version 3"));
  CHECK(!fs::exists(old / "zarr.json"));
  CHECK(!fs::exists(old / "a"));
}

TEST_CASE("for xarray (tests/files/xarray_test.py)") {
  const char* const where = std::getenv("HALOGEN_XARRAY_STORE");
  if (where == nullptr) return;
  const hg::Communicator world = support::world();
  using Image = support::Field<float, 2>;
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 2, -1});
  const auto field = hg::distribute_tensor<Image>(mesh, {3, 2, 9, 7}, support::numbers<float>(378, 3));
  for (const auto& [name, options] : std::map<std::string, hg::ZarrOptions>{
           {"plain", {.compression = hg::ZarrCompression::none}},
           {"gzip", {.chunks = {1, 2, 4, 3}, .compression = hg::ZarrCompression::gzip}},
           {"zstd", {.chunks = {2, 1, 4, 3}}},
           {"blosc", {.chunks = {1, 1, 5, 5}, .compression = hg::ZarrCompression::blosc}},
           {"shards", {.chunks = {1, 1, 2, 3}, .shards = {2, 2, 6, 6}}}}) {
    hg::ZarrOptions named = options;
    named.dimension_names = {"time", "channel", "lat", "lon"};
    named.attributes = {{"units", "K"}, {"long_name", name}};
    hg::save_zarr(where, name, field, named);
  }
  const auto numbers = support::numbers<float>(378, 3);
  hg::save_zarr(
      where, "fields/density", field,
      {.dimension_names = {"time", "channel", "lat", "lon"},
       .attributes = {{"_FillValue", numbers[0]}, {"missing_value", numbers[1]}, {"valid_max", std::nan("")}}});
  if (world.rank() == 0) {
    hg::save_zarr_coordinate(where, "lat", {-4, -3, -2, -1, 0, 1, 2, 3, 4}, {{"units", "degrees_north"}});
    std::ofstream(fs::path(where).string() + ".raw", std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(float)));
  }
  world.barrier();
}

}  // namespace test_zarr_files
