// A small picture in memory: 8-bit red, green, blue, drawn into by one rank and written as PNG.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace earth {

using Colour = std::array<std::uint8_t, 3>;

namespace colour {
inline constexpr Colour white{255, 255, 255}, black{0, 0, 0}, paper{250, 250, 248}, ink{40, 44, 52},
    rule{222, 222, 218};
inline constexpr Colour orange{230, 120, 20}, blue{30, 100, 190};
}  // namespace colour

// Row 0 is the top. Everything drawn outside the picture is left out.
class Image {
 public:
  Image(int height, int width, Colour background = colour::paper);

  int height() const { return height_; }
  int width() const { return width_; }
  Colour pixel(int y, int x) const { return pixels_[index(y, x)]; }

  // Mixes `paint` into a pixel; opacity 1 replaces it.
  void blend(int y, int x, Colour paint, double opacity = 1.0);
  void fill(int y, int x, int height, int width, Colour paint, double opacity = 1.0);
  // A straight line between two points in pixels, with smooth edges.
  void line(double y0, double x0, double y1, double x1, Colour paint, double thickness = 1.5);
  // Copies `other`, each of its pixels as a square of scale x scale, with its upper left corner at (y, x).
  void paste(const Image& other, int y, int x, int scale = 1);
  // ASCII text with its upper left corner at (y, x); a line is 12 * scale pixels high.
  void text(int y, int x, const std::string& words, Colour paint, int scale = 2);
  static int text_width(const std::string& words, int scale = 2);

  // Throws std::runtime_error, naming the file, if it cannot be written.
  void write_png(const std::filesystem::path& file) const;

 private:
  bool inside(int y, int x) const { return y >= 0 && y < height_ && x >= 0 && x < width_; }
  std::size_t index(int y, int x) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }

  int height_, width_;
  std::vector<Colour> pixels_;
};

}  // namespace earth
