// The differentiable collectives on uneven pieces, all of them.
#pragma once

#include "halogen/halo/all_gather_v.hpp"
#include "halogen/halo/gather_v.hpp"
#include "halogen/halo/indexed_all_to_all_v.hpp"
#include "halogen/halo/reduce_scatter_v.hpp"
#include "halogen/halo/scatter_v.hpp"
