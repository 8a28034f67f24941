// A mesh type bound to ranks: extents, this rank's coordinate, and the communicators of all its sub-meshes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/mesh_extents.hpp"
#include "halogen/core/prepared.hpp"
#include "halogen/mesh/coordinate.hpp"
#include "halogen/mesh/mesh.hpp"

namespace halogen {

/// Cheap to copy (shared). Ranks are row-major: the last dimension varies fastest, and a rank of the mesh is the same
/// rank of the communicator it was made from. A dry mesh has extents and a coordinate, but null communicators.
template <class MeshType>
class DeviceMesh {
 public:
  using mesh_type = MeshType;
  static constexpr int dimensions = MeshType::rank;
  using Coordinate = std::array<int, static_cast<std::size_t>(dimensions)>;

  /// Use device_mesh or dry_mesh. Collective over `world` where that is not null.
  DeviceMesh(const Communicator& world, const Coordinate& extents, int rank) {
    auto state = std::make_shared<State>(State{extents, coordinate_of(rank, extents), rank, {}});
    state->communicators.fill(Communicator::null());
    if (world)
      for (std::size_t mask = 0; mask < masks; ++mask) connect(*state, world, mask);
    state_ = std::move(state);
  }

  int rank() const { return state_->rank; }
  int size() const {
    int size = 1;
    for (const int extent : extents()) size *= extent;
    return size;
  }
  int extent(int dimension) const { return state_->extents[index(dimension)]; }
  int coordinate(int dimension) const { return state_->coordinate[index(dimension)]; }
  const Coordinate& extents() const { return state_->extents; }
  const Coordinate& coordinates() const { return state_->coordinate; }
  int rank_of(const Coordinate& coordinate) const { return rank_at(coordinate, extents()); }
  bool is_dry() const { return !world(); }

  template <fixed_string Name>
  static constexpr int index_of = MeshType::template index_of<Name>;

  /// The ranks that differ from this one only in the dimensions i with bit i set in `mask`, ordered row-major. Masks
  /// that differ only in dimensions of extent 1 share one communicator.
  const Communicator& communicator(unsigned mask) const { return state_->communicators.at(mask); }

  /// communicator_of<"height", "width">(): the same by name.
  template <fixed_string... Names>
  const Communicator& communicator_of() const {
    return communicator(((1u << index_of<Names>) | ... | 0u));
  }
  const Communicator& world() const { return state_->communicators.back(); }

  /// All of them, by mask.
  std::span<const Communicator> communicators() const { return state_->communicators; }

  /// What all handles to this mesh have, and no other.
  std::shared_ptr<const void> identity() const { return state_; }

  /// What is prepared once for this mesh and ends with it: one object of each type, all handles have the same. It may
  /// not hold the mesh.
  template <class T>
  T& prepared() const {
    return *state_->prepared.template get<T>(detail::address_of_type<T>, [] { return std::make_shared<T>(); });
  }
  template <class T>
  [[deprecated("it is called prepared()")]] T& kept() const {
    return prepared<T>();
  }

  /// Whether both are handles to the same mesh.
  bool operator==(const DeviceMesh&) const = default;

 private:
  static constexpr std::size_t masks = std::size_t{1} << dimensions;
  struct State {
    Coordinate extents;
    Coordinate coordinate;
    int rank;
    std::array<Communicator, masks> communicators;
    mutable detail::Prepared<const char*> prepared{};  // by type; ends before the communicators do
  };

  static std::size_t index(int dimension) { return static_cast<std::size_t>(dimension); }

  static void connect(State& state, const Communicator& world, std::size_t mask) {
    std::size_t cut = 0;  // the part of the mask along which there is anybody else; always <= mask
    std::string label;
    Coordinate origin = state.coordinate;
    for (std::size_t i = 0; i < origin.size(); ++i)
      if ((mask >> i & 1) && state.extents[i] > 1) {
        cut |= std::size_t{1} << i;
        label += (label.empty() ? "" : " x ") + std::string(MeshType::names[i]);
        origin[i] = 0;
      }
    if (cut != mask)
      state.communicators[mask] = state.communicators[cut];
    else if (cut == 0)
      state.communicators[mask] = Communicator();
    else
      state.communicators[mask] = world.split(rank_at(origin, state.extents), state.rank, "mesh " + label);
  }

  std::shared_ptr<const State> state_;
};

/// Collective. At most one extent may be -1 and is then inferred. Throws CollectiveError on all ranks alike, with one
/// sentence, where the extents do not multiply to the number of ranks, or are 0 or negative, or differ between ranks.
///
///   auto mesh = device_mesh<Mesh<"height", "width">>(env.world(), {-1, 2});
template <class MeshType>
DeviceMesh<MeshType> device_mesh(const Communicator& world, typename DeviceMesh<MeshType>::Coordinate extents) {
  detail::check_same_extents(world, extents);
  detail::infer_extents(extents, MeshType::names, world.size());
  return {world, extents, world.rank()};
}

/// The mesh as `rank` would see it, without any ranks: for planning at any size. Throws CollectiveError as device_mesh
/// for extents that are not positive, and Error for a rank outside the mesh.
template <class MeshType>
DeviceMesh<MeshType> dry_mesh(typename DeviceMesh<MeshType>::Coordinate extents, int rank = 0) {
  const auto ranks = detail::infer_extents(extents, MeshType::names, detail::as_many_as_needed);
  if (rank < 0 || rank >= ranks)
    throw Error("rank " + std::to_string(rank) + " is not in a mesh of " + std::to_string(ranks) + " ranks");
  return {Communicator::null(), extents, rank};
}

}  // namespace halogen
