// Halogen: domain-parallel deep learning and stencil computing whose placements are types. Includes all but io/.
#pragma once

#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/contraction.hpp"
#include "halogen/autograd/rearranged.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/comm/agree.hpp"
#include "halogen/comm/device_mesh.hpp"
#include "halogen/comm/environment.hpp"
#include "halogen/expr/explain_expression.hpp"
#include "halogen/expr/statistics.hpp"
#include "halogen/halo/collectives_v.hpp"
#include "halogen/halo/redistribute.hpp"
#include "halogen/halo/redistribute_between.hpp"
#include "halogen/halo/redistribute_vjp.hpp"
#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/conv3d.hpp"
#include "halogen/layers/conv_transpose2d.hpp"
#include "halogen/layers/elu.hpp"
#include "halogen/layers/gelu.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/leaky_relu.hpp"
#include "halogen/layers/max_pool2d.hpp"
#include "halogen/layers/max_pool3d.hpp"
#include "halogen/layers/pad.hpp"
#include "halogen/layers/relu.hpp"
#include "halogen/layers/residual.hpp"
#include "halogen/layers/sigmoid.hpp"
#include "halogen/layers/silu.hpp"
#include "halogen/layers/softmax.hpp"
#include "halogen/layers/tanh.hpp"
#include "halogen/layers/upsample.hpp"
#include "halogen/models/unet.hpp"
#include "halogen/tensor/distribute.hpp"
#include "halogen/train/explain.hpp"
#include "halogen/train/network_output.hpp"
#include "halogen/train/trainer.hpp"
#include "halogen/train/value_and_grad.hpp"

#define HALOGEN_LISTED_ARRAY 1
#define HALOGEN_LISTED_NETWORK 1
#include "halogen/compiled/declarations.hpp"

/// The library's short name, as its documentation spells it.
namespace hg = halogen;
