// netCDF variables by piece: each rank reads its own box of a file that all ranks see. Opt-in: link halogen::netcdf.
//
//   const hg::NetcdfVariable t2m(mesh.world(), "era5.nc", "t2m");            // time, latitude, longitude
//   hg::load_variable(t2m, field, {17});                                     // the 18th time into (1, 1, H, W)
#pragma once

#include <netcdf.h>

#include <limits>
#include <list>

#include "halogen/io/libraries/library_variable.hpp"

namespace halogen {

namespace detail {

/// What a status of netCDF means, and what to do.
inline std::string words_of_netcdf(int status) {
  if (status > 0) return words_of_system(status);  // the system's
  switch (status) {
    case NC_ENOTNC:
      return "it is no netCDF file: give one that is";
    case NC_ENOTVAR:
      return "it has no variable of this name: name one that it has";
    case NC_ENOTATT:
      return "it lacks an attribute that it names: the file is damaged; get it, or write it, anew";
    case NC_EBADGRPID:
    case NC_ENOGRP:
      return "it has no group of this name: name one that it has";
    case NC_EPERM:
      return "it may be read but not written: change its permissions, or give another path";
    case NC_EBADNAME:
      return "netCDF takes no such name: begin with a letter, a digit or _, and leave out / and blanks at its end";
    case NC_EMAXNAME:
      return "a name is longer than the " + std::to_string(NC_MAX_NAME) + " characters allowed: shorten it";
    case NC_ENAMEINUSE:
      return "it has something else of this name already: give another name";
    case NC_EBADCHUNK:
      return "a chunk is larger than netCDF takes, 4 GB: give smaller chunks";
    case NC_ERANGE:
      return "a number in it is outside of the type that it is read or written as: give it a wider type";
    case NC_ENOTNC4:
      return "it is a netCDF file of the classic kind, and only netCDF-4 files are added to: give another";
    case NC_EFILTER:
    case NC_ENOTBUILT:
      return "it is compressed by what this machine's netCDF does not know: name its plugins by HDF5_PLUGIN_PATH";
    case NC_ENOMEM:
      return "netCDF gets no memory for it: the file is damaged, or this machine has too little";
    case NC_EHDFERR:
      return "HDF5, by which netCDF reads and writes it, fails: close other programs that use it, or get the file anew";
    default:
      return "netCDF fails by error " + std::to_string(status) + " (" + nc_strerror(status) +
             "): the file is damaged, or is of a kind that this netCDF does not know; get it, or write it, anew";
  }
}

/// Throws LibraryFault unless netCDF did what it was called for.
inline void require_netcdf(int status) {
  if (status != NC_NOERR) throw types::LibraryFault(words_of_netcdf(status));
}

/// Files of netCDF that are open for reading, the last used ones; under hdf5_mutex.
class NetcdfReaders {
 public:
  static NetcdfReaders& all() {
    static NetcdfReaders readers;
    return readers;
  }
  /// A file that has changed since is opened anew.
  int open(const std::filesystem::path& path) {
    const FileState now(path);
    const auto known = std::ranges::find(files_, path, &File::path);
    if (known != files_.end()) {
      if (known->opened == now) {
        files_.splice(files_.begin(), files_, known);
        return known->id;
      }
      forget(path);
    }
    int id = 0;
    require_netcdf(nc_open(path.c_str(), NC_NOWRITE, &id));
    files_.push_front({path, now, id});
    if (files_.size() > most) forget(std::filesystem::path(files_.back().path));
    return id;
  }
  /// Before somebody writes it: HDF5 locks what it reads.
  void forget(const std::filesystem::path& path) {
    files_.remove_if([&](const File& file) {
      if (file.path != path) return false;
      nc_close(file.id);
      return true;
    });
  }

 private:
  struct File {
    std::filesystem::path path;
    FileState opened;
    int id = 0;
  };
  static constexpr std::size_t most = 32;
  NetcdfReaders() = default;
  std::list<File> files_;
};

/// A variable in an open file; `name` may have groups before it: "forecast/t2m".
struct NetcdfId {
  int group = 0, variable = 0;
  NetcdfId(int file, const std::string& name) : group(file) {
    const std::size_t slash = name.rfind('/');
    if (slash != std::string::npos && slash > 0)
      require_netcdf(nc_inq_grp_full_ncid(file, name.substr(0, slash).c_str(), &group));
    require_netcdf(nc_inq_varid(group, name.substr(slash == std::string::npos ? 0 : slash + 1).c_str(), &variable));
  }
};

/// Text, texts or numbers; an empty object for what is none of these.
inline Json netcdf_attribute(const NetcdfId& id, const char* name) {
  std::size_t length = 0;
  nc_type type = NC_NAT;
  require_netcdf(nc_inq_att(id.group, id.variable, name, &type, &length));
  if (type == NC_CHAR) {
    std::string text(length, '\0');
    require_netcdf(nc_get_att_text(id.group, id.variable, name, text.data()));
    return text;
  }
  if (type == NC_STRING) {
    std::vector<char*> texts(length);
    require_netcdf(nc_get_att_string(id.group, id.variable, name, texts.data()));
    const std::vector<std::string> all(texts.begin(), texts.end());
    nc_free_string(length, texts.data());
    return all.size() == 1 ? Json(all[0]) : Json(all);
  }
  if (type > NC_UINT64) return Json::object();
  std::vector<double> numbers(length);
  require_netcdf(nc_get_att_double(id.group, id.variable, name, numbers.data()));
  return numbers.size() == 1 ? Json(numbers[0]) : Json(numbers);
}

}  // namespace detail

/// A variable of a netCDF file: classic, 64-bit and netCDF-4, with groups ("forecast/t2m"), chunks and whatever
/// compression this machine's netCDF knows. CF: numbers are stored * scale_factor + add_offset; `_FillValue` and
/// `missing_value` become NaN; `_Unsigned` is heeded; what they cannot be is refused. Text is refused by name.
///
/// read() reads the hyperslab that it is asked for: of chunked variables the chunks that the box touches, each once. Up
/// to 32 files stay open; netCDF is called by one thread of a process at a time.
class NetcdfVariable : public detail::types::LibraryVariable {
 public:
  /// Local. std::runtime_error names file, variable and fault; a damaged file on which netCDF crashes is one
  /// (LibraryVariable).
  NetcdfVariable(std::filesystem::path file, std::string name) : LibraryVariable(std::move(file), std::move(name)) {
    said([&] {
      const std::lock_guard lock(detail::hdf5_mutex());
      try_file();
      inquire();
    });
  }
  /// Collective: each rank opens the file, which one of them has tried. CollectiveError on all ranks.
  NetcdfVariable(const Communicator& world, const std::filesystem::path& file, const std::string& name)
      : NetcdfVariable(opened_by_all<NetcdfVariable>(world, file, name)) {}

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
  static constexpr const char* library = "netCDF";
  void try_file() const {
    detail::require_netcdf(nc_initialize());  // not by the child
    const auto release = [&] { detail::NetcdfReaders::all().forget(file_); };
    detail::TriedFiles::all().require(library, file_, name_, release, [&](const detail::Child::Limits& limits) {
      NetcdfVariable variable = *this;
      variable.forget();
      variable.inquire();
      look_at(variable, limits);
    });
  }
  template <class Number>
  void get_box(const std::vector<index_t>& begin, const std::vector<index_t>& extent, Number* numbers) const {
    const std::vector<std::size_t> first(begin.begin(), begin.end()), count(extent.begin(), extent.end());
    const detail::NetcdfId id(detail::NetcdfReaders::all().open(file_), name_);
    if constexpr (std::is_same_v<Number, float>)
      detail::require_netcdf(nc_get_vara_float(id.group, id.variable, first.data(), count.data(), numbers));
    else
      detail::require_netcdf(nc_get_vara_double(id.group, id.variable, first.data(), count.data(), numbers));
  }
  void inquire() {
    const detail::NetcdfId id(detail::NetcdfReaders::all().open(file_), name_);
    nc_type type = NC_NAT;
    int rank = 0, count = 0;
    detail::require_netcdf(nc_inq_var(id.group, id.variable, nullptr, &type, &rank, nullptr, &count));
    if (type == NC_CHAR || type > NC_UINT64) throw std::runtime_error("it holds no numbers: name another variable");
    detail::require_netcdf(nc_inq_type(id.group, type, nullptr, &width_));
    fits_float_ = type == NC_FLOAT || width_ < 4;
    std::vector<int> dimensions(static_cast<std::size_t>(rank));
    detail::require_netcdf(nc_inq_vardimid(id.group, id.variable, dimensions.data()));
    for (const int dimension : dimensions) {
      char name[NC_MAX_NAME + 1] = "";
      std::size_t length = 0;
      detail::require_netcdf(nc_inq_dim(id.group, dimension, name, &length));
      if (length > static_cast<std::size_t>(std::numeric_limits<index_t>::max()))
        throw std::runtime_error("its dimension '" + std::string(name) +
                                 "' is longer than can be: the file is damaged");
      dimension_names_.emplace_back(name);
      shape_.push_back(static_cast<index_t>(length));
    }
    int storage = NC_CONTIGUOUS;
    std::vector<std::size_t> chunk(static_cast<std::size_t>(rank));
    if (nc_inq_var_chunking(id.group, id.variable, &storage, chunk.data()) == NC_NOERR && storage == NC_CHUNKED)
      chunks_.assign(chunk.begin(), chunk.end());
    for (int i = 0; i < count; ++i) {
      char name[NC_MAX_NAME + 1] = "";
      detail::require_netcdf(nc_inq_attname(id.group, id.variable, i, name));
      attributes_[name] = detail::netcdf_attribute(id, name);
    }
    const bool is_unsigned = type == NC_UBYTE || type == NC_USHORT || type == NC_UINT || type == NC_UINT64;
    const bool is_float = type == NC_FLOAT || type == NC_DOUBLE;
    numbers_ = detail::cf_numbers(attributes_, {is_float ? 'f' : is_unsigned ? 'u' : 'i', static_cast<int>(width_)});
  }
};

/// A file as a store of variables.
using NetcdfFile = FileStore<NetcdfVariable>;

}  // namespace halogen
