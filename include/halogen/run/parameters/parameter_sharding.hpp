// Which ranks hold which pieces of sharded parameters, and which ranks' gradients are added.
#pragma once

#include "halogen/comm/communicator.hpp"
#include "halogen/run/parameters/parameter_buckets.hpp"

namespace halogen {

/// The ranks over which parameters are sharded. Each rank of `group` keeps one piece of every bucket.
struct ParameterSharding {
  ParameterBuckets buckets;
  Communicator group;
  Communicator replicas;   ///< the ranks that hold the same pieces
  unsigned mesh_mask = 0;  ///< the mesh dimensions that `group` spans
  bool operator==(const ParameterSharding&) const = default;
};

/// Which ranks' gradients are added: those of the group, if the group cuts the field, and those of `rest`.
struct GradientSum {
  bool over_group = true;
  Communicator rest;
};

}  // namespace halogen
