// The ordinary functions of what the array language does not read: its own are declared here, as in any program.
#define HALOGEN_PART  // no transport shows in them, as in the shares
#include <halogen/array_language.hpp>

#undef HALOGEN_BODIES
#undef HALOGEN_INLINE
#define HALOGEN_BODIES 1
#define HALOGEN_INLINE
#include <halogen/halogen.hpp>
