# NCCL::NCCL, the header of NVIDIA's NCCL (of the CUDA toolkit, or named by NCCL_ROOT). The library is opened when a
# program asks for it; NCCL_LIBRARY is where to look beside the loader's own places.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/../lib
                                                        ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/../lib64
                                                        ${NCCL_INCLUDE_DIR}/../lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL INTERFACE IMPORTED)
  target_include_directories(NCCL::NCCL SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}")
  target_link_libraries(NCCL::NCCL INTERFACE ${CMAKE_DL_LIBS})
  if(NCCL_LIBRARY)
    target_compile_definitions(NCCL::NCCL INTERFACE "HALOGEN_NCCL_PATH=\"${NCCL_LIBRARY}\"")
  endif()
endif()
