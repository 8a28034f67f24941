// Parameters<Model, T, Shard<0>>: this rank's 1/N of the flat array, in the order of its buckets, and all buffers.
#pragma once

#include <memory>
#include <utility>

#include "halogen/comm/device_mesh.hpp"
#include "halogen/run/parameters/parameter_sharding.hpp"
#include "halogen/train/parameters/parameters.hpp"

namespace halogen {

/// Shards parameters, gradients and the optimiser's state over the mesh dimensions of these names (FSDP). Layers whose
/// parameters together fit bucket_bytes are gathered and reduced as one; 0: each by itself.
/// For nvcc 13.0 name it by an alias ahead of the first shard_parameters<...> (docs/gpu.md).
template <fixed_string... Names>
struct ShardParameters {
  static constexpr int mesh_dimensions = sizeof...(Names);
  static_assert(mesh_dimensions > 0, "shard_parameters names at least one mesh dimension");
  std::size_t bucket_bytes = 0;

  /// Local. The pieces of a model's parameters on a mesh, which may be dry.
  template <class ModelType, class T, class MeshType>
  std::shared_ptr<const ParameterSharding> on(const DeviceMesh<MeshType>& mesh) const {
    constexpr unsigned mask = ((1u << MeshType::template index_of<Names>) | ...);
    constexpr unsigned all = (1u << MeshType::rank) - 1;
    const int ranks = (mesh.extent(MeshType::template index_of<Names>) * ...);
    return std::make_shared<const ParameterSharding>(ParameterSharding{
        ParameterBuckets(Parameters<ModelType, T>::graph(), ranks, static_cast<index_t>(bucket_bytes / sizeof(T))),
        mesh.communicator(mask), mesh.communicator(all & ~mask), mask});
  }
};
template <fixed_string... Names>
inline constexpr ShardParameters<Names...> shard_parameters{};

/// A ShardParameters of whatever names.
template <class S>
concept ShardsParameters = requires(const S& sharding) {
  S::mesh_dimensions;
  sharding.bucket_bytes;
};

/// Their gradient has the same placement, the same pieces. Copies are shallow; clone() is deep.
template <class ModelType, class T>
class Parameters<ModelType, T, Shard<0>> {
 public:
  using model_type = ModelType;
  using value_type = T;
  using placement = Shard<0>;
  static constexpr index_t count = Parameters<ModelType, T>::count;

  static constexpr const Graph& graph() { return Parameters<ModelType, T>::graph(); }

  /// Zeros.
  explicit Parameters(std::shared_ptr<const ParameterSharding> sharding,
                      const std::string& label = "halogen::parameters")
      : Parameters(sharding, label, sharding->buckets.values_per_rank() + sharding->buckets.buffers().piece) {}

  const std::shared_ptr<const ParameterSharding>& sharding() const { return sharding_; }
  index_t trained_values() const { return sharding_->buckets.values_per_rank(); }
  /// Whether it has buffers: a gradient and a moment have none.
  bool has_buffers() const { return static_cast<index_t>(values_.extent(0)) > trained_values(); }
  T* data() const { return values_.data(); }
  const Kokkos::View<T*, memory_space>& view() const { return values_; }

  bool is_laid_out_as(const Parameters& other) const { return *sharding_ == *other.sharding_; }
  /// Zeros of the same layout without buffers.
  Parameters zeros(const std::string& label) const { return Parameters(sharding_, label, trained_values()); }
  Parameters clone() const {
    Parameters copy(sharding_, "halogen::parameters", static_cast<index_t>(values_.extent(0)));
    Kokkos::deep_copy(copy.values_, values_);
    return copy;
  }

  /// Sets this rank's pieces. values(bucket) is called for each bucket and then for all buffers, and returns a function
  /// of the index in the flat array, which is called in ascending order.
  template <class Values>
  void fill(Values values) {
    std::vector<T> own(values_.size());
    const auto set = [&](const ParameterBuckets::Bucket& bucket, index_t first) {
      const auto value = values(bucket);
      for (index_t i = 0; i < bucket.piece; ++i)
        own[static_cast<std::size_t>(bucket.offset + i)] =
            first + i < bucket.end ? static_cast<T>(value(first + i)) : T(0);
    };
    for (const ParameterBuckets::Bucket& bucket : sharding_->buckets)
      set(bucket, bucket.begin + bucket.piece * sharding_->group.rank());
    const ParameterBuckets::Bucket buffers = sharding_->buckets.buffers();
    if (has_buffers()) set(buffers, buffers.begin);
    copy_to_view(values_, own);
  }

  /// Collective over the group. Calls f(bucket, values) with the whole of each bucket in turn, and with all buffers, on
  /// the host.
  template <class F>
  void for_each_bucket(F f) const {
    const std::vector<T> own = host_copy(values_);
    std::vector<T> whole;
    for (const ParameterBuckets::Bucket& bucket : sharding_->buckets) {
      whole.resize(static_cast<std::size_t>(bucket.piece * sharding_->buckets.ranks()));
      sharding_->group.all_gather(own.data() + bucket.offset, static_cast<std::size_t>(bucket.piece) * sizeof(T),
                                  whole.data());
      f(bucket, whole.data());
    }
    const ParameterBuckets::Bucket buffers = sharding_->buckets.buffers();
    if (has_buffers()) f(buffers, own.data() + buffers.offset);
  }

 private:
  Parameters(std::shared_ptr<const ParameterSharding> sharding, const std::string& label, index_t values)
      : sharding_(std::move(sharding)),
        values_((detail::require_environment(), label), static_cast<std::size_t>(values)) {}

  std::shared_ptr<const ParameterSharding> sharding_;
  detail::Lasting<Kokkos::View<T*, memory_space>> values_;
};

/// PyTorch's start, the same values as initial_parameters<ModelType, T>(seed); each rank draws its own.
template <class ModelType, class T, class MeshType, ShardsParameters Sharding>
Parameters<ModelType, T, Shard<0>> initial_parameters(std::uint64_t seed, const DeviceMesh<MeshType>& mesh,
                                                      Sharding sharding) {
  Parameters<ModelType, T, Shard<0>> parameters(sharding.template on<ModelType, T>(mesh));
  int p = 0;
  const auto value = [&](index_t i) {
    p = parameters.graph().parameter_at(i, p);
    return initial_value(parameters.graph(), seed, p, i - parameters.graph().parameters[p].offset);
  };
  parameters.fill([&](const ParameterBuckets::Bucket&) { return value; });
  return parameters;
}

/// Replicate -> Shard: a copy of this rank's pieces, of a gradient without buffers. Nothing moves.
template <class ModelType, class T, class MeshType, ShardsParameters Sharding>
Parameters<ModelType, T, Shard<0>> redistribute(const Parameters<ModelType, T>& parameters,
                                                const DeviceMesh<MeshType>& mesh, Sharding sharding) {
  const std::vector<T> all = parameters.to_host();
  Parameters<ModelType, T, Shard<0>> result(sharding.template on<ModelType, T>(mesh));
  if (!parameters.has_buffers()) result = result.zeros("halogen::gradient");
  result.fill(
      [&](const ParameterBuckets::Bucket&) { return [&](index_t i) { return all[static_cast<std::size_t>(i)]; }; });
  return result;
}

/// Shard -> Replicate: one all_gather a bucket. Every rank then holds all, which training never does.
template <class To, class ModelType, class T>
  requires std::is_same_v<To, Replicate>
Parameters<ModelType, T> redistribute(const Parameters<ModelType, T, Shard<0>>& parameters) {
  Parameters<ModelType, T> result;
  if (!parameters.has_buffers()) result = result.zeros("halogen::gradient");
  std::vector<T> all(static_cast<std::size_t>(result.size()));
  parameters.for_each_bucket([&](const ParameterBuckets::Bucket& bucket, const T* values) {
    std::copy(values, values + (bucket.end - bucket.begin), all.begin() + bucket.begin);
  });
  result.copy_from_host(all);
  return result;
}

}  // namespace halogen
