#define HALOGEN_PART 5
#include <halogen/halogen.hpp>

#include "../share.hpp"
