// What a program that links halogen::compiled does not instantiate itself; without the library nothing. Each umbrella
// reads this last, so there is no include guard: it declares what that umbrella has read.
#include "halogen/compiled/flags.hpp"
#include "halogen/core/config.hpp"

#if HALOGEN_COMPILED
#if defined(HALOGEN_READ)  // the last share of networks whose headers have been read (scripts/compiled_list)
#define HALOGEN_LISTED_PART(n) (n > 2 && n <= HALOGEN_READ)
#else
#define HALOGEN_LISTED_PART(n) 1
#endif
#define HALOGEN_INSTANTIATION extern template
#if defined(__clang__)  // the list says `class` of structs too
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wmismatched-tags"
#endif
#include "halogen/compiled/instantiate.hpp"
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#undef HALOGEN_INSTANTIATION
#undef HALOGEN_LISTED_PART
#endif
