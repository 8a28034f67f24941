// Deprecated: the former name of halogen/array_language.hpp, for one release.
#pragma once

#include "halogen/array_language.hpp"
