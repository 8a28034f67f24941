# Halogen configured without MPI, header-only: the tests labelled `single` are built and pass, and the downstream project runs
# against what such a build installs, without linking MPI.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
run(${configure} -S "${SOURCE}" -B "${WORK}" "-DCMAKE_PREFIX_PATH=${prefix_path}" -DHALOGEN_ENABLE_MPI=OFF
    -DHALOGEN_BUILD_EXAMPLES=OFF -DHALOGEN_LINK_COMPILED=OFF -DHALOGEN_BUILD_COMPILED=OFF)
run("${CMAKE_COMMAND}" --build "${WORK}" --target single_tests -j 2)
run("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}" -L single --no-tests=error --output-on-failure)

run("${CMAKE_COMMAND}" --install "${WORK}" --prefix "${WORK}/prefix")
run(${configure} -S "${SOURCE}/tests/cmake/downstream" -B "${WORK}/downstream" "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"
    "-DCMAKE_PREFIX_PATH=${WORK}/prefix\\;${prefix_path}")
run("${CMAKE_COMMAND}" --build "${WORK}/downstream")
run("${WORK}/downstream/downstream")
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${WORK}/downstream/downstream" RESOLVED_DEPENDENCIES_VAR libraries)
if(libraries MATCHES "libmpi")
  message(FATAL_ERROR "the downstream program was built without MPI and links it: ${libraries}")
endif()
