# Functions for tests and examples; a comment line at the head of a source says what differs from the default:
#   // ranks: 1 2 4      numbers of MPI ranks it is run on (without MPI: once, as a single process)
#   // label: single     further CTest labels; the tests labelled `single` also run in a build without MPI
#   // timeout: 300      seconds
#   // program: layers   tests/CMakeLists.txt: compiled as one with the sources of that program
#   // optimise: 3       level, where the default does not do
#   // compiled: no      header-only: it sets what halogen::compiled was built with, or compares bits at -O0
find_package(Python3 COMPONENTS Interpreter REQUIRED)

# Open MPI as root, with more ranks than cores, and on one machine, where it need not look for networks for longer than
# many a test takes (environment, not flags: other MPIs ignore it); and threads that sleep while they wait, since CTest
# runs several tests at once.
set(HALOGEN_RUN_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 OMPI_MCA_osc=^ucx
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMP_WAIT_POLICY=passive)
if(HALOGEN_CUDA)  # several ranks on one GPU: NCCL 2.30 can, with few thread blocks each and without multicast
  list(APPEND HALOGEN_RUN_ENVIRONMENT NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=2)
endif()
if(HALOGEN_SANITIZE)
  list(APPEND HALOGEN_RUN_ENVIRONMENT ASAN_OPTIONS=fast_unwind_on_malloc=0
       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks_of_mpi.supp:print_suppressions=0")
endif()

# halogen_comment(SOURCE KEY DEFAULT VARIABLE): the words behind "// KEY:", as a list
function(halogen_comment source key default variable)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  file(STRINGS "${source}" lines REGEX "^// ${key}:")
  set(words ${default})
  if(lines)
    string(REGEX REPLACE "^// ${key}: *" "" words "${lines}")
    string(REGEX REPLACE "[ ,]+" ";" words "${words}")
  endif()
  set(${variable} ${words} PARENT_SCOPE)
endfunction()

# nvcc takes longer for the whole library than for the few programs that a CUDA build checks
if(HALOGEN_CUDA)
  set(halogen_links_compiled OFF)
else()
  set(halogen_links_compiled ON)
endif()
option(HALOGEN_LINK_COMPILED "Tests, examples and bench link halogen::compiled" ${halogen_links_compiled})

# halogen_libraries(VARIANT VARIABLE): what a program of this project links. VARIANT: compiled, array_language (its part
# that no layer changes), or headers
function(halogen_libraries variant variable)
  if(variant STREQUAL "compiled" AND HALOGEN_LINK_COMPILED)
    set(${variable} halogen::compiled PARENT_SCOPE)
  elseif(variant STREQUAL "array_language" AND HALOGEN_LINK_COMPILED)
    set(${variable} halogen_compiled_array_language PARENT_SCOPE)
  else()
    set(${variable} halogen::halogen PARENT_SCOPE)
  endif()
endfunction()

# halogen_options(TARGET LEVEL): what every executable of this project is compiled with
function(halogen_options target level)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>" ${halogen_memory})
  if(NOT level STREQUAL "")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-O${level}>")
  endif()
endfunction()

# clang++ compiles what is tested at -O0, in half of g++'s time (docs/decisions/0027). It links the halogen::compiled that
# g++ compiled, and clang's OpenMP, which serves the objects of g++ too.
option(HALOGEN_TEST_BY_CLANG "Where g++ is the compiler and clang++ is found, it compiles the tests that are not optimised" ON)
find_program(HALOGEN_CLANG NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
set(halogen_clang)
if(HALOGEN_CLANG AND HALOGEN_TEST_BY_CLANG AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT HALOGEN_CUDA AND NOT HALOGEN_SANITIZE)
  execute_process(COMMAND "${HALOGEN_CLANG}" -print-file-name=libomp.so.5 OUTPUT_VARIABLE halogen_clang_openmp
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/openmp.cpp" CONTENT "#include <omp.h>\n")
  execute_process(COMMAND "${HALOGEN_CLANG}" -fopenmp -std=c++20 -fsyntax-only "${PROJECT_BINARY_DIR}/openmp.cpp"
                  RESULT_VARIABLE status ERROR_QUIET)
  execute_process(COMMAND "${HALOGEN_CLANG}" -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0 AND IS_ABSOLUTE "${halogen_clang_openmp}" AND version VERSION_GREATER_EQUAL 14)
    set(halogen_clang "${PROJECT_SOURCE_DIR}/cmake/by_clang" ${CMAKE_CXX_COMPILER_LAUNCHER} "${HALOGEN_CLANG}" --)
  endif()
endif()

# halogen_by_clang(TARGET LEVEL): clang++ compiles TARGET if that is not optimised
function(halogen_by_clang target level)
  if(halogen_clang AND level STREQUAL "0")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${halogen_clang}")
    target_link_libraries(${target} PRIVATE "${halogen_clang_openmp}")
  endif()
endfunction()

# halogen_precompiled(TARGET LEVEL UMBRELLA LIBRARY [DEFINITION...]): TARGET reads halogen/UMBRELLA.hpp precompiled, or
# tests/support/convolutions.hpp; all of that level, umbrella, library and definitions share it. g++ writes one in the time in
# which it reads the headers two to three times.
function(halogen_precompiled target level umbrella library)
  if(HALOGEN_CUDA OR HALOGEN_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  string(MAKE_C_IDENTIFIER "umbrella_${level}_${umbrella}_${library}_${ARGN}" precompiled)
  if(NOT TARGET ${precompiled})
    set(source "${PROJECT_BINARY_DIR}/umbrella.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "")
    add_library(${precompiled} OBJECT EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(${precompiled} PRIVATE ${library})
    target_compile_definitions(${precompiled} PRIVATE ${ARGN})
    halogen_options(${precompiled} "${level}")
    halogen_by_clang(${precompiled} "${level}")
    halogen_language(${precompiled})
    target_compile_options(${precompiled} PRIVATE -fpch-preprocess)  # for ccache
    set(header "<halogen/${umbrella}.hpp>")
    if(umbrella STREQUAL "convolutions")
      set(header "${PROJECT_SOURCE_DIR}/tests/support/convolutions.hpp")
    endif()
    target_precompile_headers(${precompiled} PRIVATE "${header}")
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# halogen_executable(NAME SOURCES... [OPTIMISE LEVEL] [LIBRARIES TARGET...]): an executable of this project, with
# warnings. It links halogen::compiled unless LIBRARIES says what else
function(halogen_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 argument "" "OPTIMISE" "LIBRARIES")
  add_executable(${name} ${argument_UNPARSED_ARGUMENTS})
  halogen_by_clang(${name} "${argument_OPTIMISE}")
  if(NOT argument_LIBRARIES)
    halogen_libraries(compiled argument_LIBRARIES)
  endif()
  target_link_libraries(${name} PRIVATE ${argument_LIBRARIES})
  halogen_options(${name} "${argument_OPTIMISE}")
  halogen_language(${name})
  halogen_lazy_driver(${name})
endfunction()

# halogen_emulated(TARGET): runs on tests/support/cuda, which interprets its PTX, and needs no GPU
option(HALOGEN_EMULATED "Programs of a CUDA build run without a GPU: tests/support/cuda interprets their PTX" OFF)
function(halogen_emulated target)
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY None)
  add_dependencies(${target} cuda_standin)
  if(TARGET nccl_standin)
    add_dependencies(${target} nccl_standin)
  endif()
  # ahead of Kokkos, whose functions of the driver it has too
  target_link_options(${target} PRIVATE LINKER:--no-as-needed $<TARGET_FILE:cuda_standin> LINKER:--as-needed)
  set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH "$<TARGET_FILE_DIR:cuda_standin>")
endfunction()

# halogen_lazy_driver(TARGET): starts where there is no CUDA driver, to say so
function(halogen_lazy_driver target)
  if(HALOGEN_EMULATED)
    halogen_emulated(${target})
  elseif(HALOGEN_CUDA)
    target_link_libraries(${target} PRIVATE lazy_cuda_driver)
    target_link_options(${target} PRIVATE LINKER:--as-needed)
  endif()
endfunction()
if(HALOGEN_CUDA)
  find_package(CUDAToolkit REQUIRED)
  add_library(lazy_cuda_driver OBJECT "${PROJECT_SOURCE_DIR}/cmake/lazy_cuda_driver.cpp")
  target_include_directories(lazy_cuda_driver PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(lazy_cuda_driver PUBLIC ${CMAKE_DL_LIBS})
  add_subdirectory("${PROJECT_SOURCE_DIR}/tests/support/cuda" "${PROJECT_BINARY_DIR}/cuda_standin")
endif()

# halogen_test(NAME TARGET RANKS FILE...): the CTest entry that runs TARGET with HALOGEN_RUN_ARGUMENTS, on RANKS ranks; 0 is no
# mpirun. ./dev test does not run it again while TARGET, the references and the FILEs are those with which it passed.
function(halogen_test name target ranks)
  set(command)
  if(NOT HALOGEN_CUDA)
    set(command "${PROJECT_SOURCE_DIR}/tests/support/once" "${PROJECT_BINARY_DIR}/passed/${name}" $<TARGET_FILE:${target}>
                "${PROJECT_SOURCE_DIR}/tests/reference" ${ARGN})
    if(TARGET nccl_standin)
      list(APPEND command $<TARGET_FILE:nccl_standin>)
    endif()
    list(APPEND command --)
  endif()
  if(ranks GREATER 0)
    list(APPEND command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks})
  endif()
  add_test(NAME ${name} COMMAND ${command} $<TARGET_FILE:${target}> ${HALOGEN_RUN_ARGUMENTS})
endfunction()

# halogen_run(TEST TARGET SOURCES ranks... ): one CTest entry per number of ranks, named TEST.RANKS; 0 is no mpirun. The
# program gets HALOGEN_RUN_ARGUMENTS. In a CUDA build all of them belong to the label device, and share one GPU.
function(halogen_run test target sources)
  set(timeout 0)
  foreach(source IN LISTS sources)
    halogen_comment("${source}" timeout 180 seconds)
    halogen_comment("${source}" label "" labels)
    if(seconds GREATER timeout)
      set(timeout ${seconds})
    endif()
  endforeach()
  if(HALOGEN_EMULATED)
    math(EXPR timeout "${timeout} * 20")
  endif()
  foreach(ranks IN LISTS ARGN)
    if(ranks EQUAL 0)
      set(name ${test})
      set(processors 1)
    else()
      set(name ${test}.${ranks})
      set(processors ${ranks})
    endif()
    halogen_test(${name} ${target} ${ranks})
    string(REGEX REPLACE "\\..*" "" kind ${test})
    if(HALOGEN_CUDA)
      list(APPEND labels device)
      if(NOT HALOGEN_EMULATED)
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu)
      endif()
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${processors} LABELS "${kind};${labels}"
                         ENVIRONMENT "${HALOGEN_RUN_ENVIRONMENT}")
  endforeach()
endfunction()

# halogen_ranks(SOURCE DEFAULT VARIABLE): the rank counts of a source, or 0 (a plain process) in a build without MPI
function(halogen_ranks source default variable)
  halogen_comment("${source}" ranks "${default}" ranks)
  if(NOT HALOGEN_ENABLE_MPI)
    set(ranks 0)
  elseif(HALOGEN_CUDA AND NOT ranks EQUAL 0)  # that share one GPU
    list(FILTER ranks INCLUDE REGEX "^[124]$")
  endif()
  set(${variable} ${ranks} PARENT_SCOPE)
endfunction()
