#define HALOGEN_PART 2
#include "share.hpp"
