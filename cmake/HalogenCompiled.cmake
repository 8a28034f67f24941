# halogen::compiled, a static library beside the headers: ordinary functions, and the instantiations that
# include/halogen/compiled/list.inc names. Who links it compiles less and gets the same results; docs/install.md.
option(HALOGEN_BUILD_COMPILED "Build and install halogen::compiled" ${PROJECT_IS_TOP_LEVEL})

# g++ collects its garbage as from 128 MB; as from 1.5 GB it takes a tenth less time
set(halogen_memory $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1500000>)

# halogen_compiled_options(TARGET)
function(halogen_compiled_options target)
  target_link_libraries(${target} PUBLIC halogen)
  target_compile_definitions(${target} PUBLIC HALOGEN_COMPILED=1)
  target_compile_options(${target} PRIVATE ${halogen_memory})
  # g++ multiplies and adds in one rounding from -O2 on, or with this from -O1 on: a program that compiles some kernels
  # itself rounds as the library does
  target_compile_options(${target} PUBLIC $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fexpensive-optimizations>)
  # kernels are optimised whatever a program is, unless that asks for a debugger
  target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-O3>")
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  halogen_language(${target})
endfunction()

# The listed instantiations, and the ordinary functions in which no transport shows. What the array language declares
# stands in objects that read no layer.
foreach(part IN ITEMS array_language network)
  file(GLOB shares "${PROJECT_SOURCE_DIR}/src/${part}/*.cpp")  # share_N.cpp: as SHARES of scripts/compiled_list
  add_library(halogen_instantiations_${part} OBJECT EXCLUDE_FROM_ALL ${shares})
  halogen_compiled_options(halogen_instantiations_${part})
endforeach()

# halogen_compiled_library(TARGET LINKED...): the library, the array language's functions compiled with what LINKED says
# too; and TARGET_array_language, its part that no layer changes, for this project's own programs
function(halogen_compiled_library target)
  add_library(${target}_bodies OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/src/bodies.cpp")
  set(objects $<TARGET_OBJECTS:${target}_bodies> $<TARGET_OBJECTS:halogen_instantiations_array_language>)
  add_library(${target}_array_language STATIC EXCLUDE_FROM_ALL ${objects})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${objects} $<TARGET_OBJECTS:halogen_instantiations_network>)
  foreach(part IN ITEMS ${target}_bodies ${target}_array_language ${target})
    target_link_libraries(${part} PUBLIC ${ARGN})
    halogen_compiled_options(${part})
    set_target_properties(${part} PROPERTIES LINKER_LANGUAGE "${Kokkos_COMPILE_LANGUAGE}")
  endforeach()
endfunction()

halogen_compiled_library(halogen_compiled)
add_library(halogen::compiled ALIAS halogen_compiled)
set_target_properties(halogen_compiled PROPERTIES EXPORT_NAME compiled)
if(HALOGEN_BUILD_COMPILED)
  set_target_properties(halogen_compiled PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()
