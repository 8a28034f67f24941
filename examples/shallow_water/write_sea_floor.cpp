// write_sea_floor FILE: a small world in the colours of etopo1.jpg, for shallow_water_test.py: one ocean of 4500 m
// around the globe, a shelf, and land from 30 S to 30 N in 60 E to 120 E and in the far south.
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

#include <array>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  constexpr int height = 270, width = 540;
  using Colour = std::array<unsigned char, 3>;
  constexpr Colour deep{14, 133, 249}, shelf{138, 227, 255}, land{220, 180, 120};
  std::vector<Colour> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const bool tropics = y >= 90 && y < 180, near = x >= 345 && x < 465, inside = x >= 360 && x < 450;
      pixels.push_back(y >= 240 || (tropics && inside) ? land : tropics && near ? shelf : deep);
    }
  return stbi_write_jpg(argv[1], width, height, 3, pixels.data(), 95) ? 0 : 1;
}
