#define HALOGEN_PART 3
#include <halogen/halogen.hpp>

#include "../share.hpp"
