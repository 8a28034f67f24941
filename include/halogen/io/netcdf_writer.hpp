// Fields to variables of a netCDF-4 file, by piece. Opt-in: link halogen::netcdf.
//
//   hg::save_netcdf("run.nc", "t2m", field, {.dimension_names = {"sample", "channel", "lat", "lon"}});
//
//   hg::NetcdfSeries<Field> out("run.nc", "t2m", mesh, {100, 1, 721, 1440});   // 100 times, one after the other
//   out.write(17, field);                                                      // (1, 1, 721, 1440): the 18th
#pragma once

#include "halogen/io/fields.hpp"
#include "halogen/io/netcdf.hpp"

namespace halogen {

struct NetcdfOptions {
  /// Points of a chunk. Empty: the largest piece that a rank holds, 1 along a series; none where a field is saved whole
  /// without compression.
  std::vector<index_t> chunks{};
  int level = 0;  ///< of deflate, 1 to 9; 0: no compression
  /// Empty: NAME_0, NAME_1, ... Variables that share a name share the dimension.
  std::vector<std::string> dimension_names{};
  nlohmann::ordered_json attributes = nlohmann::ordered_json::object();  ///< texts and numbers
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
  explicit NetcdfWriter(const std::filesystem::path& path) {
    NetcdfReaders::all().forget(path);
    require_netcdf(std::filesystem::exists(path) ? nc_open(path.c_str(), NC_WRITE, &id_)
                                                 : nc_create(path.c_str(), NC_NETCDF4 | NC_NOCLOBBER, &id_));
  }
  NetcdfWriter(const NetcdfWriter&) = delete;
  NetcdfWriter& operator=(const NetcdfWriter&) = delete;
  ~NetcdfWriter() {
    if (id_ >= 0) nc_close(id_);
  }
  void close() { require_netcdf(nc_close(std::exchange(id_, -1))); }
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
  void attributes(int variable, const nlohmann::ordered_json& all) const {
    for (const auto& item : all.items()) {
      const std::string& name = item.key();
      const nlohmann::ordered_json& value = item.value();
      const auto numbers = [&](const std::vector<double>& list) {
        require_netcdf(nc_put_att_double(id_, variable, name.c_str(), NC_DOUBLE, list.size(), list.data()));
      };
      if (value.is_string()) {
        const std::string text = value;
        require_netcdf(nc_put_att_text(id_, variable, name.c_str(), text.size(), text.data()));
      } else if (value.is_number()) {
        numbers({value.get<double>()});
      } else if (value.is_array() && std::ranges::all_of(value, [](const auto& v) { return v.is_number(); })) {
        numbers(value.get<std::vector<double>>());
      } else {
        throw std::runtime_error("its attribute '" + name + "' is no text and no numbers: give one of them");
      }
    }
  }

 private:
  int id_ = -1;
};

}  // namespace detail

/// A variable whose first dimension is filled piece by piece, as a run goes on. All calls are collective over the mesh.
/// Ranks write one after the other, each its own piece: no two write the file at once, none holds more than its piece.
/// Replicas are written once. A variable of that name and shape is written over; one of another shape is refused, since
/// netCDF cannot remove it. Points not written yet are NaN (integers: netCDF's fill value). Faults are CollectiveError
/// on all ranks. A process that dies in the middle of a write may leave a file that cannot be read: for what must
/// survive that there are checkpoints.
template <class Field>
class NetcdfSeries {
  static_assert(detail::is_whole<Field>,
                "save_netcdf_of_summands: a Partial field is a sum that is still due: redistribute it first");
  using T = compute_type<typename Field::value_type>;

 public:
  NetcdfSeries(const std::filesystem::path& file, const std::string& name,
               const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
               NetcdfOptions options = {})
      : NetcdfSeries(file, name, mesh, extents, std::move(options), true) {}

  /// Writes field's points at `first` of the first dimension.
  void write(index_t first, const Field& field) const {
    const Communicator& world = mesh_.world();
    agree(world, [&] {
      const detail::PointBox all{std::vector<index_t>(extents_.size(), 0), extents_of(field)};
      if (!(field.mesh("save_netcdf") == mesh_) || first < 0 || first + all.extent[0] > extents_[0] ||
          !std::equal(extents_.begin() + 1, extents_.end(), all.extent.begin() + 1))
        refuse("a field of " + detail::text_of(all.extent) + " at " + std::to_string(first) +
               ", but the variable has " + detail::text_of(extents_) + ": give a field of its extents and mesh");
    });
    detail::PointBox box = detail::piece_box(field, mesh_.rank());
    box.begin[0] += first;
    const std::vector<T> values = [&] {
      auto stored = field.to_host_array();
      if constexpr (std::is_same_v<decltype(stored), std::vector<T>>)
        return stored;
      else
        return std::vector<T>(stored.begin(), stored.end());
    }();
    for (int turn = 0; turn < mesh_.size(); ++turn)
      agree(world, [&] {
        if (turn == mesh_.rank() && detail::is_first_holder(field) && !values.empty()) put(box, values);
      });
  }

 private:
  template <class F>
  friend void save_netcdf(const std::filesystem::path&, const std::string&, const F&, NetcdfOptions);

  NetcdfSeries(const std::filesystem::path& file, const std::string& name,
               const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
               NetcdfOptions options, bool is_series)
      : mesh_(mesh), file_(file), name_(name), extents_(extents.begin(), extents.end()) {
    if (options.chunks.empty() && (is_series || options.level > 0)) {
      typename Field::Extents part = extents;
      if (is_series) part[0] = 1;
      const Field piece(mesh, part);
      for (int d = 0; d < Field::rank; ++d)
        options.chunks.push_back(std::max<index_t>(1, std::min(piece.cut(d).piece(0).size(), piece.extent(d))));
    }
    agree(mesh_.world(), [&] {
      check(options);
      const std::lock_guard lock(detail::hdf5_mutex());
      detail::NetcdfReaders::all().forget(file_);
    });
    agree(mesh_.world(), [&] {
      if (mesh_.rank() == 0) said([&] { make(options, is_series); });
    });
  }

  static std::vector<index_t> extents_of(const Field& field) {
    std::vector<index_t> extents;
    for (int d = 0; d < Field::rank; ++d) extents.push_back(field.extent(d));
    return extents;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("cannot write '" + name_ + "' of '" + file_.string() + "': " + what);
  }
  template <class F>
  void said(F f) const {
    try {
      const std::lock_guard lock(detail::hdf5_mutex());
      f();
    } catch (const std::runtime_error& error) {
      refuse(error.what());
    }
  }

  void check(const NetcdfOptions& options) const {
    const auto rank = static_cast<std::size_t>(Field::rank);
    if ((!options.chunks.empty() && options.chunks.size() != rank) ||
        (!options.dimension_names.empty() && options.dimension_names.size() != rank))
      refuse("give as many chunks and names as the field has dimensions, " + std::to_string(rank));
    if (std::ranges::any_of(options.chunks, [](index_t c) { return c < 1; }) || options.level < 0 || options.level > 9)
      refuse("chunks of " + detail::text_of(options.chunks) + " points, level " + std::to_string(options.level) +
             ": give chunks of 1 or more and a level from 0 to 9");
  }

  void make(const NetcdfOptions& options, bool is_series) const {
    detail::NetcdfWriter file(file_);
    int variable = 0;
    if (nc_inq_varid(file.id(), name_.c_str(), &variable) == NC_NOERR) {
      require_same(file.id(), variable);
    } else {
      std::vector<int> dimensions;
      for (std::size_t d = 0; d < extents_.size(); ++d)
        dimensions.push_back(file.dimension(
            options.dimension_names.empty() ? name_ + "_" + std::to_string(d) : options.dimension_names[d],
            static_cast<std::size_t>(extents_[d])));
      detail::require_netcdf(
          nc_def_var(file.id(), name_.c_str(), detail::netcdf_type<T>(), Field::rank, dimensions.data(), &variable));
      if (!options.chunks.empty()) {
        std::vector<std::size_t> chunks;
        for (std::size_t d = 0; d < extents_.size(); ++d)
          chunks.push_back(static_cast<std::size_t>(std::min(options.chunks[d], std::max<index_t>(1, extents_[d]))));
        detail::require_netcdf(nc_def_var_chunking(file.id(), variable, NC_CHUNKED, chunks.data()));
      }
      if (options.level > 0) detail::require_netcdf(nc_def_var_deflate(file.id(), variable, 1, 1, options.level));
      if constexpr (std::is_floating_point_v<T>) {
        const T missing = std::numeric_limits<T>::quiet_NaN();
        detail::require_netcdf(nc_def_var_fill(file.id(), variable, is_series ? NC_FILL : NC_NOFILL, &missing));
      }
    }
    file.attributes(variable, options.attributes);
    file.close();
  }

  void require_same(int file, int variable) const {
    nc_type type = NC_NAT;
    int rank = 0;
    detail::require_netcdf(nc_inq_var(file, variable, nullptr, &type, &rank, nullptr, nullptr));
    std::vector<int> dimensions(static_cast<std::size_t>(rank));
    detail::require_netcdf(nc_inq_vardimid(file, variable, dimensions.data()));
    std::vector<index_t> shape;
    for (const int dimension : dimensions) {
      std::size_t length = 0;
      detail::require_netcdf(nc_inq_dimlen(file, dimension, &length));
      shape.push_back(static_cast<index_t>(length));
    }
    if (shape != extents_ || type != detail::netcdf_type<T>())
      throw std::runtime_error(
          "it is there with " + detail::text_of(shape) + " points, not " + detail::text_of(extents_) +
          ", or of another type, and netCDF cannot remove it: give another name, or remove the file");
  }

  void put(const detail::PointBox& box, const std::vector<T>& values) const {
    said([&] {
      detail::NetcdfWriter file(file_);
      const detail::NetcdfId id(file.id(), name_);
      const std::vector<std::size_t> first(box.begin.begin(), box.begin.end()),
          count(box.extent.begin(), box.extent.end());
      detail::require_netcdf(nc_put_vara(id.group, id.variable, first.data(), count.data(), values.data()));
      file.close();
    });
  }

  DeviceMesh<typename Field::mesh_type> mesh_;
  std::filesystem::path file_;
  std::string name_;
  std::vector<index_t> extents_;
};

/// Collective over the field's mesh: writes it whole, as NetcdfSeries.
template <class Field>
void save_netcdf(const std::filesystem::path& file, const std::string& name, const Field& field,
                 NetcdfOptions options = {}) {
  typename Field::Extents extents;
  for (int d = 0; d < Field::rank; ++d) extents[static_cast<std::size_t>(d)] = field.extent(d);
  NetcdfSeries<Field>(file, name, field.mesh("save_netcdf"), extents, std::move(options), false).write(0, field);
}

/// Local, for one rank: a coordinate, a variable of one dimension whose name is its own. Error names file and fault.
inline void save_netcdf_coordinate(const std::filesystem::path& path, const std::string& name,
                                   const std::vector<double>& values,
                                   const nlohmann::ordered_json& attributes = nlohmann::ordered_json::object()) try {
  const std::lock_guard lock(detail::hdf5_mutex());
  detail::NetcdfWriter file(path);
  const int dimension = file.dimension(name, values.size());
  int variable = 0;
  if (nc_inq_varid(file.id(), name.c_str(), &variable) != NC_NOERR) {
    file.look_at_all();
    detail::require_netcdf(nc_def_var(file.id(), name.c_str(), NC_DOUBLE, 1, &dimension, &variable));
  }
  file.attributes(variable, attributes);
  detail::require_netcdf(nc_put_var_double(file.id(), variable, values.data()));
  file.close();
} catch (const std::runtime_error& error) {
  throw Error("cannot write '" + name + "' of '" + path.string() + "': " + error.what());
}

}  // namespace halogen
