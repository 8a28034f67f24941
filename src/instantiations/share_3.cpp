#define HALOGEN_PART 3
#include "share.hpp"
