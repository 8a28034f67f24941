#define HALOGEN_PART 1
#include "share.hpp"
