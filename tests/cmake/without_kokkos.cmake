# Where Kokkos is not found, halogen's sources and its installed package say how to get one.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
# refused(SOURCE ARGUMENTS...): configuring without Kokkos fails, and names the script
function(refused source)
  execute_process(COMMAND ${configure} -S "${source}" -B "${WORK}/build" -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(status EQUAL 0 OR NOT said MATCHES "halogen: Kokkos 4.7 or newer was not found.* scripts/kokkos ")
    message(FATAL_ERROR "${source} must say that Kokkos is missing and what builds one: ${said}")
  endif()
  file(REMOVE_RECURSE "${WORK}/build")
endfunction()
refused("${SOURCE}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
refused("${SOURCE}/tests/cmake/downstream" "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
