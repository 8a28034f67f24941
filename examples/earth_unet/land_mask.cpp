#include "land_mask.hpp"

#include <cstdint>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "area_average.hpp"
#include "zip_member.hpp"

namespace earth {
namespace {

// Reads the header of a .npy file (numpy.lib.format) and returns the array's extents; what follows is the data.
Grid read_mask_header(ZipMember& member) {
  std::uint8_t start[10];
  member.read(start);
  if (std::string(start, start + 6) != "\x93NUMPY" || start[6] != 1)
    throw std::runtime_error(member.label() + " is not a .npy array of format 1");
  std::string header(static_cast<std::size_t>(start[8] + 256 * start[9]), ' ');
  member.read({reinterpret_cast<std::uint8_t*>(header.data()), header.size()});

  std::smatch shape;
  const bool boolean = std::regex_search(header, std::regex(R"('descr': *'\|b1')"));
  const bool row_major = std::regex_search(header, std::regex(R"('fortran_order': *False)"));
  const bool plane = std::regex_search(header, shape, std::regex(R"('shape': *\(([0-9]{1,9}), *([0-9]{1,9})\))"));
  if (!boolean || !row_major || !plane)
    throw std::runtime_error(member.label() + " is not a row-major boolean array of two dimensions: " +
                             header.substr(0, header.find_last_not_of(" \n") + 1));
  return {std::stoll(shape[1]), std::stoll(shape[2])};
}

// The mask's point nearest to the centre of pixel `pixel`, in one dimension, the lower one of two: point k lies at
// k / points of the way from the first edge, pixel i's centre at (i + 1/2) / pixels. (lat[0] = 90 and lon[0] = -180 are
// the image's edges.) With no fewer points than pixels, no two pixels share a point.
std::int64_t nearest_point(std::int64_t pixel, std::int64_t pixels, std::int64_t points) {
  return ((2 * pixel + 1) * points + pixels - 1) / (2 * pixels);
}

}  // namespace

Planes read_land_fraction(const std::filesystem::path& file, Grid grid, Box box, Grid samples) {
  ZipMember member(file, "mask.npy");
  const Grid mask = read_mask_header(member);
  if (mask.height < samples.height || mask.width < samples.width)
    throw std::runtime_error(member.label() + " has " + std::to_string(mask.height) + " x " +
                             std::to_string(mask.width) + " points, fewer than the image's " +
                             std::to_string(samples.height) + " x " + std::to_string(samples.width) + " pixels");
  AreaAverage average(samples, grid, box, 1, 1.0);
  std::vector<std::uint8_t> points(static_cast<std::size_t>(mask.width));
  std::vector<std::uint8_t> land(static_cast<std::size_t>(samples.width));
  std::int64_t next = 0;  // the mask row that the stream stands at
  for (std::int64_t row = average.first_row(); row < average.end_row(); ++row) {
    const std::int64_t wanted = nearest_point(row, samples.height, mask.height);
    member.skip((wanted - next) * mask.width);
    member.read(points);
    next = wanted + 1;
    for (std::int64_t x = 0; x < samples.width; ++x) {
      const std::uint8_t sea = points[static_cast<std::size_t>(nearest_point(x, samples.width, mask.width))];
      if (sea > 1)
        throw std::runtime_error(member.label() + " holds the byte " + std::to_string(sea) + " in row " +
                                 std::to_string(wanted) + ", which is no boolean: it is damaged");
      land[static_cast<std::size_t>(x)] = sea ? 0 : 1;
    }
    average.add_row(row, land);
  }
  // The rank in the far south is nearly there: it can tell whether the whole array is sound.
  if (average.end_row() == samples.height) member.finish();
  return std::move(average).finish();
}

}  // namespace earth
