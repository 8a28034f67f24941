# Where a program must not run it says why in one line, once, and fails: cmake -D COMMAND=... -D EXPECT=... -P this
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "(^|\n)error[^\n]*" sentences "${output}")
list(LENGTH sentences count)
if(status EQUAL 0 OR NOT count EQUAL 1 OR NOT sentences MATCHES "${EXPECT}")
  message(FATAL_ERROR "expected a failure and one line with '${EXPECT}', but it ended with ${status} and:\n${output}")
endif()
