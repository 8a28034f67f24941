#include <halogen/export.hpp>

#include "hosts/models.hpp"

HALOGEN_EXPORT(small, hosts::Small, float, hg::mse, hg::AdamW);
