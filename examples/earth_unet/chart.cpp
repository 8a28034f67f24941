#include "chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace earth {
namespace {

// The vertical axis: its range and where its labels stand.
struct Axis {
  double low, high;  // logarithms on a logarithmic axis
  bool logarithmic;
  std::vector<double> ticks;

  double place(double value) const { return ((logarithmic ? std::log10(value) : value) - low) / (high - low); }
};

// The smallest of 1, 2, 5 times a power of ten that is at least `length`.
double round_step(double length) {
  const double power = std::pow(10.0, std::floor(std::log10(length)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= length * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

Axis make_axis(double low, double high, bool logarithmic) {
  if (logarithmic && high / low >= 3) {
    Axis axis{std::log10(low), std::log10(high), true, {}};
    const double margin = 0.06 * (axis.high - axis.low);
    axis.low -= margin;
    axis.high += margin;
    for (double decade = std::floor(axis.low); decade <= axis.high; ++decade)
      for (double factor : {1.0, 2.0, 5.0}) axis.ticks.push_back(factor * std::pow(10.0, decade));
    return axis;
  }
  // Within a factor of three a logarithm is nearly straight: round linear ticks read better, at logarithmic places.
  const double span = high > low ? high - low : std::max(1e-3, 0.1 * std::abs(high));
  const double step = round_step(span / 4);
  const double first = step * std::floor(low / step - 0.05), last = step * std::ceil(high / step + 0.05);
  Axis axis{first, last, logarithmic && first > 0, {}};
  for (int i = 0; first + i * step <= last + step / 2; ++i) axis.ticks.push_back(first + i * step);
  if (axis.logarithmic) {
    axis.low = std::log10(first);
    axis.high = std::log10(last);
  }
  return axis;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", std::abs(value) < 1e-12 ? 0.0 : value);
  return text;
}

}  // namespace

void draw_chart(Image& image, int y, int x, int height, int width, const Chart& chart, std::span<const double> values) {
  const auto shown = [&](double value) { return std::isfinite(value) && (!chart.logarithmic || value > 0); };
  double low = INFINITY, high = -INFINITY;
  const auto include = [&](double value) {
    if (!shown(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (double value : values) include(value);
  if (chart.reference) include(*chart.reference);
  if (!(low <= high)) low = high = 1;

  const Axis axis = make_axis(low, high, chart.logarithmic);
  const int steps = std::max<int>(1, static_cast<int>(values.size()));
  const auto row = [&](double value) { return y + height * (1 - axis.place(value)); };
  const auto column = [&](double step) { return x + width * step / steps; };

  image.fill(y, x, height, width, colour::white);
  for (double tick : axis.ticks) {
    if (axis.place(tick) < 0 || axis.place(tick) > 1) continue;
    const int at = static_cast<int>(std::lround(row(tick)));
    image.fill(at, x, 1, width, colour::rule);
    image.text(at - 7, x - 10 - Image::text_width(number(tick)), number(tick), colour::ink);
  }
  const int step = std::max(1, static_cast<int>(round_step(steps / 8.0)));
  for (int tick = 0; tick <= steps; tick += step) {
    const int at = static_cast<int>(std::lround(column(tick)));
    image.fill(y, at, height, 1, colour::rule);
    image.text(y + height + 10, at - Image::text_width(std::to_string(tick)) / 2, std::to_string(tick), colour::ink);
  }
  image.fill(y, x, height, 2, colour::ink);
  image.fill(y + height - 1, x, 2, width, colour::ink);
  image.text(y - 26, x, chart.title, colour::ink);

  if (chart.reference && axis.place(*chart.reference) >= 0 && axis.place(*chart.reference) <= 1) {
    const double at = row(*chart.reference);
    for (int dash = 0; dash < width; dash += 14) image.line(at, x + dash, at, x + dash + 7, colour::ink, 1.5);
    const int left = x + width - Image::text_width(chart.reference_label) - 8;
    image.text(static_cast<int>(at) + 6, left, chart.reference_label, colour::ink);
  }
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!shown(values[i])) continue;
    const std::size_t from = last.value_or(i);
    const auto at = [&](std::size_t point) { return column(static_cast<double>(point + 1)); };
    image.line(row(values[from]), at(from), row(values[i]), at(i), chart.paint, last ? 2.5 : 5);
    last = i;
  }
}

}  // namespace earth
