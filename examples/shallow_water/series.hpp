// A run of the ocean as a Zarr store, each rank its own piece: ten variables by time, what does not change,
// coordinates.
#pragma once

#include <filesystem>
#include <halogen/io/zarr_writer.hpp>
#include <vector>

#include "ocean.hpp"

namespace shallow_water {

class OceanSeries {
  using Map = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<1>>;
  using Times = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn, hg::dyn>, Mesh, hg::Shard<1>, hg::Shard<2>>;

 public:
  /// Collective, as write is. seconds: between two times.
  OceanSeries(const std::filesystem::path& store, const Ocean& ocean, hg::index_t times, double seconds) {
    const hg::index_t height = ocean.depth.extent(0), width = ocean.depth.extent(1);
    const auto& mesh = ocean.depth.mesh();
    const auto options = [](const char* words, const char* units, std::vector<std::string> names) {
      return hg::ZarrOptions{.dimension_names = std::move(names),
                             .attributes = {{"long_name", words}, {"units", units}}};
    };
    for (const auto& [name, words, units] : variables)
      series_.emplace_back(store, name, mesh, typename Times::Extents{times, height, width},
                           options(words, units, {"time", "lat", "lon"}));
    const auto save = [&](const char* name, const char* words, const char* units, const auto& values) {
      const Map map = hg::cast<float>(values);
      hg::save_zarr(store, name, map, options(words, units, {"lat", "lon"}));
    };
    save("depth", "depth of the sea floor", "m", ocean.depth);
    save("sea", "1 at sea, 0 on land", "1", hg::where(ocean.depth > 0.0, 1.0, 0.0));
    save("sine", "sine of the latitude", "1", 0.0 * ocean.depth + hg::sin(ocean.latitude()));
    if (mesh.rank() != 0) return;
    std::vector<double> time, lat, lon;
    for (hg::index_t t = 0; t < times; ++t) time.push_back(static_cast<double>(t) * seconds);
    const double spacing = ocean.spacing / degree;
    for (hg::index_t y = 0; y < height; ++y) lat.push_back(90 - spacing * (static_cast<double>(y) + 0.5));
    for (hg::index_t x = 0; x < width; ++x)
      lon.push_back(ocean.west_end / degree + spacing * (static_cast<double>(x) + 0.5));
    hg::save_zarr_coordinate(store, "time", time, {{"units", "seconds since 2011-03-11 05:46:00"}});
    hg::save_zarr_coordinate(store, "lat", lat, {{"units", "degrees_north"}});
    hg::save_zarr_coordinate(store, "lon", lon, {{"units", "degrees_east"}});
  }

  void write(hg::index_t time, const Ocean& ocean) const {
    std::size_t next = 0;
    const auto put = [&](const auto& values) {
      const Map map = hg::cast<float>(values);
      Times one(map.mesh(), {1, map.extent(0), map.extent(1)});
      one.copy_from_host(map.to_host());
      series_[next++].write(time, one);
    };
    put(ocean.eta);
    put(ocean.u);
    put(ocean.v);
    put(ocean.vorticity());
    put(ocean.kinetic());
    put(hg::sqrt(2.0 * ocean.kinetic()));
    put(ocean.flux_east());
    put(ocean.flux_south());
    put(ocean.water());
    put(gravity * ocean.eta + ocean.kinetic());
  }

 private:
  struct Variable {
    const char *name, *words, *units;
  };
  static constexpr Variable variables[] = {{"eta", "height of the surface", "m"},
                                           {"u", "eastward current", "m s-1"},
                                           {"v", "southward current", "m s-1"},
                                           {"vorticity", "clockwise, of water and Earth", "s-1"},
                                           {"kinetic", "kinetic energy by mass", "m2 s-2"},
                                           {"speed", "speed of the current", "m s-1"},
                                           {"flux_east", "transport eastward", "m2 s-1"},
                                           {"flux_south", "transport southward, by the side's length", "m2 s-1"},
                                           {"water", "column of water", "m"},
                                           {"head", "what drives the current", "m2 s-2"}};
  std::vector<hg::ZarrSeries<Times>> series_;
};

}  // namespace shallow_water
