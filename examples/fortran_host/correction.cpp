#include "model.hpp"

#include <halogen/export.hpp>

HALOGEN_EXPORT(correction, Correction, float);
