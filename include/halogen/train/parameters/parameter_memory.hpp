// Bytes on one rank of what belongs to parameters, replicated or sharded; known without any rank.
#pragma once

#include "halogen/run/parameters/parameter_schedule.hpp"
#include "halogen/train/parameters/sharded_parameters.hpp"

namespace halogen {

/// Per rank. Staging is what layers occupy that are gathered, and gradients that are not yet reduced.
struct ParameterMemory {
  std::size_t parameters = 0, gradient = 0, optimizer = 0, staging = 0;

  std::size_t total() const { return parameters + gradient + optimizer + staging; }
  bool operator==(const ParameterMemory&) const = default;
};

/// What training with AdamW takes where every rank holds all.
template <class ModelType, class T>
constexpr ParameterMemory parameter_memory() {
  const std::size_t trained = static_cast<std::size_t>(Parameters<ModelType, T>::trained) * sizeof(T);
  return {static_cast<std::size_t>(Parameters<ModelType, T>::count) * sizeof(T), trained, 2 * trained, 0};
}

/// And where the ranks of some mesh dimensions share them; the mesh may be dry.
///
///   parameter_memory<UNet, float>(dry_mesh<Mesh>({64, 1}), shard_parameters<"data">)
template <class ModelType, class T, class MeshType, ShardsParameters Sharding>
ParameterMemory parameter_memory(const DeviceMesh<MeshType>& mesh, Sharding sharding) {
  const auto sharded = sharding.template on<ModelType, T>(mesh);
  const Plan& plan = plan_of<ModelType, input_channels<ModelType>, PlanKind::training>;
  const std::size_t trained = static_cast<std::size_t>(sharded->buckets.values_per_rank()) * sizeof(T);
  const std::size_t buffers = static_cast<std::size_t>(sharded->buckets.buffers().piece) * sizeof(T);
  return {trained + buffers, trained, 2 * trained,
          detail::ParameterSchedule(plan, sharded->buckets, sizeof(T)).staging_bytes()};
}

}  // namespace halogen
