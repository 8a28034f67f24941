// Fields to Zarr arrays of version 3: each file is written by one rank. Opt-in: link halogen::zarr.
//
//   hg::save_zarr("run.zarr", "t2m", field, {.dimension_names = {"sample", "channel", "lat", "lon"}});
//
//   hg::ZarrSeries<Field> out("run.zarr", "t2m", mesh, {100, 1, 721, 1440});   // 100 times, one after the other
//   out.write(17, field);                                                      // (1, 1, 721, 1440): the 18th
#pragma once

#include "halogen/io/fields.hpp"
#include "halogen/io/zarr.hpp"
#include "halogen/io/zarr/zarr_store.hpp"

namespace halogen {

enum class ZarrCompression { none, gzip, zstd, blosc };

struct ZarrOptions {
  /// Points of a chunk. Empty: the largest piece that a rank holds, so that none is shared; 1 along a series.
  std::vector<index_t> chunks{};
  /// Points of a file that holds several chunks, a multiple of theirs. Empty: a file for each chunk.
  std::vector<index_t> shards{};
  ZarrCompression compression = ZarrCompression::zstd;
  int level = 3;
  std::vector<std::string> dimension_names{};
  nlohmann::ordered_json attributes = nlohmann::ordered_json::object();
};

/// An array whose first dimension is filled piece by piece, as a run goes on. All calls are collective over the mesh. A
/// file (a chunk or a shard) belongs to the rank that holds its first point: it gets what it lacks from the others by
/// one message each, and no two ranks write one file. Ranks without a file take part. A file appears whole or not at
/// all. The store is consolidated, and groups on the way ("fields/density") are made. While the object or a copy of it
/// lives nobody else may write the array. Faults are CollectiveError on all ranks: a name that leads elsewhere, a
/// folder that holds something else than an array, another run that writes it, attributes or a compression that cannot
/// be.
template <class Field>
class ZarrSeries {
  static_assert(detail::is_whole<Field>,
                "save_zarr_of_summands: a Partial field is a sum that is still due: redistribute it first");
  using T = compute_type<typename Field::value_type>;

 public:
  /// Makes the array, of `extents` points; one of that name in the store is replaced, once all is known to be right.
  ZarrSeries(const std::filesystem::path& store, const std::string& name,
             const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
             ZarrOptions options = {})
      : ZarrSeries(store, name, mesh, extents, with_series_chunks(mesh, extents, std::move(options)), true) {}

  /// Writes field's points at `first` of the first dimension.
  void write(index_t first, const Field& field) const {
    const Communicator& world = mesh_.world();
    detail::require_made("write", field);
    agree(world, [&] { check(first, field); });
    std::vector<std::vector<T>> to(static_cast<std::size_t>(mesh_.size()));
    const std::vector<File> files = pack(first, field, to);
    const std::vector<detail::PointBox> boxes = sent_boxes(first, field);
    const std::vector<std::size_t> received = received_bytes(files, boxes);
    std::vector<std::size_t> sent;
    std::vector<T> all_sent;
    for (const std::vector<T>& message : to) {
      sent.push_back(message.size() * sizeof(T));
      all_sent.insert(all_sent.end(), message.begin(), message.end());
    }
    std::vector<T> all(std::accumulate(received.begin(), received.end(), std::size_t{0}) / sizeof(T));
    world.all_to_all_v(all_sent.data(), sent, all.data(), received);
    agree(world, [&] { write_files(files, boxes, all, received); });
  }

 private:
  template <class F>
  friend void save_zarr(const std::filesystem::path&, const std::string&, const F&, ZarrOptions);

  ZarrSeries(const std::filesystem::path& store, const std::string& name,
             const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
             ZarrOptions options, bool is_series)
      : mesh_(mesh), path_(store / name), extents_(extents.begin(), extents.end()), options_(std::move(options)) {
    file_ = options_.shards.empty() ? options_.chunks : options_.shards;
    chunks_ = is_series ? path_ : path_ / detail::zarr_partial;
    using Compressor = detail::ZarrCodecs::Compressor;
    constexpr Compressor compressors[] = {Compressor::none, Compressor::gzip, Compressor::zstd, Compressor::blosc};
    codecs_.compressor = compressors[static_cast<int>(options_.compression)];
    codecs_.level = options_.level;
    agree(mesh_.world(), [&] {
      check_options();
      said([&] {
        if (mesh_.rank() == 0) folder_ = std::make_shared<detail::ZarrFolder>(store, name);
      });
    });
    if (is_series) publish();
  }

  /// Collective: the array takes its place in the store.
  void publish() const {
    agree(mesh_.world(), [&] {
      said([&] {
        if (folder_) folder_->publish(metadata());
      });
    });
  }

  /// The largest piece of a field of these extents; of a series 1 along the first dimension.
  static ZarrOptions with_chunks(const Field& field, ZarrOptions options, bool is_series) {
    if (!options.chunks.empty()) return options;
    for (int d = 0; d < Field::rank; ++d)
      options.chunks.push_back(std::max<index_t>(1, is_series && d == 0 ? 1 : field.cut(d).piece(0).size()));
    return options;
  }
  static ZarrOptions with_series_chunks(const DeviceMesh<typename Field::mesh_type>& mesh,
                                        typename Field::Extents extents, ZarrOptions options) {
    extents[0] = 1;
    return with_chunks(Field(mesh, extents), std::move(options), true);
  }

  static bool holds(const Interval& piece, index_t point) { return piece.begin <= point && point < piece.end; }
  /// Of points that are not written.
  T fill() const {
    constexpr bool has_nan = std::is_floating_point_v<T>;
    return detail::fill_among(options_.attributes, has_nan ? std::numeric_limits<T>::quiet_NaN() : T(0));
  }
  /// Whether a rank is the first of those that hold its piece.
  bool is_first(int rank) const {
    for (int d = Field::mesh_type::rank - 1; d >= 0; --d) {
      const int coordinate = rank % mesh_.extent(d);
      rank /= mesh_.extent(d);
      if (Field::placements[static_cast<std::size_t>(d)] == replicate_code && coordinate != 0) return false;
    }
    return true;
  }

  /// A file's place among the files, and its points.
  struct File {
    std::vector<index_t> at;
    detail::PointBox points;
  };

  /// The points of the array that a rank's piece of the field fills.
  static detail::PointBox box_of(index_t first, const Field& field, int rank) {
    detail::PointBox box = detail::piece_box(field, rank);
    box.begin[0] += first;
    return box;
  }
  /// The rank that holds the file's first point.
  static int owner_of(const detail::PointBox& file, index_t first, const Field& field, const Decomposition& pieces) {
    int rank = 0;
    for (int d = 0; d < Field::rank; ++d) {
      const index_t point = std::max(file.begin[static_cast<std::size_t>(d)] - (d == 0 ? first : 0), index_t{0});
      int part = 0;
      while (!holds(field.cut(d).piece(part), point)) ++part;
      rank = pieces.with_part(rank, d, part);
    }
    return rank;
  }
  /// This rank's files. What this rank has of each file is appended to its owner's message, file after file.
  std::vector<File> pack(index_t first, const Field& field, std::vector<std::vector<T>>& to) const {
    const Decomposition pieces = field.decomposition();
    const detail::PointBox box = box_of(first, field, mesh_.rank());
    const auto values = field.to_host_array();
    detail::PointBox whole{std::vector<index_t>(extents_.size(), 0), detail::shape_in_file(field)};
    whole.begin[0] = first;
    std::vector<File> files;
    detail::for_each_chunk(whole, file_, [&](const std::vector<index_t>& at) {
      const detail::PointBox file = detail::chunk_box(at, file_);
      const int owner = owner_of(file, first, field, pieces);
      if (owner == mesh_.rank()) files.push_back({at, file});
      if (!detail::is_first_holder(field)) return;
      std::vector<T>& message = to[static_cast<std::size_t>(owner)];
      detail::for_each_row(detail::common(file, box), box, file, [&](index_t from, index_t, index_t points) {
        for (index_t i = from; i < from + points; ++i)
          message.push_back(static_cast<T>(values[static_cast<std::size_t>(i)]));
      });
    });
    return files;
  }
  /// The points that each rank sends: no points where another rank sends the same piece.
  std::vector<detail::PointBox> sent_boxes(index_t first, const Field& field) const {
    const detail::PointBox own = box_of(first, field, mesh_.rank());
    std::vector<detail::PointBox> boxes;
    for (int rank = 0; rank < mesh_.size(); ++rank)
      boxes.push_back(is_first(rank) ? box_of(first, field, rank)
                                     : detail::PointBox{own.begin, std::vector<index_t>(own.begin.size(), 0)});
    return boxes;
  }
  /// Of each rank's message to this one.
  static std::vector<std::size_t> received_bytes(const std::vector<File>& files,
                                                 const std::vector<detail::PointBox>& boxes) {
    std::vector<std::size_t> bytes;
    for (const detail::PointBox& box : boxes) {
      bytes.push_back(0);
      for (const File& file : files)
        bytes.back() += static_cast<std::size_t>(detail::common(file.points, box).points()) * sizeof(T);
    }
    return bytes;
  }
  /// `all`: the ranks' messages one after the other, of so many bytes.
  void write_files(const std::vector<File>& files, const std::vector<detail::PointBox>& boxes,
                   const std::vector<T>& all, const std::vector<std::size_t>& bytes) const {
    std::vector<std::size_t> next(bytes.size());  // of each rank's message
    std::exclusive_scan(bytes.begin(), bytes.end(), next.begin(), std::size_t{0});
    for (std::size_t& begin : next) begin /= sizeof(T);
    for (const File& file : files) {
      std::vector<T> points(static_cast<std::size_t>(file.points.points()), fill());
      for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
        const detail::PointBox& of = boxes[rank];
        detail::for_each_row(
            detail::common(file.points, of), of, file.points, [&](index_t, index_t to_point, index_t count) {
              std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(next[rank]), count, points.begin() + to_point);
              next[rank] += static_cast<std::size_t>(count);
            });
      }
      write_file(file.at, file.points, points);
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("cannot write '" + path_.string() + "': " + what);
  }
  template <class F>
  void said(F f) const {
    try {
      f();
    } catch (const std::exception& error) {
      refuse(detail::words_of_fault(error, path_));
    }
  }
  void check_options() const {
    const auto rank = static_cast<std::size_t>(Field::rank);
    if (options_.chunks.size() != rank || file_.size() != rank ||
        (!options_.dimension_names.empty() && options_.dimension_names.size() != rank))
      refuse("give as many chunks, shards and names as the field has dimensions, " + std::to_string(rank));
    for (std::size_t d = 0; d < rank; ++d)
      if (options_.chunks[d] < 1 || file_[d] % options_.chunks[d] != 0)
        refuse("chunks of " + detail::text_of(options_.chunks) + " points in files of " + detail::text_of(file_) +
               ": give 1 or more, and files of whole chunks");
    said([&] {
      std::uint64_t bytes = sizeof(T);
      for (const index_t chunk : options_.chunks) bytes *= static_cast<std::uint64_t>(chunk);
      detail::require_encodable(codecs_, bytes);
      detail::json_text(metadata());
    });
  }
  void check(index_t first, const Field& field) const {
    std::vector<index_t> extents = detail::shape_in_file(field);
    const std::vector<index_t> rest(extents.begin() + 1, extents.end());
    if (!(field.mesh("save_zarr") == mesh_) || rest != std::vector<index_t>(extents_.begin() + 1, extents_.end()) ||
        first < 0 || first + extents[0] > extents_[0])
      refuse("a field of " + detail::text_of(extents) + " at " + std::to_string(first) + ", but the array has " +
             detail::text_of(extents_) + ": give a field of its extents and mesh");
    const index_t end = first + extents[0];
    if (first % file_[0] != 0 || (end % file_[0] != 0 && end != extents_[0]))
      refuse("points " + std::to_string(first) + " to " + std::to_string(end) +
             " of its first dimension fill no whole files of " + std::to_string(file_[0]) +
             ": write as many at once, or give chunks of 1 there");
  }

  /// What is done to a chunk, or to a shard and its chunks, in the order of writing.
  nlohmann::ordered_json codecs_as_json() const {
    using Json = nlohmann::ordered_json;
    Json codecs = Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}});
    if (options_.compression == ZarrCompression::gzip)
      codecs.push_back({{"name", "gzip"}, {"configuration", {{"level", options_.level}}}});
    if (options_.compression == ZarrCompression::zstd)
      codecs.push_back({{"name", "zstd"}, {"configuration", {{"level", options_.level}, {"checksum", false}}}});
    if (options_.compression == ZarrCompression::blosc)
      codecs.push_back({{"name", "blosc"},
                        {"configuration",
                         {{"typesize", sizeof(T)},
                          {"cname", "zstd"},
                          {"clevel", options_.level},
                          {"shuffle", "shuffle"},
                          {"blocksize", 0}}}});
    if (options_.shards.empty()) return codecs;
    return Json::array({{{"name", "sharding_indexed"},
                         {"configuration",
                          {{"chunk_shape", options_.chunks},
                           {"codecs", codecs},
                           {"index_codecs", Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}},
                                                         {{"name", "crc32c"}}})},
                           {"index_location", "end"}}}}});
  }

  nlohmann::ordered_json metadata() const {
    using Json = nlohmann::ordered_json;
    Json about{{"zarr_format", 3}, {"node_type", "array"}, {"shape", extents_}};
    about["data_type"] = detail::stored_type<T>().name();
    about["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", file_}}}};
    about["chunk_key_encoding"] = {{"name", "default"}, {"configuration", {{"separator", "/"}}}};
    about["fill_value"] = detail::zarr_spelled(fill());
    about["codecs"] = codecs_as_json();
    about["attributes"] = detail::zarr_attributes<T>(options_.attributes);
    if (!options_.dimension_names.empty()) about["dimension_names"] = options_.dimension_names;
    return about;
  }

  void write_file(const std::vector<index_t>& at, const detail::PointBox& file, const std::vector<T>& points) const {
    std::filesystem::path path = chunks_ / "c";
    for (const index_t i : at) path /= std::to_string(i);
    try {
      std::vector<std::byte> bytes;
      if (options_.shards.empty()) {
        bytes = detail::encode_chunk(codecs_, std::as_bytes(std::span(points)), sizeof(T));
      } else {
        std::vector<std::uint64_t> index;
        detail::for_each_chunk(file, options_.chunks, [&](const std::vector<index_t>& inner) {
          const detail::PointBox part = detail::chunk_box(inner, options_.chunks);
          std::vector<T> own(static_cast<std::size_t>(part.points()));
          detail::for_each_row(part, file, part, [&](index_t from, index_t to, index_t count) {
            std::copy_n(points.begin() + from, count, own.begin() + to);
          });
          const auto encoded = detail::encode_chunk(codecs_, std::as_bytes(std::span(own)), sizeof(T));
          index.insert(index.end(), {bytes.size(), encoded.size()});
          bytes.insert(bytes.end(), encoded.begin(), encoded.end());
        });
        const auto of_index = std::as_bytes(std::span(index));
        const std::uint32_t crc = detail::crc32c_of(of_index);
        bytes.insert(bytes.end(), of_index.begin(), of_index.end());
        const auto of_crc = std::as_bytes(std::span(&crc, 1));
        bytes.insert(bytes.end(), of_crc.begin(), of_crc.end());
      }
      std::filesystem::create_directories(path.parent_path());
      detail::write_whole(path, bytes.data(), bytes.size());
    } catch (const std::exception& error) {
      throw std::runtime_error("cannot write '" + path.string() + "': " + detail::words_of_fault(error, path));
    }
  }

  DeviceMesh<typename Field::mesh_type> mesh_;
  std::filesystem::path path_, chunks_;
  std::shared_ptr<detail::ZarrFolder> folder_;  ///< rank 0's
  std::vector<index_t> extents_, file_;
  ZarrOptions options_;
  detail::ZarrCodecs codecs_;
};

/// Collective over the field's mesh: writes it whole, each file by one rank. As ZarrSeries, but an array of that name
/// stays until the new one is whole: both have space for a while.
template <class Field>
void save_zarr(const std::filesystem::path& store, const std::string& name, const Field& field,
               ZarrOptions options = {}) {
  using Series = ZarrSeries<Field>;
  detail::require_made("save_zarr", field);
  typename Field::Extents extents;
  for (int d = 0; d < Field::rank; ++d) extents[static_cast<std::size_t>(d)] = field.extent(d);
  const Series series(store, name, field.mesh(), extents, Series::with_chunks(field, std::move(options), false), false);
  series.write(0, field);
  series.publish();
}

/// Local, for one rank: a coordinate, an array of one dimension whose name is its own, as xarray looks for them. Error
/// names store and fault.
inline void save_zarr_coordinate(const std::filesystem::path& store, const std::string& name,
                                 const std::vector<double>& values,
                                 nlohmann::ordered_json attributes = nlohmann::ordered_json::object()) try {
  using Json = nlohmann::ordered_json;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Json chunk = Json::array({std::max<std::size_t>(1, values.size())});
  const Json about{{"zarr_format", 3},
                   {"node_type", "array"},
                   {"shape", {values.size()}},
                   {"data_type", "float64"},
                   {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", chunk}}}}},
                   {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
                   {"fill_value", detail::zarr_spelled(detail::fill_among(attributes, nan))},
                   {"codecs", Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}})},
                   {"attributes", detail::zarr_attributes<double>(attributes)},
                   {"dimension_names", Json::array({name.substr(name.rfind('/') + 1)})}};
  detail::ZarrFolder folder(store, name);
  const std::filesystem::path file = folder.partial() / "c" / "0";
  std::filesystem::create_directories(file.parent_path());
  detail::write_whole(file, values.data(), values.size() * sizeof(double));
  folder.publish(about);
} catch (const std::exception& error) {
  throw Error("cannot write '" + (store / name).string() + "': " + detail::words_of_fault(error, store / name));
}

}  // namespace halogen
