// The proofs of winograd.cpp with vectors of the width that this machine would not choose: its kernels by vectors of
// channels where it has those by rows, and the other way round.
// optimise: 1
// compiled: no
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors without registers of their width
#if defined(__AVX512VL__) && (!defined(__SSE4A__) || defined(__AVX512VP2INTERSECT__))
#define HALOGEN_WIDE_VECTOR_BYTES 32
#elif defined(__AVX__)
#define HALOGEN_WIDE_VECTOR_BYTES 64
#else
#define HALOGEN_WIDE_VECTOR_BYTES 32
#endif
#include "mpi/layers/winograd.cpp"
