// A share of the list of halogen::compiled: CMakeLists.txt compiles this once for each HALOGEN_PART.
#include <halogen/halogen.hpp>

#define HALOGEN_LISTED_ARRAY 1
#define HALOGEN_LISTED_NETWORK 1
#define HALOGEN_LISTED_PART(n) (n == HALOGEN_PART)
#define HALOGEN_INSTANTIATION template
#include <halogen/compiled/instantiate.hpp>
