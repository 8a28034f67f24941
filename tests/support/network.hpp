// train_once and what is beside it, and every layer.
#pragma once

#include <halogen/halogen.hpp>

#include "support/train_once.hpp"
