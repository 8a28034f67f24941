# halogen::netcdf and halogen::hdf5, what the headers halogen/io/netcdf*.hpp and halogen/io/hdf5*.hpp need beside
# halogen::io. Absent where the library is. Halogen's own build and halogenConfig.cmake include this.
#
# A system may have two builds of both libraries, with MPI and without, under names such as Debian's. netCDF calls HDF5,
# so a program takes both libraries of one build: of that with MPI, where HALOGEN_PARALLEL_IO wants it, it is built with
# Halogen's MPI, and it has both libraries where the other build has both; else what the plain names say.
find_package(PkgConfig QUIET)

# halogen_same_header(HEADER A B VARIABLE): whether the folders A and B do not hold two different headers of that name
function(halogen_same_header header a b variable)
  foreach(side IN ITEMS a b)
    unset(found_${side})
    foreach(folder IN LISTS ${side})
      if(NOT found_${side} AND EXISTS "${folder}/${header}")
        file(REAL_PATH "${folder}/${header}" found_${side})
      endif()
    endforeach()
  endforeach()
  set(${variable} ON PARENT_SCOPE)
  if(found_a AND found_b AND NOT found_a STREQUAL found_b)
    set(${variable} OFF PARENT_SCOPE)
  endif()
endfunction()

# halogen_library_files(PART SUFFIX FOUND): halogen::PART<SUFFIX>, of what pkg-config has found as FOUND
function(halogen_library_files part suffix found)
  if(NOT ${found}_FOUND OR TARGET halogen::${part}${suffix})
    return()
  endif()
  add_library(halogen::${part}${suffix} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(halogen::${part}${suffix} INTERFACE halogen::io PkgConfig::${found})
  pkg_get_variable(prefix ${${found}_MODULE_NAME} prefix)
  if(EXISTS "${prefix}/include/netcdf_par.h")  # Debian's netcdf-mpi.pc names the headers of the other build
    set_property(TARGET halogen::${part}${suffix} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include")
  endif()
endfunction()

if(PkgConfig_FOUND AND TARGET halogen::io)
  # without MPI, or as the machine's plain names say: HDF5 as netCDF has it
  pkg_search_module(HALOGEN_NETCDF QUIET IMPORTED_TARGET GLOBAL netcdf)
  pkg_search_module(HALOGEN_HDF5 QUIET IMPORTED_TARGET GLOBAL hdf5)
  pkg_search_module(HALOGEN_SERIAL_HDF5 QUIET IMPORTED_TARGET GLOBAL hdf5-serial)
  set(halogen_hdf5 HALOGEN_HDF5)
  halogen_same_header(hdf5.h "${HALOGEN_HDF5_INCLUDE_DIRS}" "${HALOGEN_NETCDF_INCLUDE_DIRS}" halogen_is_plain)
  if(HALOGEN_SERIAL_HDF5_FOUND AND NOT (HALOGEN_HDF5_FOUND AND halogen_is_plain))
    set(halogen_hdf5 HALOGEN_SERIAL_HDF5)
  endif()
  # with MPI, under names of their own
  set(halogen_parallel_hdf5)
  if(HALOGEN_ENABLE_MPI)
    pkg_search_module(HALOGEN_PARALLEL_NETCDF QUIET IMPORTED_TARGET GLOBAL netcdf-mpi)
    foreach(kind IN ITEMS OPENMPI MPICH)
      string(TOLOWER ${kind} name)
      set(halogen_of_kind HALOGEN_PARALLEL_HDF5_${kind})
      pkg_search_module(${halogen_of_kind} QUIET IMPORTED_TARGET GLOBAL hdf5-${name})
      halogen_same_header(mpi.h "${${halogen_of_kind}_INCLUDE_DIRS}" "${MPI_CXX_INCLUDE_DIRS}" halogen_is_of_mpi)
      halogen_same_header(hdf5.h "${${halogen_of_kind}_INCLUDE_DIRS}" "${HALOGEN_PARALLEL_NETCDF_INCLUDE_DIRS}"
                          halogen_is_of_netcdf)
      if(${halogen_of_kind}_FOUND AND halogen_is_of_mpi AND halogen_is_of_netcdf
         AND (HALOGEN_PARALLEL_NETCDF_FOUND OR NOT HALOGEN_NETCDF_FOUND))
        set(halogen_parallel_hdf5 ${halogen_of_kind})
      endif()
    endforeach()
  endif()
  if(HALOGEN_PARALLEL_IO AND halogen_parallel_hdf5)
    halogen_library_files(netcdf "" HALOGEN_PARALLEL_NETCDF)
    halogen_library_files(hdf5 "" ${halogen_parallel_hdf5})
  else()
    halogen_library_files(netcdf "" HALOGEN_NETCDF)
    halogen_library_files(hdf5 "" ${halogen_hdf5})
  endif()
endif()
