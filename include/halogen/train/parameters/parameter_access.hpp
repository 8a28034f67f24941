// How an evaluation reaches parameters of one placement.
#pragma once

#include <memory>

#include "halogen/run/parameters/gathered_parameters.hpp"
#include "halogen/run/parameters/whole_parameters.hpp"
#include "halogen/tensor/sharded.hpp"
#include "halogen/train/parameters/sharded_parameters.hpp"

namespace halogen::detail {

/// Made from parameters; called with a layout and the image whose mesh it runs on.
template <class T, Placement P>
class ParameterAccess;

template <class T>
class ParameterAccess<T, Replicate> {
 public:
  using type = WholeParameters<T>;

  ParameterAccess() = default;
  template <class ModelType>
  explicit ParameterAccess(const Parameters<ModelType, T>&) {}

  template <class Image>
  type operator()(const Layout& layout, const Image&) const {
    return type(layout.plan());
  }
  template <class ModelType>
  static constexpr bool serves(const Parameters<ModelType, T>&) {
    return true;
  }
  static constexpr std::size_t staging_bytes() { return 0; }
  /// Of a layout that is not run yet.
  static std::size_t staging_bytes(const Layout&) { return 0; }
};

/// Evaluations share one staging memory: they run one after the other.
template <class T>
class ParameterAccess<T, Shard<0>> {
 public:
  using type = GatheredParameters<T>;

  template <class ModelType>
  explicit ParameterAccess(const Parameters<ModelType, T, Shard<0>>& parameters) : sharding_(parameters.sharding()) {}

  /// Throws CollectiveError, on all ranks alike, for an image that lies on another mesh or that the sharded mesh
  /// dimensions cut in part.
  template <class Image>
  type operator()(const Layout& layout, const Image& image) const {
    return type(layout, sharding_, gradient_sum(image), staging_);
  }

  template <class ModelType>
  bool serves(const Parameters<ModelType, T, Shard<0>>& parameters) const {
    return *parameters.sharding() == *sharding_;
  }

  std::size_t staging_bytes() const { return staging_->bytes(); }
  std::size_t staging_bytes(const Layout& layout) const {
    return ParameterSchedule(layout.plan(), sharding_->buckets, sizeof(T)).staging_bytes();
  }

 private:
  template <class Image>
  GradientSum gradient_sum(const Image& image) const {
    const auto& mesh = image.mesh();
    const unsigned sharded = sharding_->mesh_mask;
    if (sharded >> mesh.dimensions != 0 || !same(mesh.communicator(sharded), sharding_->group))
      throw CollectiveError(
          "the image lies on another mesh than the one that the parameters are sharded over: use one");
    unsigned wide = 0;
    for (int d = 0; d < mesh.dimensions; ++d) wide |= static_cast<unsigned>(mesh.extent(d) > 1) << d;
    const unsigned cuts = image.decomposition().mask({0, 2, 3, 4}) & wide, both = sharded & cuts;
    if (both != 0 && both != (sharded & wide))
      throw CollectiveError(
          "of the mesh dimensions that parameters are sharded over some cut the image and some do not: shard over "
          "either kind");
    return {both != 0, mesh.communicator(cuts & ~sharded)};
  }

  /// A group of one rank is the same on any mesh.
  static bool same(const Communicator& a, const Communicator& b) { return a == b || (a.size() == 1 && b.size() == 1); }

  std::shared_ptr<const ParameterSharding> sharding_;
  std::shared_ptr<Arena> staging_ =
      std::make_shared<Arena>("halogen::staging", "gathered layers", "use smaller buckets");
};

}  // namespace halogen::detail
