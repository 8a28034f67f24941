// The ordinary functions of halogen::compiled, which the headers show to nobody else as bodies.
#define HALOGEN_COMPILING_BODIES
#include <halogen/halogen.hpp>

template <>
const char halogen::compiled::OwnFlags::here = 0;
