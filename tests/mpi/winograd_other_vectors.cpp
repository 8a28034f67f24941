// The proofs of winograd.cpp with vectors of the width that this machine would not choose: its kernels by vectors of
// channels where it has those by rows, and the other way round; rows of any size go past the caches.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors without registers of their width
#define HALOGEN_STREAMED_BYTES 0
#if defined(__AVX512VL__) && !defined(__SSE4A__)
#define HALOGEN_WIDE_VECTOR_BYTES 32
#elif defined(__AVX__)
#define HALOGEN_WIDE_VECTOR_BYTES 64
#else
#define HALOGEN_WIDE_VECTOR_BYTES 32
#endif
#include "mpi/winograd.cpp"
