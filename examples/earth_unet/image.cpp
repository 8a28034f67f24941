#include "image.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include <stb/stb_easy_font.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

namespace earth {

Image::Image(int height, int width, Colour background)
    : height_(height),
      width_(width),
      pixels_(static_cast<std::size_t>(height) * static_cast<std::size_t>(width), background) {}

void Image::blend(int y, int x, Colour paint, double opacity) {
  if (!inside(y, x)) return;
  Colour& pixel = pixels_[index(y, x)];
  for (std::size_t c = 0; c < 3; ++c)
    pixel[c] = static_cast<std::uint8_t>(std::lround(pixel[c] + opacity * (paint[c] - pixel[c])));
}

void Image::fill(int y, int x, int height, int width, Colour paint, double opacity) {
  for (int row = y; row < y + height; ++row)
    for (int column = x; column < x + width; ++column) blend(row, column, paint, opacity);
}

void Image::line(double y0, double x0, double y1, double x1, Colour paint, double thickness) {
  const double dy = y1 - y0, dx = x1 - x0, square = dy * dy + dx * dx, reach = thickness / 2 + 1;
  for (int y = static_cast<int>(std::floor(std::min(y0, y1) - reach)); y <= std::max(y0, y1) + reach; ++y) {
    for (int x = static_cast<int>(std::floor(std::min(x0, x1) - reach)); x <= std::max(x0, x1) + reach; ++x) {
      const double along = square > 0 ? std::clamp(((y - y0) * dy + (x - x0) * dx) / square, 0.0, 1.0) : 0.0;
      const double distance = std::hypot(y - y0 - along * dy, x - x0 - along * dx);
      const double cover = std::clamp(thickness / 2 + 0.5 - distance, 0.0, 1.0);
      if (cover > 0) blend(y, x, paint, cover);
    }
  }
}

void Image::paste(const Image& other, int y, int x, int scale) {
  for (int row = 0; row < other.height_; ++row)
    for (int column = 0; column < other.width_; ++column)
      fill(y + row * scale, x + column * scale, scale, scale, other.pixel(row, column));
}

void Image::text(int y, int x, const std::string& words, Colour paint, int scale) {
  struct Vertex {
    float x, y, z;
    unsigned char rgba[4];
  };
  std::vector<Vertex> vertices(4 * 64 * (words.size() + 1));
  std::string mutable_words = words;
  const int quads = stb_easy_font_print(0, 0, mutable_words.data(), nullptr, vertices.data(),
                                        static_cast<int>(vertices.size() * sizeof(Vertex)));
  for (std::size_t q = 0; q < static_cast<std::size_t>(quads); ++q) {
    const Vertex &from = vertices[4 * q], &to = vertices[4 * q + 2];
    const auto scaled = [scale](float at) { return static_cast<int>(std::lround(at)) * scale; };
    fill(y + scaled(from.y), x + scaled(from.x), scaled(to.y) - scaled(from.y), scaled(to.x) - scaled(from.x), paint);
  }
}

int Image::text_width(const std::string& words, int scale) {
  std::string mutable_words = words;
  return scale * stb_easy_font_width(mutable_words.data());
}

void Image::write_png(const std::filesystem::path& file) const {
  std::ofstream stream(file, std::ios::binary);  // not stbi_write_png, which does not notice a full disk
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::ofstream*>(to)->write(static_cast<const char*>(data), size);
  };
  const int drawn = stbi_write_png_to_func(append, &stream, width_, height_, 3, pixels_.data(), 3 * width_);
  stream.close();
  if (drawn == 0 || !stream)
    throw std::runtime_error("cannot write the picture " + file.string() +
                             ": choose another folder with --output, or make room and see to its permissions");
}

}  // namespace earth
