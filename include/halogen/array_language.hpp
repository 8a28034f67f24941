// The array language alone: fields, expressions, reductions, redistribution, attention, and their gradients.
#pragma once

// first, so that a refusal that stands there shows no long way of includes
#include "halogen/tensor/distribute.hpp"

#include "halogen/array/composed_reductions.hpp"
#include "halogen/array/random.hpp"
#include "halogen/array/stages/explain_expression.hpp"
#include "halogen/array/stages/statistics.hpp"
#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/concatenated_pieces.hpp"
#include "halogen/autograd/contraction.hpp"
#include "halogen/autograd/flattened_pieces.hpp"
#include "halogen/autograd/rearranged.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/autograd/value_and_grad.hpp"
#include "halogen/comm/agree.hpp"
#include "halogen/comm/device_mesh.hpp"
#include "halogen/comm/environment.hpp"
#include "halogen/halo/collectives_v.hpp"
#include "halogen/halo/redistribute.hpp"
#include "halogen/halo/redistribute_between.hpp"
#include "halogen/halo/redistribute_vjp.hpp"
#include "halogen/tensor/over.hpp"

#define HALOGEN_LISTED_ARRAY 1
#include "halogen/compiled/declarations.hpp"
#undef HALOGEN_LISTED_ARRAY

namespace hg = halogen;
