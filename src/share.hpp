// Share HALOGEN_PART of the list of halogen::compiled. Shares are sources, so that they are compiled side by side.
// Those of array_language read no layer: a layer's change compiles those of network alone.
#define HALOGEN_LISTED_ARRAY 1
#define HALOGEN_LISTED_NETWORK 1
#define HALOGEN_LISTED_PART(n) (n == HALOGEN_PART)
#define HALOGEN_INSTANTIATION template
#include <halogen/compiled/instantiate.hpp>
