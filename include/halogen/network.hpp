// Networks alone: layers, models, parameters and the trainer. Gradients by hand, value_and_grad, and networks inside
// expressions need halogen.hpp.
#pragma once

#include "halogen/comm/agree.hpp"
#include "halogen/comm/device_mesh.hpp"
#include "halogen/comm/environment.hpp"
#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/batch_norm.hpp"
#include "halogen/layers/conv3d.hpp"
#include "halogen/layers/conv_transpose2d.hpp"
#include "halogen/layers/crop.hpp"
#include "halogen/layers/elu.hpp"
#include "halogen/layers/expand.hpp"
#include "halogen/layers/gelu.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/interpolate.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/leaky_relu.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/lp_pool2d.hpp"
#include "halogen/layers/map.hpp"
#include "halogen/layers/max_pool2d.hpp"
#include "halogen/layers/max_pool3d.hpp"
#include "halogen/layers/pad.hpp"
#include "halogen/layers/pixel_shuffle.hpp"
#include "halogen/layers/relu.hpp"
#include "halogen/layers/residual.hpp"
#include "halogen/layers/sigmoid.hpp"
#include "halogen/layers/signals.hpp"
#include "halogen/layers/silu.hpp"
#include "halogen/layers/softmax.hpp"
#include "halogen/layers/stencil.hpp"
#include "halogen/layers/tanh.hpp"
#include "halogen/layers/upsample.hpp"
#include "halogen/models/convnext.hpp"
#include "halogen/models/resnet.hpp"
#include "halogen/models/unet.hpp"
#include "halogen/tensor/distribute.hpp"
#include "halogen/train/explain.hpp"
#include "halogen/train/trainer.hpp"

#define HALOGEN_LISTED_NETWORK 1
#include "halogen/compiled/declarations.hpp"
#undef HALOGEN_LISTED_NETWORK

namespace hg = halogen;
