#include "sample.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "coarse.hpp"
#include "held_out.hpp"
#include "jpeg_reader.hpp"
#include "land_mask.hpp"

namespace earth {
namespace {

constexpr const char* image_file = "bmng.jpg";
constexpr const char* relief_file = "etopo1.jpg";
constexpr const char* land_file = "globe_combined_mask_compressed.npz";

Planes operator-(Planes a, const Planes& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] -= b.values[i];
  return a;
}

// Whatever is wrong with a file is said together with what to do about it.
template <class Read>
Planes read_file(const std::filesystem::path& file, const Read& read) {
  try {
    Planes planes = read(file);
    require_finite(planes, file.string());
    return planes;
  } catch (const std::runtime_error& error) {
    const char* remedy = std::filesystem::exists(file) ? "; delete it and run scripts/data to fetch it again"
                                                       : "; run scripts/data to fetch it";
    throw std::runtime_error(error.what() + std::string(remedy) + ", or name another folder with --data");
  }
}

// A field less its own coarse field: what the coarse model cannot know. `margined` covers the margin of `box`.
Planes fine_detail(const Planes& margined, Grid grid, Box box) {
  return crop(margined, box) - coarse_and_back(margined, grid, box);
}

// Writes the channels of `part` over channels first, first + 1, ... of `planes`.
void put_channels(Planes& planes, int first, const Planes& part) {
  std::copy(part.values.begin(), part.values.end(), &planes.at(first, part.box.y0, part.box.x0));
}

Planes area_weights(Grid grid, Box box) {
  Planes weight(1, box);
  for (std::int64_t y = box.y0; y < box.y1; ++y) {
    const auto row_weight = static_cast<float>(area_weight(y, grid));
    for (std::int64_t x = box.x0; x < box.x1; ++x) weight.at(0, y, x) = row_weight;
  }
  return weight;
}

struct Moments {
  std::vector<double> mean, deviation;  // per channel
};

// Weighted mean and standard deviation of each channel over all ranks; row sums first, so that the error does not grow
// with the field. Collective.
Moments moments(const Planes& planes, const Planes& weight, const Ranks& ranks) {
  const auto channels = static_cast<std::size_t>(planes.channels);
  const auto weighted = [&](auto value) {
    std::vector<double> sums(channels + 1);
    for (int c = 0; c <= planes.channels; ++c) {
      for (std::int64_t y = planes.box.y0; y < planes.box.y1; ++y) {
        double row = 0;
        for (std::int64_t x = planes.box.x0; x < planes.box.x1; ++x)
          row += weight.at(0, y, x) * (c < planes.channels ? value(c, y, x) : 1.0);
        sums[static_cast<std::size_t>(c)] += row;
      }
    }
    ranks.all_reduce_sum(sums);
    for (std::size_t c = 0; c < channels; ++c) sums[c] /= sums[channels];
    sums.resize(channels);
    return sums;
  };
  Moments result;
  result.mean = weighted([&](int c, auto y, auto x) -> double { return planes.at(c, y, x); });
  result.deviation = weighted([&](int c, auto y, auto x) {
    const double offset = planes.at(c, y, x) - result.mean[static_cast<std::size_t>(c)];
    return offset * offset;
  });
  // Rounded to float, far above the rounding of the sums: any mesh normalises by the very same numbers.
  for (double& mean : result.mean) mean = static_cast<float>(mean);
  for (double& deviation : result.deviation) deviation = static_cast<float>(std::sqrt(deviation));
  return result;
}

void require_variation(const Moments& of, std::size_t first, std::size_t count, const std::filesystem::path& file) {
  for (std::size_t c = first; c < first + count; ++c)
    if (!(of.deviation[c] > 0))
      throw std::runtime_error(file.string() + " has no detail in channel " + std::to_string(c - first) +
                               ": there is nothing to learn from it");
}

}  // namespace

Sample load_sample(const std::filesystem::path& data, Grid grid, Box box, const Ranks& ranks, Subject subject) {
  const bool colours = subject == Subject::colours;
  const std::filesystem::path subject_file = data / (colours ? image_file : relief_file);
  const int land_channel = colours ? 6 : 3;
  Sample sample;
  sample.grid = grid;
  sample.box = box;
  ranks.agree([&] {
    const Box margin = coarse_margin(grid, box);
    sample.input = Planes(land_channel + 1, box);
    {
      const Planes image = read_file(subject_file, [&](auto& file) { return read_jpeg(file, grid, margin); });
      sample.truth = crop(image, box);
      sample.baseline = coarse_and_back(image, grid, box);
      put_channels(sample.input, 0, sample.baseline);
    }
    if (colours) {
      const Planes relief = read_file(data / relief_file, [&](auto& file) { return read_jpeg(file, grid, margin); });
      put_channels(sample.input, 3, fine_detail(relief, grid, box));
    }
    const Planes land = read_file(data / land_file, [&](auto& file) { return read_land_fraction(file, grid, margin); });
    put_channels(sample.input, land_channel, fine_detail(land, grid, box));
    sample.label = sample.truth - sample.baseline;
  });

  sample.weight = area_weights(grid, box);
  const Moments input = moments(sample.input, sample.weight, ranks);
  ranks.agree([&] {
    require_variation(input, 0, 3, subject_file);
    if (colours) require_variation(input, 3, 3, data / relief_file);
    require_variation(input, static_cast<std::size_t>(land_channel), 1, data / land_file);
  });
  for (std::int64_t y = box.y0; y < box.y1; ++y)
    for (std::int64_t x = box.x0; x < box.x1; ++x)
      if (held_out(x, grid)) sample.weight.at(0, y, x) = 0;
  const Moments label = moments(sample.label, sample.weight, ranks);
  ranks.agree([&] { require_variation(label, 0, 3, subject_file); });

  const auto pixels = static_cast<std::size_t>(box.height() * box.width());
  for (std::size_t i = 0; i < sample.input.values.size(); ++i) {
    const std::size_t c = i / pixels;
    sample.input.values[i] = static_cast<float>((sample.input.values[i] - input.mean[c]) / input.deviation[c]);
  }
  for (std::size_t i = 0; i < sample.label.values.size(); ++i)
    sample.label.values[i] = static_cast<float>(sample.label.values[i] / label.deviation[i / pixels]);
  for (std::size_t c = 0; c < 3; ++c) sample.sigma[c] = static_cast<float>(label.deviation[c]);
  return sample;
}

Planes predicted_field(const Planes& output, const Sample& sample) {
  Planes field = sample.baseline;
  const std::size_t pixels = field.values.size() / 3;
  for (std::size_t i = 0; i < field.values.size(); ++i) field.values[i] += sample.sigma[i / pixels] * output.values[i];
  return field;
}

void require_finite(const Planes& planes, const std::string& source) {
  for (int c = 0; c < planes.channels; ++c)
    for (std::int64_t y = planes.box.y0; y < planes.box.y1; ++y)
      for (std::int64_t x = planes.box.x0; x < planes.box.x1; ++x)
        if (!std::isfinite(planes.at(c, y, x)))
          throw std::runtime_error(source + " holds " + std::to_string(planes.at(c, y, x)) + " in channel " +
                                   std::to_string(c) + " at row " + std::to_string(y) + ", column " +
                                   std::to_string(x) + " of the grid: only finite values can be learned from");
}

}  // namespace earth
