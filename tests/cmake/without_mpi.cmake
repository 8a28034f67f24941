# Halogen configured without MPI: the tests labelled `single` are built and pass, and none of them links MPI.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
run(${configure} -S "${SOURCE}" -B "${WORK}" "-DCMAKE_PREFIX_PATH=${prefix_path}" -DHALOGEN_ENABLE_MPI=OFF
    -DHALOGEN_BUILD_EXAMPLES=OFF)
run("${CMAKE_COMMAND}" --build "${WORK}" --target single_tests -j 2)
run("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}" -L single --no-tests=error --output-on-failure)
