// The ocean on the real sea floor, each rank its own piece, and water that an earthquake has raised.
#pragma once

#include <filesystem>
#include <vector>

#include "jpeg_reader.hpp"
#include "ocean.hpp"
#include "relief.hpp"

namespace shallow_water {

/// The ocean at rest, and this rank's piece of the picture of the sea floor with its depths.
struct Sea {
  Ocean ocean;
  earth::Planes relief;
  std::vector<double> metres;
};

/// The piece of the picture under this rank's piece of the field. The map is cut open at 20 W, the picture at 180 W.
inline earth::Planes read_relief(const std::filesystem::path& file, earth::Grid grid, const Field& field) {
  const hg::Interval rows = field.owned(0), columns = field.owned(1);
  const std::int64_t shift = grid.width * 160 / 360;
  try {
    earth::Planes relief =
        earth::read_jpeg(file, grid, {rows.begin, rows.end, columns.begin + shift, columns.end + shift});
    relief.box = {rows.begin, rows.end, columns.begin, columns.end};
    return relief;
  } catch (const std::runtime_error& error) {
    throw hg::Error(std::string(error.what()) + "; run scripts/data to fetch it, or name another folder with --data");
  }
}

/// Collective. data: the folder of etopo1.jpg.
inline Sea read_sea(const std::filesystem::path& data, earth::Grid grid, const hg::DeviceMesh<Mesh>& mesh) {
  Field depth(mesh, {grid.height, grid.width});
  const earth::Planes relief = hg::agree(mesh.world(), [&] { return read_relief(data / "etopo1.jpg", grid, depth); });
  const std::size_t points = relief.values.size() / 3;
  std::vector<double> metres;
  for (std::size_t i = 0; i < points; ++i)
    metres.push_back(depth_of(relief.values[i], relief.values[points + i], relief.values[2 * points + i]));
  depth.copy_from_host(metres);
  Ocean ocean{depth, 180 * degree / static_cast<double>(grid.height), -20 * degree};
  // Walls in the far north and south: cells narrow towards the poles, and with them the time step.
  ocean.depth = hg::where(hg::abs(ocean.latitude()) < 80 * degree, depth, 0.0);
  return {ocean, relief, metres};
}

struct Place {
  double latitude, longitude;  ///< degrees
};

/// 5 m of water around a place, as if an earthquake had lifted it at once.
inline Field raised_at(const Ocean& ocean, Place place, double reach = 300e3) {
  const double latitude = place.latitude * degree, longitude = place.longitude * degree, angle = reach / earth_radius;
  const auto cosine_of_distance = std::sin(latitude) * hg::sin(ocean.latitude()) +
                                  std::cos(latitude) * ocean.cosine() * hg::cos(ocean.longitude() - longitude);
  return hg::where(ocean.depth > 0.0, 5.0 * hg::exp(2 / (angle * angle) * (cosine_of_distance - 1.0)), 0.0);
}

}  // namespace shallow_water
