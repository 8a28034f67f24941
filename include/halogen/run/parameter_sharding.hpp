// Which ranks hold which pieces of sharded parameters, and whose gradients add up.
#pragma once

#include "halogen/comm/communicator.hpp"
#include "halogen/run/parameter_buckets.hpp"

namespace halogen {

/// Over which ranks parameters are sharded: each of `group` keeps one piece of every bucket.
struct ParameterSharding {
  ParameterBuckets buckets;
  Communicator group;
  Communicator replicas;   ///< the ranks that hold the same piece
  unsigned mesh_mask = 0;  ///< the mesh dimensions that `group` spans
  bool operator==(const ParameterSharding&) const = default;
};

/// Which ranks' gradients add up: those of the group, where the group cuts the field, and `rest`.
struct GradientSum {
  bool over_group = true;
  Communicator rest;
};

}  // namespace halogen
