// Meshes that cut samples and space, the fields of images on them, and numbers to fill those with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <halogen/array_language.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "support/ran.hpp"

namespace support {

using Mesh = hg::Mesh<"data", "height", "width">;
template <class T, int Channels>
using Field =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

/// The same with depth.
using VolumeMesh = hg::Mesh<"data", "depth", "height", "width">;
template <class T, int Channels>
using Volume = hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn, hg::dyn>, VolumeMesh, hg::Shard<0>,
                           hg::Shard<2>, hg::Shard<3>, hg::Shard<4>>;

/// Signals.
using SignalMesh = hg::Mesh<"data", "width">;
template <class T, int Channels>
using Signal = hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn>, SignalMesh, hg::Shard<0>, hg::Shard<2>>;

/// The field that such a mesh cuts in all its dimensions but the channels.
template <class MeshType, class T, int Channels>
using FieldOn = std::conditional_t<MeshType::rank == 4, Volume<T, Channels>,
                                   std::conditional_t<MeshType::rank == 2, Signal<T, Channels>, Field<T, Channels>>>;

/// Extents of samples and space; and with channels, as fields take them.
template <class MeshType>
using Extents = std::array<hg::index_t, MeshType::rank>;
template <std::size_t Rank>
std::array<hg::index_t, Rank + 1> with_channels(const std::array<hg::index_t, Rank>& extents, hg::index_t channels) {
  std::array<hg::index_t, Rank + 1> all;
  all[0] = extents[0];
  all[1] = channels;
  std::copy(extents.begin() + 1, extents.end(), all.begin() + 2);
  return all;
}

/// The world of the test's main, which owns the environment.
inline hg::Communicator world() {
  static hg::Environment environment;
  return environment.world();
}

/// All meshes data x height x width of the world's ranks, with at most `batch` in data.
inline Meshes<Mesh> meshes(int batch) {
  const int ranks = world().size();
  Meshes<Mesh> result;
  for (int data = 1; data <= batch; ++data)
    for (int height = 1; height <= ranks; ++height)
      if (ranks % (data * height) == 0)
        result.push_back(hg::device_mesh<Mesh>(world(), {data, height, ranks / (data * height)}));
  return result;
}

/// All meshes data x depth x height x width.
inline Meshes<VolumeMesh> volume_meshes(int batch) {
  const int ranks = world().size();
  Meshes<VolumeMesh> result;
  for (int data = 1; data <= batch; ++data)
    for (int depth = 1; depth <= ranks; ++depth)
      for (int height = 1; height <= ranks; ++height)
        if (ranks % (data * depth * height) == 0)
          result.push_back(
              hg::device_mesh<VolumeMesh>(world(), {data, depth, height, ranks / (data * depth * height)}));
  return result;
}

/// Those of either kind.
template <class MeshType>
Meshes<MeshType> meshes_of(int batch) {
  if constexpr (MeshType::rank == 4)
    return volume_meshes(batch);
  else if constexpr (MeshType::rank == 2) {
    Meshes<MeshType> result;
    for (int data = 1; data <= batch; ++data)
      if (world().size() % data == 0)
        result.push_back(hg::device_mesh<MeshType>(world(), {data, world().size() / data}));
    return result;
  } else
    return meshes(batch);
}

template <class MeshType>
std::string text(const hg::DeviceMesh<MeshType>& mesh) {
  std::string text;
  for (const int extent : mesh.extents()) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

/// Numbers in (-1, 1) by index, the same everywhere.
template <class T>
std::vector<T> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(2 * hg::uniform_at(11, stream, i) - 1);
  return values;
}

}  // namespace support
