// Share HALOGEN_PART of the list of halogen::compiled. Shares are sources, so that they are compiled side by side.
// Those of array_language read no layer: a layer's change compiles those of network alone. Of these, some read not all
// layers; HALOGEN_READ is the last share whose headers they have read (SHARES of scripts/compiled_list).
#if defined(HALOGEN_READ)
#define HALOGEN_LISTED_NETWORK 1
#define HALOGEN_LISTED_PART(n) (n > 2 && n <= HALOGEN_READ)
#define HALOGEN_INSTANTIATION extern template
#include <halogen/compiled/instantiate.hpp>
#undef HALOGEN_INSTANTIATION
#undef HALOGEN_LISTED_PART
#undef HALOGEN_LISTED_NETWORK
#endif

#define HALOGEN_LISTED_ARRAY 1
#define HALOGEN_LISTED_NETWORK 1
#define HALOGEN_LISTED_PART(n) (n == HALOGEN_PART)
#define HALOGEN_INSTANTIATION template
#include <halogen/compiled/instantiate.hpp>
