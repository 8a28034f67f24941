// Files: parameters and fields as safetensors, checkpoints of a training. Link halogen::io.
#pragma once

#include "halogen/io/checkpoint.hpp"
#include "halogen/io/checkpoints.hpp"
#include "halogen/io/fields.hpp"
#include "halogen/io/fit.hpp"
#include "halogen/io/safetensors.hpp"

namespace hg = halogen;
