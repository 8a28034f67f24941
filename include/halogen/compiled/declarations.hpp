// What a program that links halogen::compiled does not instantiate itself. The umbrella includes this last; without the
// library it says nothing.
#pragma once

#include "halogen/compiled/flags.hpp"

#if HALOGEN_COMPILED
namespace halogen::compiled {
namespace {
[[gnu::used]] const char* const flags_fit = &OwnFlags::here;
}
}  // namespace halogen::compiled

#define HALOGEN_LISTED_PART(n) 1
#define HALOGEN_INSTANTIATION extern template
#include "halogen/compiled/instantiate.hpp"
#undef HALOGEN_INSTANTIATION
#undef HALOGEN_LISTED_PART
#endif
