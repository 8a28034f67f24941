// What a program that links halogen::compiled does not instantiate itself; without the library nothing. Each umbrella
// reads this last, so there is no include guard: it declares what that umbrella has read.
#include "halogen/compiled/flags.hpp"
#include "halogen/core/config.hpp"

#if HALOGEN_COMPILED
#define HALOGEN_LISTED_PART(n) 1
#define HALOGEN_INSTANTIATION extern template
#include "halogen/compiled/instantiate.hpp"
#undef HALOGEN_INSTANTIATION
#undef HALOGEN_LISTED_PART
#endif
