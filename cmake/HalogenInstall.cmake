# Headers, exported targets, halogenConfig.cmake and its version file.
include(CMakePackageConfigHelpers)
set(halogen_package "${CMAKE_INSTALL_LIBDIR}/cmake/halogen")

install(TARGETS ${halogen_targets} EXPORT halogenTargets FILE_SET HEADERS)
install(EXPORT halogenTargets NAMESPACE halogen:: DESTINATION "${halogen_package}")
if(TARGET halogen_io)  # a file of its own, read only where nlohmann_json and zlib are found
  install(TARGETS halogen_io EXPORT halogenIoTargets)
  install(EXPORT halogenIoTargets NAMESPACE halogen:: DESTINATION "${halogen_package}")
endif()

if(HALOGEN_BUILD_COMPILED)  # likewise: absent where it was not built
  install(TARGETS halogen_compiled EXPORT halogenCompiledTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT halogenCompiledTargets NAMESPACE halogen:: DESTINATION "${halogen_package}")
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/halogenConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/halogenConfig.cmake" INSTALL_DESTINATION "${halogen_package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/halogenConfigVersion.cmake" COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/halogenConfig.cmake" "${PROJECT_BINARY_DIR}/halogenConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/HalogenLanguage.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/HalogenZarr.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/HalogenNetcdf.cmake" "${PROJECT_SOURCE_DIR}/cmake/HalogenExport.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/model.f90.in" "${PROJECT_SOURCE_DIR}/cmake/model_array.f90.in"
        DESTINATION "${halogen_package}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
