#define HALOGEN_PART 4
#include <halogen/halogen.hpp>

#include "../share.hpp"
