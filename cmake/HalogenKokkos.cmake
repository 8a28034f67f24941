# Finds Kokkos >= 4.7, or takes the Kokkos::kokkos that an enclosing project has already made.
if(NOT TARGET Kokkos::kokkos)
  find_package(Kokkos 4.7 QUIET)
  if(NOT Kokkos_FOUND)
    message(FATAL_ERROR "halogen: Kokkos 4.7 or newer was not found; name its prefix with -DCMAKE_PREFIX_PATH=..., "
                        "or let scripts/kokkos build one and print its prefix")
  endif()
endif()

set(HALOGEN_CUDA OFF)
if("CUDA" IN_LIST Kokkos_DEVICES)
  if(NOT Kokkos_COMPILE_LANGUAGE STREQUAL "CUDA")
    message(FATAL_ERROR "halogen: this Kokkos was built for CUDA without Kokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE=ON; "
                        "scripts/kokkos cuda builds one with it")
  endif()
  set(HALOGEN_CUDA ON)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "${Kokkos_CUDA_ARCHITECTURES}")
  endif()
  enable_language(CUDA)
endif()
