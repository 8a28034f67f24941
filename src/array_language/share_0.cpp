#define HALOGEN_PART 0
#include <halogen/array_language.hpp>

#include "../share.hpp"
