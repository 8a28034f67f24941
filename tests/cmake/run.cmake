# run(COMMAND...): prints the command's output and ends the test where it fails
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "failed (${status}): ${line}")
  endif()
endfunction()

string(REPLACE ";" "\\;" prefix_path "${PREFIX_PATH}")
set(configure "${CMAKE_COMMAND}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DKokkos_DIR=${KOKKOS}"
    "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    # as Halogen's own build, so that ccache knows its objects here
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG" -DCMAKE_CXX_EXTENSIONS=OFF)
file(REMOVE_RECURSE "${WORK}")
