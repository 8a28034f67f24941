#define HALOGEN_PART 6
#include <halogen/halogen.hpp>

#include "../share.hpp"
