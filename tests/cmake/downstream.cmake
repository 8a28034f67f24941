# NAME is find_package (installed into a folder of its own first) or add_subdirectory.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
set(project "${SOURCE}/tests/cmake/downstream")
if(NAME STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
  run(${configure} -S "${project}" -B "${WORK}/build" "-DCMAKE_PREFIX_PATH=${WORK}/prefix\\;${prefix_path}")
else()
  run(${configure} -S "${project}" -B "${WORK}/build" "-DCMAKE_PREFIX_PATH=${prefix_path}"
      "-DHALOGEN_SOURCE=${SOURCE}")
endif()
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/downstream")
