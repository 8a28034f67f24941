// The data preparation on small fields made here: pieces equal the whole, and damaged files are refused in words.
// `earth_data_test --write-data FOLDER` writes a small data set there, for bad_input_test.py.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <stb/stb_image_write.h>
#include <zip.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "area_average.hpp"
#include "canvas.hpp"
#include "coarse.hpp"
#include "held_out.hpp"
#include "jpeg_reader.hpp"
#include "land_mask.hpp"
#include "options.hpp"
#include "sample.hpp"
#include "score.hpp"

using namespace earth;
namespace fs = std::filesystem;

namespace {

// A folder of this test's own, gone at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("earth_data_test_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::uint8_t noise(std::int64_t a, std::int64_t b) { return static_cast<std::uint8_t>((a * 7919 + b * 104729) % 251); }

Planes noisy_planes(int channels, Grid grid) {
  Planes planes(channels, whole(grid));
  for (std::size_t i = 0; i < planes.values.size(); ++i)
    planes.values[i] = noise(static_cast<std::int64_t>(i), 3) / 251.f;
  return planes;
}

// The whole, read as a piece that may stick out in longitude.
Planes unwrapped(const Planes& planes, Grid grid, Box box) {
  Planes piece(planes.channels, box);
  for (int c = 0; c < planes.channels; ++c)
    for (auto y = box.y0; y < box.y1; ++y)
      for (auto x = box.x0; x < box.x1; ++x) piece.at(c, y, x) = planes.at(c, y, wrap_column(x, grid));
  return piece;
}

// The boxes of a 3 x 2 mesh, unevenly cut.
std::vector<Box> pieces(Grid grid) {
  std::vector<Box> boxes;
  const std::int64_t rows[] = {0, 1, grid.height / 2, grid.height}, columns[] = {0, grid.width / 3, grid.width};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) boxes.push_back({rows[i], rows[i + 1], columns[j], columns[j + 1]});
  return boxes;
}

void write_image(const fs::path& file, Grid size, bool constant = false) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * size.height * size.width), 100);
  for (std::size_t i = 0; !constant && i < pixels.size(); ++i) pixels[i] = noise(static_cast<std::int64_t>(i) / 24, 1);
  if (!stbi_write_jpg(file.c_str(), static_cast<int>(size.width), static_cast<int>(size.height), 3, pixels.data(), 90))
    throw std::runtime_error("cannot write " + file.string());
}

// Writes mask.npy: `byte`(row, column) under a header of type `descr`.
void write_mask(const fs::path& file, Grid size, const std::function<int(std::int64_t, std::int64_t)>& byte,
                const std::string& descr = "|b1") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + std::to_string(size.height) +
                       ", " + std::to_string(size.width) + "), }";
  header.resize(117, ' ');
  std::string array = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
  for (std::int64_t y = 0; y < size.height; ++y)
    for (std::int64_t x = 0; x < size.width; ++x) array += static_cast<char>(byte(y, x));
  zip_t* archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  const auto member = zip_file_add(archive, "mask.npy", zip_source_buffer(archive, array.data(), array.size(), 0), 0);
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(member), ZIP_CM_DEFLATE, 6);
  if (zip_close(archive) != 0) throw std::runtime_error("cannot write " + file.string());
}

void write_data(const fs::path& folder, Grid size) {
  fs::create_directories(folder);
  write_image(folder / "bmng.jpg", size);
  write_image(folder / "etopo1.jpg", size);
  write_mask(folder / "globe_combined_mask_compressed.npz", full_grid,
             [](auto y, auto x) { return (y / 130 + x / 170) % 2; });
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("a cell is the mean of the pixels it touches, in pieces as in the whole") {
  const Grid source{27, 54};
  for (const Grid grid : {Grid{27, 54}, Grid{18, 36}, Grid{4, 7}, Grid{1, 1}}) {
    const auto average = [&](Box box) {
      AreaAverage into(source, grid, box, 1, 0.5);
      for (auto row = into.first_row(); row < into.end_row(); ++row) {
        std::vector<std::uint8_t> line;
        for (std::int64_t x = 0; x < source.width; ++x) line.push_back(noise(row, x));
        into.add_row(row, line);
      }
      return std::move(into).finish();
    };
    const Planes all = average(whole(grid));
    for (std::int64_t y = 0; y < grid.height; ++y) {
      for (std::int64_t x = 0; x < grid.width; ++x) {
        double sum = 0, count = 0;
        for (std::int64_t r = 0; r < source.height; ++r)
          for (std::int64_t c = 0; c < source.width; ++c)
            if ((r + 1) * grid.height > y * source.height && r * grid.height < (y + 1) * source.height &&
                (c + 1) * grid.width > x * source.width && c * grid.width < (x + 1) * source.width)
              sum += 0.5 * noise(r, c), ++count;
        CHECK(all.at(0, y, x) == doctest::Approx(sum / count));
      }
    }
    const Box piece{-2, grid.height, -3, grid.width + 2};
    CHECK(average(piece).values == unwrapped(all, grid, clamp_rows(piece, grid)).values);
  }
}

TEST_CASE("the coarse field of a piece has the bits of the whole's, uneven last cells included") {
  for (const Grid grid : {Grid{16, 32}, Grid{18, 30}, Grid{5, 9}, Grid{3, 4}}) {
    const Planes fine = noisy_planes(2, grid);
    const Planes all = coarse_and_back(unwrapped(fine, grid, coarse_margin(grid, whole(grid))), grid, whole(grid));
    for (const Box box : pieces(grid)) {
      const Planes margined = unwrapped(fine, grid, coarse_margin(grid, box));
      CHECK(coarse_and_back(margined, grid, box).values == crop(all, box).values);
    }
  }
}

TEST_CASE("between the outermost centres a straight line stays a straight line") {
  const Grid grid{18, 8};  // centres at 2, 6, 10, 14 and, of the smaller last cell, 17
  Planes fine(1, coarse_margin(grid, whole(grid)));
  for (auto y = fine.box.y0; y < fine.box.y1; ++y)
    for (auto x = fine.box.x0; x < fine.box.x1; ++x) fine.at(0, y, x) = static_cast<float>(y);
  const Planes back = coarse_and_back(fine, grid, whole(grid));
  for (std::int64_t y = 0; y < grid.height; ++y) {
    const double straight = std::min(16.5, std::max(1.5, static_cast<double>(y)));
    CHECK(back.at(0, y, 3) == doctest::Approx(straight));
  }
}

TEST_CASE("the held-out sector is a quarter of every grid") {
  for (const char* name : {"2", "1", "0.5", "0.25", "0.1", "full"}) {
    const Grid grid = parse_grid(name);
    const Box box = held_out_box(grid);
    CHECK(box.x0 * 360 == 240 * grid.width);
    CHECK(box.width() * 4 == grid.width);
  }
  CHECK(refusal([] { parse_grid("3"); }).find("'3'") != std::string::npos);
}

TEST_CASE("a canvas filled in pieces shows the whole") {
  const Grid grid{45, 90};
  const Planes field = noisy_planes(3, grid);
  const Box region{5, 40, 20, 81};
  CHECK(reduced_size(region, {20, 20}) == Grid{9, 16});
  Canvas at_once(region, {20, 20}), in_pieces(region, {20, 20});
  at_once.add(field);
  for (const Box box : pieces(grid)) in_pieces.add(crop(field, box));
  const Image one = at_once.image(), other = in_pieces.image();
  for (int y = 0; y < one.height(); ++y)
    for (int x = 0; x < one.width(); ++x) REQUIRE(one.pixel(y, x) == other.pixel(y, x));
}

TEST_CASE("an image is read in pieces, and a damaged one is refused") {
  const Folder folder;
  const fs::path file = folder.path / "image.jpg";
  write_image(file, {54, 108});
  const Grid grid{18, 32};
  const Planes all = read_jpeg(file, grid, whole(grid));
  for (const Box box : pieces(grid)) {
    const Box margin = coarse_margin(grid, box);
    CHECK(read_jpeg(file, grid, margin).values == unwrapped(all, grid, margin).values);
  }
  const std::string sound = bytes_of(file);
  for (std::size_t tenth = 0; tenth < 10; ++tenth) {
    std::ofstream(file, std::ios::binary) << sound.substr(0, tenth * sound.size() / 10);
    CHECK(refusal([&] { read_jpeg(file, grid, whole(grid)); }).find("image.jpg is not a whole JPEG") !=
          std::string::npos);
  }
  CHECK(refusal([&] { read_jpeg(folder.path / "none.jpg", grid, whole(grid)); }).find("cannot open") !=
        std::string::npos);
}

TEST_CASE("the land mask is sampled at pixel centres, and a damaged one is refused") {
  const Folder folder;
  const fs::path file = folder.path / "mask.npz";
  const Grid samples{6, 12}, points{48, 96};  // pixel (y, x) is point (8 y + 4, 8 x + 4)
  const auto sea = [](std::int64_t y, std::int64_t x) { return noise(y, x) % 2; };
  const auto read = [&](Box box) { return read_land_fraction(file, samples, box, samples); };
  write_mask(file, points, sea);
  const Planes all = read(whole(samples));
  for (std::int64_t y = 0; y < samples.height; ++y)
    for (std::int64_t x = 0; x < samples.width; ++x) CHECK(all.at(0, y, x) == 1 - sea(8 * y + 4, 8 * x + 4));
  const Box piece{2, 4, -3, 5};
  CHECK(read(piece).values == unwrapped(all, samples, piece).values);

  std::string damaged = bytes_of(file);
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  std::ofstream(file, std::ios::binary) << damaged;
  CHECK(refusal([&] { read(whole(samples)); }).find("mask.npz: member mask.npy") != std::string::npos);
  std::ofstream(file, std::ios::binary) << damaged.substr(0, 200);
  CHECK(refusal([&] { read(whole(samples)); }).find("cannot open") != std::string::npos);
  write_mask(file, points, [](auto, auto) { return 2; });
  CHECK(refusal([&] { read(whole(samples)); }).find("no boolean") != std::string::npos);
  write_mask(file, points, sea, "|u1");
  CHECK(refusal([&] { read(whole(samples)); }).find("not a row-major boolean") != std::string::npos);
  write_mask(file, {4, 8}, sea);
  CHECK(refusal([&] { read(whole(samples)); }).find("fewer than") != std::string::npos);
}

TEST_CASE("a sample is normalised, weighted by latitude, and scored outside the training") {
  const Folder folder;
  write_data(folder.path, {54, 108});
  const Grid grid{27, 54};
  const Sample sample = load_sample(folder.path, grid, whole(grid), Ranks{});
  double squares = 0, weights = 0;
  for (std::int64_t y = 0; y < grid.height; ++y) {
    const double cosine = std::cos(std::numbers::pi * (0.5 - (static_cast<double>(y) + 0.5) / 27));
    for (std::int64_t x = 0; x < grid.width; ++x) {
      CHECK(sample.weight.at(0, y, x) == doctest::Approx(held_out(x, grid) ? 0 : cosine));
      squares += cosine * sample.input.at(5, y, x) * sample.input.at(5, y, x);
      weights += cosine;
    }
  }
  CHECK(squares / weights == doctest::Approx(1).epsilon(1e-4));
  CHECK(score(Planes(3, whole(grid)), sample, Ranks{}).ratio() == 1);
  CHECK(score(sample.label, sample, Ranks{}).ratio() < 1e-5);

  write_image(folder.path / "etopo1.jpg", {54, 108}, true);
  CHECK(refusal([&] { load_sample(folder.path, grid, whole(grid), Ranks{}); }).find("etopo1.jpg has no detail") !=
        std::string::npos);
  Planes bad(1, {0, 2, 0, 2});
  bad.at(0, 1, 0) = NAN;
  CHECK(refusal([&] { require_finite(bad, "here.jpg"); }).find("here.jpg holds nan in channel 0 at row 1, column 0") ==
        0);
}

TEST_CASE("the command line is refused in one sentence that names the value and what to do") {
  const auto parse = [](std::vector<const char*> words, int ranks) {
    words.insert(words.begin(), "earth_unet");
    return parse_command_line(static_cast<int>(words.size()), words.data(), ranks);
  };
  const auto good = parse({"--mesh", "1x3", "--grid", "2", "--precision", "double"}, 3);
  REQUIRE(good.options);
  CHECK(good.options->mesh_width == 3);
  CHECK(good.options->grid == Grid{90, 180});
  CHECK(parse({}, 6).options->mesh_height == 2);
  CHECK(parse({}, 6).options->memory_limit == 0);
  CHECK(parse({"--memory-limit", "1.5 MiB"}, 1).options->memory_limit == 3 << 19);
  CHECK(parse({"--mesh", "0x0"}, 5).options->mesh_width == 5);
  CHECK(parse({"--help"}, 4).exit_status == 0);
  CHECK(parse({"--help"}, 4).message.find("--learning-rate") != std::string::npos);
  const std::vector<std::vector<const char*>> wrong = {
      {"--mesh", "3x2"},        {"--mesh", "2"},        {"--mesh", "-2x-2"},     {"--grid", "3"},
      {"--steps", "-5"},        {"--steps", "six"},     {"--seed", "-1"},        {"--precision", "half"},
      {"--learning-rate", "0"}, {"--progress", "loud"}, {"--memory-limit", "2"}, {"--memory-limit", "-1GiB"},
      {"--memory-limit", "all"}};
  for (const auto& words : wrong) {
    const auto refused = parse(words, 4);
    CHECK(!refused.options);
    CHECK(refused.exit_status == 2);
    CHECK(refused.message.find(words[1]) != std::string::npos);
  }
  CHECK(parse({"--nonsense"}, 4).exit_status == 2);
  CHECK(refusal([] { prepare_output("/dev/null/there"); }).find("/dev/null/there") != std::string::npos);
}

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write-data") return write_data(argv[2], {270, 540}), 0;
  return doctest::Context(argc, argv).run();
}
