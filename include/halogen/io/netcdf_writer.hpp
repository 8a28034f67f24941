// Fields to variables of a netCDF-4 file, by piece. Opt-in: link halogen::netcdf.
//
//   hg::save_netcdf("run.nc", "t2m", field, {.dimension_names = {"sample", "channel", "lat", "lon"}});
//
//   hg::NetcdfSeries<Field> out("run.nc", "t2m", mesh, {100, 1, 721, 1440});   // 100 times, one after the other
//   out.write(17, field);                                                      // (1, 1, 721, 1440): the 18th
#pragma once

#include <netcdf_meta.h>

#include "halogen/io/libraries/library_series.hpp"
#include "halogen/io/netcdf.hpp"
#if defined(HALOGEN_WITH_MPI) && NC_HAS_PARALLEL4 && NC_VERSION_MAJOR * 100 + NC_VERSION_MINOR >= 408
#include <netcdf_filter.h>
#include <netcdf_par.h>
#define HALOGEN_NETCDF_AT_ONCE 1  ///< netCDF is built with MPI
#else
#define HALOGEN_NETCDF_AT_ONCE 0
#endif

namespace halogen {

struct NetcdfOptions {
  /// Points of a chunk. Empty: the largest piece that a rank holds, 1 along a series; none where a field is saved whole
  /// without compression.
  std::vector<index_t> chunks{};
  int level = 0;  ///< of deflate, 1 to 9; 0: no compression
  /// Empty: NAME_0, NAME_1, ... Variables that share a name share the dimension.
  std::vector<std::string> dimension_names{};
  nlohmann::ordered_json attributes = nlohmann::ordered_json::object();  ///< texts and numbers
  /// All ranks write at once, by MPI-IO, where netCDF is built with MPI and the ranks talk over MPI; else, and where
  /// this is false, one after the other.
  bool at_once = true;
};

namespace detail {

template <class T>
constexpr nc_type netcdf_type() {
  if constexpr (std::is_same_v<T, float>) return NC_FLOAT;
  if constexpr (std::is_same_v<T, double>) return NC_DOUBLE;
  constexpr nc_type whole[] = {NC_BYTE, NC_SHORT, NC_INT, NC_INT64},
                    natural[] = {NC_UBYTE, NC_USHORT, NC_UINT, NC_UINT64};
  constexpr int place = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_unsigned_v<T> ? natural[place] : whole[place];
}

/// A file open for writing, made where there is none; under hdf5_mutex. close() tells of what did not reach the disk.
class NetcdfWriter {
 public:
  explicit NetcdfWriter(const std::filesystem::path& path) : made_(std::in_place, path) {
    NetcdfReaders::all().forget(path);
    const std::string at = made_->path().string();
    require_netcdf(made_->is_new() ? nc_create(at.c_str(), NC_NETCDF4 | NC_CLOBBER, &id_)
                                   : nc_open(at.c_str(), NC_WRITE, &id_));
  }
#if HALOGEN_NETCDF_AT_ONCE
  /// Collective: one that is there, opened by all ranks.
  NetcdfWriter(const std::filesystem::path& path, MPI_Comm ranks) {
    NetcdfReaders::all().forget(path);
    require_netcdf(nc_open_par(path.c_str(), NC_WRITE, ranks, MPI_INFO_NULL, &id_));
  }
#endif
  NetcdfWriter(const NetcdfWriter&) = delete;
  NetcdfWriter& operator=(const NetcdfWriter&) = delete;
  ~NetcdfWriter() {
    if (id_ >= 0) nc_close(id_);
  }
  void close() {
    require_netcdf(nc_close(std::exchange(id_, -1)));
    if (made_) made_->take_name();
  }
  int id() const { return id_; }

  /// netCDF 4.9.0 reads what it knows of a variable when that is first looked at; where a dimension becomes a
  /// coordinate, variables that it has not looked at keep a reference to what is gone, and nobody can open them.
  void look_at_all() const {
    int count = 0;
    require_netcdf(nc_inq_nvars(id_, &count));
    for (int variable = 0; variable < count; ++variable) {
      int rank = 0, attributes = 0;
      require_netcdf(nc_inq_var(id_, variable, nullptr, nullptr, &rank, nullptr, &attributes));
    }
  }

  int dimension(const std::string& name, std::size_t length) const {
    int found = 0;
    if (nc_inq_dimid(id_, name.c_str(), &found) == NC_NOERR) {
      std::size_t known = 0;
      require_netcdf(nc_inq_dimlen(id_, found, &known));
      if (known != length)
        throw std::runtime_error("its dimension '" + name + "' has " + std::to_string(known) + " points, not " +
                                 std::to_string(length) + ": give it another name");
      return found;
    }
    require_netcdf(nc_def_dim(id_, name.c_str(), length, &found));
    return found;
  }
  /// Those that require_attributes knows, of a variable of T; what marks missing points is of T too. netCDF takes a
  /// `_FillValue` of new variables alone.
  template <class T>
  void attributes(int variable, const nlohmann::ordered_json& all, bool is_new) const {
    for (const auto& item : all.items()) {
      const std::string& name = item.key();
      if (marks_missing(name)) {
        const std::vector<T> marks = missing_as<T>(name, item.value());
        if (name != "_FillValue" || is_new)
          require_netcdf(nc_put_att(id_, variable, name.c_str(), netcdf_type<T>(), marks.size(), marks.data()));
        else if (!has_fill(variable, marks[0]))
          throw std::runtime_error("it is there with another _FillValue, which netCDF does not change: give that one");
        continue;
      }
      const nlohmann::ordered_json& value = item.value();
      const auto numbers = [&](const std::vector<double>& list) {
        require_netcdf(nc_put_att_double(id_, variable, name.c_str(), NC_DOUBLE, list.size(), list.data()));
      };
      if (value.is_string()) {
        const std::string text = value;
        require_netcdf(nc_put_att_text(id_, variable, name.c_str(), text.size(), text.data()));
      } else if (value.is_number()) {
        numbers({value.get<double>()});
      } else {
        numbers(value.get<std::vector<double>>());
      }
    }
  }

 private:
  template <class T>
  bool has_fill(int variable, T wanted) const {
    T there{};
    nc_type type = NC_NAT;
    return nc_inq_atttype(id_, variable, "_FillValue", &type) == NC_NOERR && type == netcdf_type<T>() &&
           nc_get_att(id_, variable, "_FillValue", &there) == NC_NOERR &&
           (there == wanted || (there != there && wanted != wanted));
  }
  std::optional<MadeFile> made_;  ///< none: opened by all ranks
  int id_ = -1;
};

/// What LibrarySeries asks of netCDF.
struct NetcdfFormat {
  using Options = NetcdfOptions;
  static constexpr const char* user = "save_netcdf";

  static void forget(const std::filesystem::path& path) { NetcdfReaders::all().forget(path); }

  template <class T>
  static bool make(const std::filesystem::path& path, const std::string& name, const std::vector<index_t>& extents,
                   const NetcdfOptions& options, bool is_series) {
    NetcdfWriter file(path);
    int variable = 0;
    const bool is_new = nc_inq_varid(file.id(), name.c_str(), &variable) != NC_NOERR;
    if (is_new)
      variable = define<T>(file, name, extents, options, is_series);
    else
      require_same(file.id(), variable, extents, netcdf_type<T>());
    file.attributes<T>(variable, options.attributes, is_new);
    file.close();
    return is_new;
  }

  template <class T>
  static void put(const std::filesystem::path& path, const std::string& name, const PointBox& box,
                  const std::vector<T>& values) {
    NetcdfWriter file(path);
    const NetcdfId id(file.id(), name);
    const std::vector<std::size_t> first(box.begin.begin(), box.begin.end()),
        count(box.extent.begin(), box.extent.end());
    require_netcdf(nc_put_vara(id.group, id.variable, first.data(), count.data(), values.data()));
    file.close();
  }

#if HALOGEN_NETCDF_AT_ONCE
  static types::StoredChunks chunks(const std::filesystem::path& path, const std::string& name) {
    const NetcdfId id(NetcdfReaders::all().open(path), name);
    int rank = 0, storage = NC_CONTIGUOUS, shuffles = 0, deflates = 0, level = 0, sums = 0;
    require_netcdf(nc_inq_varndims(id.group, id.variable, &rank));
    std::vector<std::size_t> extents(static_cast<std::size_t>(rank));
    require_netcdf(nc_inq_var_chunking(id.group, id.variable, &storage, extents.data()));
    if (storage != NC_CHUNKED) return {};
    require_netcdf(nc_inq_var_deflate(id.group, id.variable, &shuffles, &deflates, &level));
    require_netcdf(nc_inq_var_fletcher32(id.group, id.variable, &sums));
    std::size_t others = 0;
    require_netcdf(nc_inq_var_filter_ids(id.group, id.variable, &others, nullptr));
    return {{extents.begin(), extents.end()}, shuffles != 0 || deflates != 0 || sums != 0 || others > 0};
  }

  template <class T>
  static void touch(const std::filesystem::path& path, const std::string& name,
                    const std::vector<std::vector<index_t>>& points) {
    NetcdfWriter file(path);
    const NetcdfId id(file.id(), name);
    for (const std::vector<index_t>& point : points) {
      const std::vector<std::size_t> first(point.begin(), point.end());
      T value{};
      require_netcdf(nc_get_var1(id.group, id.variable, first.data(), &value));
      require_netcdf(nc_put_var1(id.group, id.variable, first.data(), &value));
    }
    file.close();
  }

  /// A variable that all ranks have opened together; their calls of its functions are collective.
  template <class T>
  class AtOnce {
   public:
    AtOnce(const std::filesystem::path& path, const std::string& name, MPI_Comm ranks)
        : file_(path, ranks), id_(file_.id(), name) {}

    /// Writes something to each of the points, the same on all ranks. It is in the file before anybody goes on.
    void touch(const std::vector<std::vector<index_t>>& points) {
      require_netcdf(nc_var_par_access(id_.group, id_.variable, NC_INDEPENDENT));
      for (const std::vector<index_t>& point : points) {
        const std::vector<std::size_t> first(point.begin(), point.end());
        const T value{};
        require_netcdf(nc_put_var1(id_.group, id_.variable, first.data(), &value));
      }
      require_netcdf(nc_sync(file_.id()));
    }
    void put(const PointBox& box, const std::vector<T>& values) {
      require_netcdf(nc_var_par_access(id_.group, id_.variable, NC_COLLECTIVE));
      const std::vector<std::size_t> first(box.begin.begin(), box.begin.end()),
          count(box.extent.begin(), box.extent.end());
      const T nothing{};
      require_netcdf(
          nc_put_vara(id_.group, id_.variable, first.data(), count.data(), values.empty() ? &nothing : values.data()));
    }
    void close() { file_.close(); }

   private:
    NetcdfWriter file_;
    NetcdfId id_;
  };
#endif

 private:
  template <class T>
  static int define(const NetcdfWriter& file, const std::string& name, const std::vector<index_t>& extents,
                    const NetcdfOptions& options, bool is_series) {
    std::vector<int> dimensions;
    for (std::size_t d = 0; d < extents.size(); ++d)
      dimensions.push_back(
          file.dimension(options.dimension_names.empty() ? name + "_" + std::to_string(d) : options.dimension_names[d],
                         static_cast<std::size_t>(extents[d])));
    int variable = 0;
    require_netcdf(nc_def_var(file.id(), name.c_str(), netcdf_type<T>(), static_cast<int>(extents.size()),
                              dimensions.data(), &variable));
    if (!options.chunks.empty())
      require_netcdf(nc_def_var_chunking(file.id(), variable, NC_CHUNKED,
                                         types::chunks_within<std::size_t>(options.chunks, extents).data()));
    if (options.level > 0) require_netcdf(nc_def_var_deflate(file.id(), variable, 1, 1, options.level));
    if constexpr (std::is_floating_point_v<T>) {
      const T missing = fill_among(options.attributes, std::numeric_limits<T>::quiet_NaN());
      require_netcdf(nc_def_var_fill(file.id(), variable, is_series ? NC_FILL : NC_NOFILL, &missing));
    }
    return variable;
  }

  static void require_same(int file, int variable, const std::vector<index_t>& extents, nc_type wanted) {
    nc_type type = NC_NAT;
    int rank = 0;
    require_netcdf(nc_inq_var(file, variable, nullptr, &type, &rank, nullptr, nullptr));
    std::vector<int> dimensions(static_cast<std::size_t>(rank));
    require_netcdf(nc_inq_vardimid(file, variable, dimensions.data()));
    std::vector<index_t> shape;
    for (const int dimension : dimensions) {
      std::size_t length = 0;
      require_netcdf(nc_inq_dimlen(file, dimension, &length));
      shape.push_back(static_cast<index_t>(length));
    }
    types::require_same_variable(shape == extents && type == wanted, shape, extents);
  }
};

}  // namespace detail

/// A variable whose first dimension is filled piece by piece, as a run goes on. All calls are collective over the mesh.
/// Each rank writes its own piece, and none holds more than that: all at once by MPI-IO, or one after the other
/// (NetcdfOptions::at_once; at_once() tells). Replicas are written once. A variable of that name and shape is written
/// over; one of another shape is refused, since netCDF cannot remove it. Points not written yet are NaN (integers:
/// netCDF's fill value). Faults are CollectiveError on all ranks. A process that dies in the middle of a write may
/// leave a file that cannot be read: for what must survive that there are checkpoints.
template <class Field>
struct NetcdfSeries : detail::types::LibrarySeries<Field, detail::NetcdfFormat> {
  using detail::types::LibrarySeries<Field, detail::NetcdfFormat>::LibrarySeries;
};

/// Collective over the field's mesh: writes it whole, as NetcdfSeries.
template <class Field>
void save_netcdf(const std::filesystem::path& file, const std::string& name, const Field& field,
                 NetcdfOptions options = {}) {
  detail::types::LibrarySeries<Field, detail::NetcdfFormat>::save(file, name, field, std::move(options));
}

/// Local, for one rank: a coordinate, a variable of one dimension whose name is its own. Error names file and fault.
inline void save_netcdf_coordinate(const std::filesystem::path& path, const std::string& name,
                                   const std::vector<double>& values,
                                   const nlohmann::ordered_json& attributes = nlohmann::ordered_json::object()) try {
  const std::lock_guard lock(detail::hdf5_mutex());
  detail::types::require_attributes<double>(attributes);
  detail::NetcdfWriter file(path);
  const int dimension = file.dimension(name, values.size());
  int variable = 0;
  const bool is_new = nc_inq_varid(file.id(), name.c_str(), &variable) != NC_NOERR;
  if (is_new) {
    file.look_at_all();
    detail::require_netcdf(nc_def_var(file.id(), name.c_str(), NC_DOUBLE, 1, &dimension, &variable));
  }
  file.attributes<double>(variable, attributes, is_new);
  detail::require_netcdf(nc_put_var_double(file.id(), variable, values.data()));
  file.close();
} catch (const std::runtime_error& error) {
  throw Error("cannot write '" + name + "' of '" + path.string() + "': " + detail::types::words_of(error, path));
}

}  // namespace halogen
