// A model as a library for programs in C, Fortran and Python: layers, models, training, and HALOGEN_EXPORT (docs/hosts.md).
#pragma once

#include "halogen/network.hpp"
#include "halogen/hosts/export_model.hpp"
#include "halogen/layers/attention/multihead_attention.hpp"
#include "halogen/layers/flip.hpp"
