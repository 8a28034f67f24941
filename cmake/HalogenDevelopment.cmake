# What a developer's build of Halogen itself wants, and a project that uses it must not get.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
option(HALOGEN_SANITIZE "Address and undefined behaviour sanitizers in everything that is built here" OFF)

find_program(HALOGEN_CCACHE ccache)
if(HALOGEN_CCACHE)
  foreach(language IN ITEMS CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${HALOGEN_CCACHE}")
    endif()
  endforeach()
endif()

# lld links a test program in 0.5 s, where ld takes 4
find_program(HALOGEN_LLD NAMES ld.lld)
if(HALOGEN_LLD AND NOT HALOGEN_CUDA AND NOT HALOGEN_SANITIZE)
  add_link_options(-fuse-ld=lld)
endif()

if(HALOGEN_SANITIZE)
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=undefined;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=address,undefined)
endif()
