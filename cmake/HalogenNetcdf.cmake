# halogen::netcdf and halogen::hdf5, what the headers halogen/io/netcdf*.hpp and halogen/io/hdf5.hpp need beside
# halogen::io. Absent where the library is. Halogen's own build and halogenConfig.cmake include this.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND AND TARGET halogen::io)
  foreach(part IN ITEMS netcdf hdf5)
    string(TOUPPER ${part} upper)
    pkg_check_modules(HALOGEN_${upper} QUIET IMPORTED_TARGET GLOBAL ${part})
    if(HALOGEN_${upper}_FOUND AND NOT TARGET halogen::${part})
      add_library(halogen::${part} INTERFACE IMPORTED GLOBAL)
      target_link_libraries(halogen::${part} INTERFACE halogen::io PkgConfig::HALOGEN_${upper})
    endif()
  endforeach()
endif()
