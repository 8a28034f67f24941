// One curve with axes, drawn into a picture.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "image.hpp"

namespace earth {

struct Chart {
  std::string title;
  bool logarithmic = false;
  std::optional<double> reference;  // a dashed line at this value, with
  std::string reference_label;      // this written beside it
  Colour paint = colour::blue;
};

// Draws values[i] over i + 1 into the frame at (y, x) of height x width pixels, with ticks and their labels left of it
// and below. Values that are not finite (or not positive, on a logarithmic axis) are
// passed over: the line joins their neighbours.
void draw_chart(Image& image, int y, int x, int height, int width, const Chart& chart, std::span<const double> values);

}  // namespace earth
