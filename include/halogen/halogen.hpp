// Halogen: domain-parallel deep learning and stencil computing whose placements are types. All but files (io.hpp).
#pragma once

#include "halogen/array_language.hpp"
#include "halogen/layers/attention/multihead_attention.hpp"
#include "halogen/layers/flip.hpp"
#include "halogen/layers/functions/function.hpp"
#include "halogen/network.hpp"
#include "halogen/train/diffusion.hpp"
#include "halogen/train/ensemble.hpp"
#include "halogen/train/evaluate_loss.hpp"
#include "halogen/train/network_output.hpp"
#include "halogen/train/rollout.hpp"
#include "halogen/train/value_and_grad.hpp"

/// The library's short name, as its documentation spells it.
namespace hg = halogen;
