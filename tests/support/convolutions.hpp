// What trains networks of convolutions. A test that includes this first, and neither halogen.hpp nor
// support/network.hpp, is not compiled again when another layer changes; its line `// reads: convolutions` has this
// precompiled.
#pragma once

#include <halogen/array_language.hpp>
#include <halogen/layers/conv_transpose2d.hpp>
#include <halogen/layers/residual.hpp>
#include <halogen/models/unet.hpp>
#include <halogen/train/diffusion.hpp>
#include <halogen/train/ensemble.hpp>
#include <halogen/train/evaluate_loss.hpp>
#include <halogen/train/explain_training.hpp>
#include <halogen/train/network_output.hpp>
#include <halogen/train/parameters/copy_parameters.hpp>
#include <halogen/train/rollout.hpp>
#include <halogen/train/trainer.hpp>
#include <halogen/train/value_and_grad.hpp>

#define HALOGEN_LISTED_NETWORK 1
#define HALOGEN_READ 5  // of halogen::compiled's shares (scripts/compiled_list)
#include <halogen/compiled/declarations.hpp>
#undef HALOGEN_READ
#undef HALOGEN_LISTED_NETWORK
