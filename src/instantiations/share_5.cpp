#define HALOGEN_PART 5
#include "share.hpp"
