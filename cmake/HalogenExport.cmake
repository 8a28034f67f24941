# halogen_export(NAME SOURCE... [STATIC_RUNTIME]): the shared library NAME of the model that HALOGEN_EXPORT(NAME, ...) names
# in one of the sources, for programs in C, Fortran and Python (docs/hosts.md). Only the functions NAME_... are visible.
# Beside it, in the folder NAME of the build folder, lie a header NAME.h, which who links NAME includes, and a module
# NAME_model in NAME.f90, which a Fortran program compiles (its sources: $<TARGET_PROPERTY:NAME,HALOGEN_FORTRAN>).
# STATIC_RUNTIME: the C++ library of the compiler is a part of it, for hosts that have another one.
set(HALOGEN_EXPORT_FOLDER "${CMAKE_CURRENT_LIST_DIR}" CACHE INTERNAL "where halogen_export has its templates")

function(halogen_export name)
  cmake_parse_arguments(PARSE_ARGV 1 EXPORT STATIC_RUNTIME "" "")
  if(NOT TARGET halogen::io)
    message(FATAL_ERROR "halogen_export(${name}): a model reads its parameters by halogen::io, which needs nlohmann_json "
                        "3.11 and zlib: install them (nlohmann-json3-dev, zlib1g-dev)")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  add_library(${name} SHARED ${EXPORT_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE halogen::io)
  if(TARGET halogen::compiled)
    target_link_libraries(${name} PRIVATE halogen::compiled)
  endif()
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O2>)
  endif()
  halogen_language(${name})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(UNIX AND NOT APPLE)
    file(CONFIGURE OUTPUT "${folder}/visible" CONTENT "{ global: ${name}_*; local: *; };\n")
    target_link_options(${name} PRIVATE "LINKER:--version-script=${folder}/visible" LINKER:--gc-sections)
    if(EXPORT_STATIC_RUNTIME)
      target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    endif()
  endif()

  file(CONFIGURE OUTPUT "${folder}/${name}.h" CONTENT
"/* The model that was exported as ${name}: halogen/model.h has the contracts. */
#include <halogen/model.h>
#ifdef __cplusplus
extern \"C\" {
#endif
HALOGEN_MODEL(${name})
#ifdef __cplusplus
}
#endif
")
  target_include_directories(${name} INTERFACE "${folder}" $<TARGET_PROPERTY:halogen::halogen,INTERFACE_INCLUDE_DIRECTORIES>)
  halogen_fortran_module(${name} "${folder}/${name}.f90")
  set_target_properties(${name} PROPERTIES HALOGEN_FORTRAN "${folder}/${name}.f90")
endfunction()

# The module of a model: what differs by type and rank of arrays is written out for each
function(halogen_fortran_module name output)
  set(template "${HALOGEN_EXPORT_FOLDER}/model_array.f90.in")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${template}")
  set(described "")
  foreach(kind IN ITEMS real32 real64)
    foreach(rank RANGE 2 4)
      string(REPEAT ", :" ${rank} shape)
      string(SUBSTRING "${shape}" 2 -1 shape)
      string(REPEAT ", 1" ${rank} first)
      string(SUBSTRING "${first}" 2 -1 first)
      set(strides "")
      set(sizes "")
      foreach(d RANGE 1 ${rank})
        set(second "")
        foreach(i RANGE 1 ${rank})
          if(i EQUAL d)
            list(APPEND second 2)
          else()
            list(APPEND second 1)
          endif()
        endforeach()
        list(JOIN second ", " second)
        math(EXPR reversed "${rank} - ${d} + 1")
        list(PREPEND sizes "size(x, ${d})")
        string(APPEND strides "
    if (size(x, ${d}) > 1) array%stride(${reversed}) = (transfer(c_loc(x(${second})), here) - here) / (storage_size(x) / 8)")
      endforeach()
      list(JOIN sizes ", " sizes)
      file(READ "${template}" text)
      string(CONFIGURE "${text}" text @ONLY)
      string(APPEND described "${text}")
      list(APPEND arrays "array_${kind}_${rank}")
      list(APPEND infers "infer_${kind}_${rank}")
      list(APPEND steps "step_${kind}_${rank}")
    endforeach()
  endforeach()
  list(JOIN arrays ", " arrays)
  list(JOIN infers ", " infers)
  list(JOIN steps ", " steps)
  configure_file("${HALOGEN_EXPORT_FOLDER}/model.f90.in" "${output}" @ONLY)
endfunction()
