#define HALOGEN_PART 2
#include <halogen/array_language.hpp>

#include "../share.hpp"
