// Deprecated: the former name of halogen/files.hpp, for one release.
#pragma once

#include "halogen/files.hpp"
