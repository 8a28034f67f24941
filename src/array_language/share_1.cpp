#define HALOGEN_PART 1
#include <halogen/array_language.hpp>

#include "../share.hpp"
