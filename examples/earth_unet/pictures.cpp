#include "pictures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "chart.hpp"

namespace earth {
namespace {

constexpr int margin = 16;   // pixels around and between the parts of a picture
constexpr int heading = 32;  // pixels for a line of text

int whole_scale(int pixels, int wanted) { return std::max(1, wanted / pixels); }

std::string with_ratio(const char* words, double ratio) {
  char text[96];
  std::snprintf(text, sizeof text, "%s, RMSE x %.3f", words, ratio);
  return text;
}

}  // namespace

Box closeup_box(Grid grid) {
  // 62 E to 92 E, 38 N to 8 N, in whole pixels.
  const auto row = [grid](std::int64_t latitude) { return (90 - latitude) * grid.height / 180; };
  const auto column = [grid](std::int64_t longitude) { return (180 + longitude) * grid.width / 360; };
  return {row(38), row(8), column(62), column(92)};
}

Image draw_held_out(const Comparison& sector, const Comparison& closeup, double held_out_ratio) {
  const int panel_width = std::max({360, sector.truth.width(), closeup.truth.width()});
  const int scale = whole_scale(sector.truth.width(), panel_width);
  const int close_scale = whole_scale(closeup.truth.width(), panel_width);
  const int upper = heading + scale * sector.truth.height() + margin;
  const int height = upper + heading + close_scale * closeup.truth.height() + margin;
  Image picture(height, margin + 3 * (panel_width + margin));

  const Image* views[3][2] = {
      {&sector.coarse, &closeup.coarse}, {&sector.predicted, &closeup.predicted}, {&sector.truth, &closeup.truth}};
  const std::string titles[3] = {"coarse, RMSE x 1", with_ratio("predicted", held_out_ratio), "true"};
  for (int i = 0; i < 3; ++i) {
    const int x = margin + i * (panel_width + margin);
    picture.text(8, x, titles[i], colour::ink);
    picture.paste(*views[i][0], heading, x + (panel_width - scale * views[i][0]->width()) / 2, scale);
    picture.text(upper + 4, x, i == 0 ? "close-up: 62 E to 92 E, 38 N to 8 N" : "", colour::ink);
    picture.paste(*views[i][1], upper + heading, x + (panel_width - close_scale * views[i][1]->width()) / 2,
                  close_scale);
  }
  return picture;
}

Image draw_mesh(const Image& whole_earth, Grid grid, std::span<const std::int64_t> first_rows,
                std::span<const std::int64_t> first_columns) {
  const int scale = whole_scale(whole_earth.width(), 1440);
  Image picture(heading + scale * whole_earth.height() + margin, 2 * margin + scale * whole_earth.width());
  char title[96];
  std::snprintf(title, sizeof title, "mesh %zu x %zu of %lld x %lld pixels: what each rank holds", first_rows.size(),
                first_columns.size(), static_cast<long long>(grid.height), static_cast<long long>(grid.width));
  picture.text(8, margin, title, colour::ink);
  picture.paste(whole_earth, heading, margin, scale);

  const double bottom = heading + scale * whole_earth.height(), right = margin + scale * whole_earth.width();
  const auto row = [&](std::int64_t y) {
    return heading + (bottom - heading) * static_cast<double>(y) / static_cast<double>(grid.height);
  };
  const auto column = [&](std::int64_t x) {
    return margin + (right - margin) * static_cast<double>(x) / static_cast<double>(grid.width);
  };
  for (std::int64_t y : first_rows)
    if (y > 0) picture.line(row(y), margin, row(y), right, colour::orange, 2.5);
  // With several columns the first one's left edge is a cut too, which the last one's right edge meets.
  for (std::int64_t x : first_columns)
    if (first_columns.size() > 1) picture.line(heading, column(x), bottom, column(x), colour::orange, 2.5);
  if (first_columns.size() > 1) picture.line(heading, right, bottom, right, colour::orange, 2.5);

  for (std::size_t i = 0; i < first_rows.size(); ++i) {
    for (std::size_t j = 0; j < first_columns.size(); ++j) {
      const std::int64_t rows = (i + 1 < first_rows.size() ? first_rows[i + 1] : grid.height) - first_rows[i];
      const std::int64_t columns =
          (j + 1 < first_columns.size() ? first_columns[j + 1] : grid.width) - first_columns[j];
      char name[96];
      std::snprintf(name, sizeof name, "(%zu, %zu): %lld x %lld", i, j, static_cast<long long>(rows),
                    static_cast<long long>(columns));
      const int y = static_cast<int>(row(first_rows[i])) + 6, x = static_cast<int>(column(first_columns[j])) + 6;
      picture.fill(y, x, 26, Image::text_width(name) + 10, colour::white, 0.8);
      picture.text(y + 6, x + 6, name, colour::ink);
    }
  }
  return picture;
}

Image draw_curves(std::span<const double> losses, std::span<const double> held_out_ratios) {
  constexpr int width = 960, height = 300, left = 90, top = 50, between = 90;
  Image picture(2 * top + 2 * height + between, left + width + 2 * margin);
  const Chart loss{
      "training loss (log scale): MSE in units of sigma, outside 60 E to 150 E", true, {}, "", colour::blue};
  const Chart ratio{"held-out ratio: RMSE over that of bilinear interpolation, 60 E to 150 E", false, 1.0,
                    "bilinear interpolation", colour::orange};
  draw_chart(picture, top, left, height, width, loss, losses);
  draw_chart(picture, top + height + between, left, height, width, ratio, held_out_ratios);
  picture.text(2 * top + 2 * height + between - 18, left + width - Image::text_width("step"), "step", colour::ink);
  return picture;
}

}  // namespace earth
