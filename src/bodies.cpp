// The ordinary functions of the array language, which the headers show to nobody else as bodies.
#define HALOGEN_COMPILING_BODIES
#include <halogen/array_language.hpp>

template <>
const char halogen::compiled::OwnFlags::here = 0;
