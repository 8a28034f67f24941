// Fields of the example, from the Earth's planes and back. Members of an ensemble lie along the mesh's first dimension,
// rows of the Earth along its second.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <halogen/halogen.hpp>
#include <vector>

#include "held_out.hpp"
#include "sample.hpp"

namespace earth_diffusion {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Mesh = hg::Mesh<"member", "height">;
template <int Channels>
using Maps = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>>;
/// One map, which all members share.
template <int Channels>
using Map = hg::Sharded<hg::Tensor<float, 1, Channels, hg::dyn, hg::dyn>, Mesh, hg::Replicate, hg::Shard<2>>;

/// This rank's rows of the Earth on that mesh.
inline earth::Box rows_of(const hg::DeviceMesh<Mesh>& mesh, earth::Grid grid) {
  const hg::Interval rows = Map<1>(mesh, {1, 1, grid.height, grid.width}).owned(2);
  return {rows.begin, rows.end, 0, grid.width};
}

/// The planes, as each of so many maps.
template <class Field>
Field to_field(const hg::DeviceMesh<Mesh>& mesh, earth::Grid grid, const earth::Planes& planes, hg::index_t maps = 1) {
  Field field(mesh, {maps, planes.channels, grid.height, grid.width});
  std::vector<float> values;
  for (hg::index_t i = 0; i < field.local_extent(0); ++i)
    values.insert(values.end(), planes.values.begin(), planes.values.end());
  field.copy_from_host(values);
  return field;
}

/// The number-th of this rank's maps.
template <class Field>
earth::Planes to_planes(const Field& field, earth::Box box, hg::index_t number = 0) {
  earth::Planes planes(static_cast<int>(field.extent(1)), box);
  const std::vector<float> values = field.to_host();
  const auto size = static_cast<std::ptrdiff_t>(planes.values.size());
  std::copy_n(values.begin() + number * size, size, planes.values.begin());
  return planes;
}

/// The cosine of latitude in the sector that is never trained on, 0 elsewhere.
inline earth::Planes held_out_weight(earth::Grid grid, earth::Box box) {
  earth::Planes weight(1, box);
  for (std::int64_t y = box.y0; y < box.y1; ++y) {
    const auto row_weight = static_cast<float>(earth::area_weight(y, grid));
    for (std::int64_t x = box.x0; x < box.x1; ++x)
      if (earth::held_out(x, grid)) weight.at(0, y, x) = row_weight;
  }
  return weight;
}

}  // namespace earth_diffusion
