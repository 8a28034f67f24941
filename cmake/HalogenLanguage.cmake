# halogen_language(TARGET): compiles the target's C++ sources in the language that this Kokkos needs: CUDA, or C++ as
# they are. Call it once the target's sources are known. Include this file where Kokkos has been found.
set_property(GLOBAL PROPERTY HALOGEN_LANGUAGE "${Kokkos_COMPILE_LANGUAGE}")

function(halogen_language target)
  get_property(language GLOBAL PROPERTY HALOGEN_LANGUAGE)
  if(NOT language STREQUAL "CUDA")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.(cpp|cc|cxx)$")
  foreach(source IN LISTS sources)
    get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${folder}")
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CUDA)
  endforeach()
endfunction()
