#define HALOGEN_PART 0
#include "share.hpp"
