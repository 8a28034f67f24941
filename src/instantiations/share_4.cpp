#define HALOGEN_PART 4
#include "share.hpp"
