# NAME is find_package (installed into a folder of its own first, with a program that brings its own operations) or
# add_subdirectory, of which FetchContent is a case.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
set(project "${SOURCE}/tests/cmake/downstream")
if(NAME STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
  run(${configure} -S "${project}" -B "${WORK}/build" "-DCMAKE_PREFIX_PATH=${WORK}/prefix\\;${prefix_path}"
      -DDOWNSTREAM_OPERATIONS=ON)
else()
  run(${configure} -S "${project}" -B "${WORK}/build" "-DCMAKE_PREFIX_PATH=${prefix_path}"
      "-DHALOGEN_SOURCE=${SOURCE}" -DHALOGEN_ENABLE_MPI=${MPI})
  # fetched it is the same subdirectory: that it configures is enough
  run(${configure} -S "${project}" -B "${WORK}/fetched" "-DCMAKE_PREFIX_PATH=${prefix_path}"
      "-DHALOGEN_FETCHED=${SOURCE}" -DHALOGEN_ENABLE_MPI=${MPI})
endif()
run("${CMAKE_COMMAND}" --build "${WORK}/build")
# starts(COMMAND...): both programs; where they are one source, with and without halogen::compiled, they print the same, to
# the last digit
function(starts)
  foreach(program IN ITEMS downstream downstream_compiled)
    execute_process(COMMAND ${ARGN} "${WORK}/build/${program}" RESULT_VARIABLE status OUTPUT_VARIABLE ${program})
    message("${${program}}")
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "failed (${status}): ${ARGN} ${program}")
    endif()
  endforeach()
  if(NAME STREQUAL "add_subdirectory" AND NOT downstream STREQUAL downstream_compiled)
    message(FATAL_ERROR "header-only and with halogen::compiled the results differ")
  endif()
endfunction()
starts()
if(MPI)
  starts(${MPIEXEC} 3)
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --target downstream_other_flags
                RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(status EQUAL 0 OR NOT said MATCHES "undefined reference to .*built_with_other_flags<")
  message(FATAL_ERROR "a program with other flags than halogen::compiled must not link, and say so: ${said}")
endif()
