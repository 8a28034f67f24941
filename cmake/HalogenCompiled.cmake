# halogen::compiled, a static library beside the headers: ordinary functions, and the instantiations that
# include/halogen/compiled/list.inc names. Who links it compiles less and gets the same results; docs/install.md.
option(HALOGEN_BUILD_COMPILED "Build and install halogen::compiled" ${PROJECT_IS_TOP_LEVEL})

# g++ collects its garbage as from 128 MB; as from 1.5 GB it takes a tenth less time
set(halogen_memory $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1500000>)

# the listed instantiations; no transport shows in them
file(GLOB shares "${PROJECT_SOURCE_DIR}/src/instantiations/*.cpp")  # as PARTS of scripts/compiled_list
add_library(halogen_instantiations OBJECT EXCLUDE_FROM_ALL ${shares})

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
halogen_compiled_options(halogen_instantiations)

# halogen_compiled_library(TARGET LINKED...): the library, its ordinary functions compiled with what LINKED says too
function(halogen_compiled_library target)
  add_library(${target} STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/src/bodies.cpp"
                               $<TARGET_OBJECTS:halogen_instantiations>)
  target_link_libraries(${target} PUBLIC ${ARGN})
  halogen_compiled_options(${target})
endfunction()

halogen_compiled_library(halogen_compiled)
add_library(halogen::compiled ALIAS halogen_compiled)
set_target_properties(halogen_compiled PROPERTIES EXPORT_NAME compiled)
if(HALOGEN_BUILD_COMPILED)
  set_target_properties(halogen_compiled PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()
