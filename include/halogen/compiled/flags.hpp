// What the flags of a program and those of the halogen::compiled that it links must have in common.
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"
#include "halogen/core/vector_bytes.hpp"
#include "halogen/tensor/space.hpp"

#if !defined(HALOGEN_DEVICE_KERNELS)
#define HALOGEN_DEVICE_KERNELS 0
#endif

namespace halogen::compiled {

/// All that decides how a function of the library is compiled or how its types are laid out, as numbers.
struct Flags {
#if defined(__CUDACC__)
  static constexpr bool cuda = true;
#else
  static constexpr bool cuda = false;  // g++ and clang++ agree on all that a program and the library share
#endif
#if defined(__FMA__)
  static constexpr bool fma = true;
#else
  static constexpr bool fma = false;
#endif
#if defined(HALOGEN_WITH_MPI)
  static constexpr bool mpi = true;
#else
  static constexpr bool mpi = false;
#endif
#if defined(HALOGEN_WITH_NCCL)
  static constexpr bool nccl = true;
#else
  static constexpr bool nccl = false;
#endif
};

/// halogen::compiled defines `here` for its own flags. A program that was compiled with others refers to another type,
/// which does not link: the linker's message names the numbers that the library should have been built with.
template <int KokkosVersion, class ExecutionSpace, bool Cuda, int VectorBytes, int WideVectorBytes, bool Fma, bool Mpi,
          bool Nccl, int DeviceKernels>
struct built_with_other_flags {
  static const char here;
};

using OwnFlags = built_with_other_flags<KOKKOS_VERSION, execution_space, Flags::cuda, vector_bytes, wide_vector_bytes,
                                        Flags::fma, Flags::mpi, Flags::nccl, HALOGEN_DEVICE_KERNELS>;

#if HALOGEN_COMPILED && !defined(HALOGEN_PART)  // a share of the library fits all of its variants
namespace {
[[gnu::used]] const char* const flags_fit = &OwnFlags::here;
}
#endif

}  // namespace halogen::compiled
