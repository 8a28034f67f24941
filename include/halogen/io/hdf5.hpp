// HDF5 datasets by piece: each rank reads its own box of a file that all ranks see. Opt-in: link halogen::hdf5.
//
//   const hg::Hdf5Dataset density(mesh.world(), "run.h5", "fields/density");  // time, z, y, x
//   hg::load_variable(density, field, {17});                                  // the 18th time into (1, 1, D, H, W)
#pragma once

#include <hdf5.h>

#include <optional>

#include "halogen/io/libraries/library_variable.hpp"

namespace halogen {

namespace detail {

/// HDF5 prints no errors while this lives.
class Hdf5Quiet {
 public:
  Hdf5Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Hdf5Quiet(const Hdf5Quiet&) = delete;
  Hdf5Quiet& operator=(const Hdf5Quiet&) = delete;
  ~Hdf5Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// LibraryFault, with the innermost of HDF5's words as the cause.
[[noreturn]] inline void throw_hdf5_error() {
  std::string words;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
        auto& text = *static_cast<std::string*>(to);
        if (text.empty() && error->desc != nullptr) text = error->desc;
        return 0;
      },
      &words);
  throw types::LibraryFault("HDF5 fails" + (words.empty() ? "" : " (" + words + ")") +
                            ": give a file that HDF5 reads; where this one should be, get it, or write it, anew");
}
template <class Status>
Status require_hdf5(Status status) {
  if (status < 0) throw_hdf5_error();
  return status;
}

/// A handle of HDF5, released by the function that goes with its kind.
class Hdf5Id {
 public:
  Hdf5Id(hid_t id, herr_t (*release)(hid_t)) : id_(require_hdf5(id)), release_(release) {}
  Hdf5Id(const Hdf5Id&) = delete;
  Hdf5Id& operator=(const Hdf5Id&) = delete;
  ~Hdf5Id() {
    if (id_ >= 0) release_(id_);
  }
  operator hid_t() const { return id_; }
  /// Releases it now, and tells where that fails.
  void release() { require_hdf5(release_(std::exchange(id_, H5I_INVALID_HID))); }

 private:
  hid_t id_;
  herr_t (*release_)(hid_t);
};

/// Of an array in memory. A box of a file goes to and from memory of its own shape: where the shapes differ, HDF5 goes
/// through a chunked dataset point by point, which takes twice as long.
inline hid_t hdf5_space(const std::vector<hsize_t>& extents) {
  return H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
}

/// A dataset of a file that is opened for reading.
struct Hdf5Open {
  Hdf5Id file, dataset, space;
  Hdf5Open(const std::filesystem::path& path, const std::string& name)
      : file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose),
        dataset(opened(file, name), H5Dclose),
        space(H5Dget_space(dataset), H5Sclose) {}

 private:
  static hid_t opened(const Hdf5Id& file, const std::string& name) {
    const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
    if (dataset < 0)
      throw std::runtime_error("it has no dataset of this name that HDF5 can open: name one that it has");
    return dataset;
  }
};

/// Text or numbers; nothing for what is neither.
inline std::optional<nlohmann::ordered_json> hdf5_attribute(hid_t of, const char* name) {
  const Hdf5Id attribute(H5Aopen(of, name, H5P_DEFAULT), H5Aclose);
  const Hdf5Id type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  const auto count = static_cast<std::size_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space)));
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_INTEGER || kind == H5T_FLOAT) {
    std::vector<double> numbers(count);
    if (count > 0) require_hdf5(H5Aread(attribute, H5T_NATIVE_DOUBLE, numbers.data()));
    return count == 1 ? nlohmann::ordered_json(numbers[0]) : nlohmann::ordered_json(numbers);
  }
  if (kind != H5T_STRING || count != 1) return std::nullopt;
  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    require_hdf5(H5Aread(attribute, type, &text));
    const std::string copy = text == nullptr ? "" : text;
    H5free_memory(text);
    return copy;
  }
  std::string text(H5Tget_size(type), '\0');
  require_hdf5(H5Aread(attribute, type, text.data()));
  return text.substr(0, text.find('\0'));
}

/// The names of the scales of a dataset's dimensions; empty where it has not one for each.
inline std::vector<std::string> hdf5_dimension_names(hid_t dataset, std::size_t rank) {
  if (H5Aexists(dataset, "DIMENSION_LIST") <= 0) return {};
  const Hdf5Id attribute(H5Aopen(dataset, "DIMENSION_LIST", H5P_DEFAULT), H5Aclose);
  const Hdf5Id type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  if (H5Tget_class(type) != H5T_VLEN || H5Sget_simple_extent_npoints(space) != static_cast<hssize_t>(rank)) return {};
  std::vector<hvl_t> scales(rank);
  require_hdf5(H5Aread(attribute, type, scales.data()));
  std::vector<std::string> names;
  for (const hvl_t& scale : scales) {
    if (scale.len == 0) continue;
    const Hdf5Id object(H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, scale.p), H5Oclose);
    std::string name(static_cast<std::size_t>(require_hdf5(H5Iget_name(object, nullptr, 0))), '\0');
    require_hdf5(H5Iget_name(object, name.data(), name.size() + 1));
    names.push_back(name.substr(name.rfind('/') + 1));
  }
  H5Dvlen_reclaim(type, space, H5P_DEFAULT, scales.data());
  return names.size() == rank ? names : std::vector<std::string>{};
}

}  // namespace detail

/// A dataset of numbers, of any type and either byte order, in one piece or in chunks, with whatever filters this
/// machine's HDF5 knows; `name` is a path: "fields/density". Attributes of CF are heeded where there are any:
/// scale_factor, add_offset, _FillValue, missing_value, _Unsigned; what they cannot be is refused. netCDF-4 files can
/// be read so too.
///
/// read() reads the hyperslab that it is asked for: of chunked datasets the chunks that the box touches, each once. The
/// file is open during a read alone; HDF5 is called by one thread of a process at a time.
class Hdf5Dataset : public detail::types::LibraryVariable {
 public:
  /// Local. std::runtime_error names file, dataset and fault; a damaged file on which HDF5 crashes is one
  /// (LibraryVariable).
  Hdf5Dataset(std::filesystem::path file, std::string name) : LibraryVariable(std::move(file), std::move(name)) {
    said([&] {
      const std::lock_guard lock(detail::hdf5_mutex());
      try_file();
      inquire();
    });
  }
  /// Collective: each rank opens the file, which one of them has tried. CollectiveError on all ranks.
  Hdf5Dataset(const Communicator& world, const std::filesystem::path& file, const std::string& name)
      : Hdf5Dataset(opened_by_all<Hdf5Dataset>(world, file, name)) {}

  /// Local: the numbers of a box, row-major. T: float or double. std::runtime_error: a box that reaches out, a file
  /// that is damaged.
  template <class T>
  void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, T* to) const {
    read_values({begin, extent}, to, [&](auto* numbers) {
      const std::lock_guard lock(detail::hdf5_mutex());
      try_file();
      get_box(begin, extent, numbers);
    });
  }

 private:
  friend class detail::types::LibraryVariable;
  static constexpr const char* library = "HDF5";
  void try_file() const {
    detail::require_hdf5(H5open());  // not by the child
    detail::TriedFiles::all().require(
        library, file_, name_, [] {},
        [&](const detail::Child::Limits& limits) {
          Hdf5Dataset dataset = *this;
          dataset.forget();
          dataset.inquire();
          look_at(dataset, limits);
        });
  }
  template <class Number>
  void get_box(const std::vector<index_t>& begin, const std::vector<index_t>& extent, Number* numbers) const {
    const std::vector<hsize_t> first(begin.begin(), begin.end()), count(extent.begin(), extent.end());
    const detail::Hdf5Quiet quiet;
    const detail::Hdf5Open open(file_, name_);
    if (!shape_.empty())
      detail::require_hdf5(
          H5Sselect_hyperslab(open.space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
    const detail::Hdf5Id memory(detail::hdf5_space(count), H5Sclose);
    detail::require_hdf5(H5Dread(open.dataset, std::is_same_v<Number, float> ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE,
                                 memory, open.space, H5P_DEFAULT, numbers));
  }
  void inquire() {
    const detail::Hdf5Quiet quiet;
    const detail::Hdf5Open open(file_, name_);
    const detail::Hdf5Id type(H5Dget_type(open.dataset), H5Tclose);
    const H5T_class_t kind = H5Tget_class(type);
    if (kind != H5T_FLOAT && kind != H5T_INTEGER)
      throw std::runtime_error("it holds no plain numbers: name another dataset");
    width_ = H5Tget_size(type);
    fits_float_ = kind == H5T_FLOAT ? width_ <= 4 : width_ < 4;
    const auto rank = static_cast<std::size_t>(detail::require_hdf5(H5Sget_simple_extent_ndims(open.space)));
    std::vector<hsize_t> extents(rank), chunk(rank);
    detail::require_hdf5(H5Sget_simple_extent_dims(open.space, extents.data(), nullptr));
    shape_.assign(extents.begin(), extents.end());
    const detail::Hdf5Id made(H5Dget_create_plist(open.dataset), H5Pclose);
    if (H5Pget_layout(made) == H5D_CHUNKED) {
      detail::require_hdf5(H5Pget_chunk(made, static_cast<int>(rank), chunk.data()));
      chunks_.assign(chunk.begin(), chunk.end());
    }
    dimension_names_ = detail::hdf5_dimension_names(open.dataset, rank);
    std::vector<std::string> names;
    detail::require_hdf5(H5Aiterate2(
        open.dataset, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr,
        [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
          static_cast<std::vector<std::string>*>(to)->emplace_back(name);
          return 0;
        },
        &names));
    for (const std::string& name : names)
      if (const auto value = detail::hdf5_attribute(open.dataset, name.c_str()))
        attributes_[name] = *value;
      else if (detail::is_cf_name(name))
        throw std::runtime_error("its attribute " + name + " is neither one text nor numbers, which is not read");
    const bool is_unsigned = kind == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
    numbers_ = detail::cf_numbers(attributes_, {kind == H5T_FLOAT ? 'f'
                                                : is_unsigned     ? 'u'
                                                                  : 'i',
                                                static_cast<int>(width_)});
  }
};

/// A file as a store of datasets.
using Hdf5File = FileStore<Hdf5Dataset>;

}  // namespace halogen
