# halogen::zarr, what the headers halogen/io/zarr*.hpp and field_dataset.hpp need beside halogen::io: zstd and blosc. Absent where
# one of them is. Halogen's own build and halogenConfig.cmake include this.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND AND TARGET halogen::io)
  pkg_check_modules(HALOGEN_ZSTD QUIET IMPORTED_TARGET GLOBAL libzstd)
  pkg_check_modules(HALOGEN_BLOSC QUIET IMPORTED_TARGET GLOBAL blosc)
  if(HALOGEN_ZSTD_FOUND AND HALOGEN_BLOSC_FOUND AND NOT TARGET halogen::zarr)
    add_library(halogen::zarr INTERFACE IMPORTED GLOBAL)
    target_link_libraries(halogen::zarr INTERFACE halogen::io PkgConfig::HALOGEN_ZSTD PkgConfig::HALOGEN_BLOSC)
  endif()
endif()
