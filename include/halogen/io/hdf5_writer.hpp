// Fields to datasets of an HDF5 file, by piece. Opt-in: link halogen::hdf5.
//
//   hg::save_hdf5("run.h5", "fields/density", field, {.level = 4});
//
//   hg::Hdf5Series<Field> out("run.h5", "fields/density", mesh, {100, 1, 512, 512});  // 100 times
//   out.write(17, field);                                                             // (1, 1, 512, 512): the 18th
#pragma once

#include "halogen/io/hdf5.hpp"
#include "halogen/io/libraries/library_series.hpp"

namespace halogen {

struct Hdf5Options {
  /// Points of a chunk. Empty: the largest piece that a rank holds, 1 along a series; none where a field is saved whole
  /// without compression.
  std::vector<index_t> chunks{};
  int level = 0;                                                         ///< of deflate, 1 to 9; 0: no compression
  nlohmann::ordered_json attributes = nlohmann::ordered_json::object();  ///< texts and numbers
  /// All ranks write at once, by MPI-IO, where HDF5 is built with MPI and the ranks talk over MPI; else, and where this
  /// is false, one after the other.
  bool at_once = true;
};

namespace detail {

template <class T>
hid_t hdf5_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  constexpr int place = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  const hid_t whole[] = {H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64},
              natural[] = {H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32, H5T_NATIVE_UINT64};
  return std::is_unsigned_v<T> ? natural[place] : whole[place];
}

/// One attribute, as require_attributes knows it, of a variable of T, in place of an older one. What marks missing
/// points is of T too.
template <class T>
void write_hdf5_attribute(hid_t of, const std::string& name, const nlohmann::ordered_json& value) {
  if (H5Aexists(of, name.c_str()) > 0) require_hdf5(H5Adelete(of, name.c_str()));
  const auto write = [&](hid_t type, hid_t space, const void* from) {
    const Hdf5Id attribute(H5Acreate2(of, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    require_hdf5(H5Awrite(attribute, type, from));
  };
  const Hdf5Id one(H5Screate(H5S_SCALAR), H5Sclose);
  const auto list = [](std::size_t count) {
    const auto extent = static_cast<hsize_t>(count);
    return Hdf5Id(H5Screate_simple(1, &extent, nullptr), H5Sclose);
  };
  if (marks_missing(name)) {
    const std::vector<T> numbers = missing_as<T>(name, value);
    write(hdf5_type<T>(), list(numbers.size()), numbers.data());
  } else if (value.is_string()) {
    const std::string text = value;
    const Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
    require_hdf5(H5Tset_size(type, std::max<std::size_t>(1, text.size())));
    require_hdf5(H5Tset_cset(type, H5T_CSET_UTF8));
    write(type, one, text.c_str());
  } else if (value.is_number()) {
    const double number = value;
    write(H5T_NATIVE_DOUBLE, one, &number);
  } else {
    const std::vector<double> numbers = value;
    write(H5T_NATIVE_DOUBLE, list(numbers.size()), numbers.data());
  }
}

/// What LibrarySeries asks of HDF5.
struct Hdf5Format {
  using Options = Hdf5Options;
  static constexpr const char* user = "save_hdf5";

  static void forget(const std::filesystem::path&) {}  // no file stays open

  template <class T>
  static bool make(const std::filesystem::path& path, const std::string& name, const std::vector<index_t>& extents,
                   const Hdf5Options& options, bool is_series) {
    const Hdf5Quiet quiet;
    MadeFile made(path);
    const std::string at = made.path().string();
    Hdf5Id file(made.is_new() ? H5Fcreate(at.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)
                              : H5Fopen(at.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
                H5Fclose);
    const hid_t found = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
    Hdf5Id dataset(found >= 0 ? found : define<T>(file, name, extents, options, is_series), H5Dclose);
    require_same(dataset, extents, hdf5_type<T>());
    for (const auto& item : options.attributes.items()) write_hdf5_attribute<T>(dataset, item.key(), item.value());
    require_hdf5(H5Fflush(file, H5F_SCOPE_GLOBAL));
    dataset.release();
    file.release();
    made.take_name();
    return found < 0;
  }

  template <class T>
  static void put(const std::filesystem::path& path, const std::string& name, const PointBox& box,
                  const std::vector<T>& values) {
    const Hdf5Quiet quiet;
    const Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const Hdf5Id dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    write_box(dataset, box, values.data(), H5P_DEFAULT);
    require_hdf5(H5Fflush(file, H5F_SCOPE_GLOBAL));  // closing could not tell
  }

#if defined(HALOGEN_WITH_MPI) && defined(H5_HAVE_PARALLEL) && H5_VERSION_GE(1, 10, 3)  // compressed chunks need as much
  static types::StoredChunks chunks(const std::filesystem::path& path, const std::string& name) {
    const Hdf5Quiet quiet;
    const Hdf5Open open(path, name);
    const Hdf5Id made(H5Dget_create_plist(open.dataset), H5Pclose);
    if (H5Pget_layout(made) != H5D_CHUNKED) return {};
    std::vector<hsize_t> extents(static_cast<std::size_t>(require_hdf5(H5Sget_simple_extent_ndims(open.space))));
    require_hdf5(H5Pget_chunk(made, static_cast<int>(extents.size()), extents.data()));
    return {{extents.begin(), extents.end()}, require_hdf5(H5Pget_nfilters(made)) > 0};
  }

  template <class T>
  static void touch(const std::filesystem::path& path, const std::string& name,
                    const std::vector<std::vector<index_t>>& points) {
    const Hdf5Quiet quiet;
    const Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const Hdf5Id dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    const Hdf5Id space(H5Dget_space(dataset), H5Sclose), memory(H5Screate(H5S_SCALAR), H5Sclose);
    for (const std::vector<index_t>& point : points) {
      const std::vector<hsize_t> first(point.begin(), point.end()), one(point.size(), 1);
      require_hdf5(H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, one.data(), nullptr));
      T value{};
      require_hdf5(H5Dread(dataset, hdf5_type<T>(), memory, space, H5P_DEFAULT, &value));
      require_hdf5(H5Dwrite(dataset, hdf5_type<T>(), memory, space, H5P_DEFAULT, &value));
    }
    require_hdf5(H5Fflush(file, H5F_SCOPE_GLOBAL));
  }

  /// A dataset that all ranks have opened together; their calls of its functions are collective.
  template <class T>
  class AtOnce {
   public:
    AtOnce(const std::filesystem::path& path, const std::string& name, MPI_Comm ranks)
        : file_(open(path, ranks), H5Fclose), dataset_(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose) {}

    /// Writes something to each of the points, the same on all ranks. It is in the file before anybody goes on.
    void touch(const std::vector<std::vector<index_t>>& points) {
      const Hdf5Quiet quiet;
      const std::vector<T> values(points.size());
      std::vector<hsize_t> all;
      for (const std::vector<index_t>& point : points) all.insert(all.end(), point.begin(), point.end());
      const Hdf5Id space(H5Dget_space(dataset_), H5Sclose);
      require_hdf5(H5Sselect_elements(space, H5S_SELECT_SET, points.size(), all.data()));
      const auto count = static_cast<hsize_t>(points.size());
      const Hdf5Id memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
      require_hdf5(H5Dwrite(dataset_, hdf5_type<T>(), memory, space, H5P_DEFAULT, values.data()));
      require_hdf5(H5Fflush(file_, H5F_SCOPE_GLOBAL));
    }
    void put(const PointBox& box, const std::vector<T>& values) {
      const Hdf5Quiet quiet;
      const Hdf5Id how(H5Pcreate(H5P_DATASET_XFER), H5Pclose);
      require_hdf5(H5Pset_dxpl_mpio(how, H5FD_MPIO_COLLECTIVE));
      const T nothing{};
      write_box(dataset_, box, values.empty() ? &nothing : values.data(), how);
    }
    void close() {
      const Hdf5Quiet quiet;
      dataset_.release();
      file_.release();
    }

   private:
    static hid_t open(const std::filesystem::path& path, MPI_Comm ranks) {
      const Hdf5Quiet quiet;
      const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
      require_hdf5(H5Pset_fapl_mpio(access, ranks, MPI_INFO_NULL));
      return require_hdf5(H5Fopen(path.c_str(), H5F_ACC_RDWR, access));
    }
    Hdf5Id file_, dataset_;
  };
#endif

 private:
  /// An empty box is written too: ranks that have nothing to write take part.
  template <class T>
  static void write_box(hid_t dataset, const PointBox& box, const T* values, hid_t how) {
    const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
    const std::vector<hsize_t> first(box.begin.begin(), box.begin.end()), count(box.extent.begin(), box.extent.end());
    const Hdf5Id memory(hdf5_space(count), H5Sclose);
    if (box.points() > 0)
      require_hdf5(H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
    else
      require_hdf5(std::min(H5Sselect_none(space), H5Sselect_none(memory)));
    require_hdf5(H5Dwrite(dataset, hdf5_type<T>(), memory, space, how, values));
  }

  template <class T>
  static hid_t define(hid_t file, const std::string& name, const std::vector<index_t>& extents,
                      const Hdf5Options& options, bool is_series) {
    const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose), made(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    require_hdf5(H5Pset_create_intermediate_group(links, 1));
    const auto rank = static_cast<int>(extents.size());
    if (!options.chunks.empty())
      require_hdf5(H5Pset_chunk(made, rank, types::chunks_within<hsize_t>(options.chunks, extents).data()));
    if (options.level > 0) {
      require_hdf5(H5Pset_shuffle(made));
      require_hdf5(H5Pset_deflate(made, static_cast<unsigned>(options.level)));
    }
    if (!is_series) require_hdf5(H5Pset_fill_time(made, H5D_FILL_TIME_NEVER));  // all points are written
    constexpr bool has_nan = std::is_floating_point_v<T>;
    const T missing = fill_among(options.attributes, has_nan ? std::numeric_limits<T>::quiet_NaN() : T(0));
    if (is_series) require_hdf5(H5Pset_fill_value(made, hdf5_type<T>(), &missing));
    const std::vector<hsize_t> lengths(extents.begin(), extents.end());
    const Hdf5Id space(H5Screate_simple(rank, lengths.data(), nullptr), H5Sclose);
    return H5Dcreate2(file, name.c_str(), hdf5_type<T>(), space, links, made, H5P_DEFAULT);
  }

  static void require_same(hid_t dataset, const std::vector<index_t>& extents, hid_t wanted) {
    const Hdf5Id type(H5Dget_type(dataset), H5Tclose), space(H5Dget_space(dataset), H5Sclose);
    std::vector<hsize_t> shape(static_cast<std::size_t>(require_hdf5(H5Sget_simple_extent_ndims(space))));
    require_hdf5(H5Sget_simple_extent_dims(space, shape.data(), nullptr));
    const std::vector<index_t> there(shape.begin(), shape.end());
    types::require_same_variable(there == extents && H5Tequal(type, wanted) > 0, there, extents);
  }
};

}  // namespace detail

/// A dataset whose first dimension is filled piece by piece, as a run goes on; `name` is a path, whose groups are made.
/// All calls are collective over the mesh. Each rank writes its own piece, and none holds more than that: all at once
/// by MPI-IO, or one after the other (Hdf5Options::at_once; at_once() tells). Replicas are written once. A dataset of
/// that name, shape and type is written over, another one is refused. Points not written yet are NaN (integers: 0).
/// Faults are CollectiveError on all ranks. A process that dies in the middle of a write may leave a file that cannot
/// be read: for what must survive that there are checkpoints.
template <class Field>
struct Hdf5Series : detail::types::LibrarySeries<Field, detail::Hdf5Format> {
  using detail::types::LibrarySeries<Field, detail::Hdf5Format>::LibrarySeries;
};

/// Collective over the field's mesh: writes it whole, as Hdf5Series.
template <class Field>
void save_hdf5(const std::filesystem::path& file, const std::string& name, const Field& field,
               Hdf5Options options = {}) {
  detail::types::LibrarySeries<Field, detail::Hdf5Format>::save(file, name, field, std::move(options));
}

}  // namespace halogen
