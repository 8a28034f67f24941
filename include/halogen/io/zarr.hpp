// Zarr arrays by piece: each rank reads its own box of a store, a folder that all ranks see. Opt-in: link
// halogen::zarr.
//
//   const hg::ZarrArray t2m(mesh.world(), "era5.zarr", "t2m");   // time, latitude, longitude
//   hg::load_variable(t2m, field, {17});                         // the 18th time into (1, 1, H, W), by piece
#pragma once

#include <algorithm>
#include <atomic>

#include "halogen/io/data/file_variable.hpp"
#include "halogen/io/zarr/zarr_chunks.hpp"

namespace halogen {

/// An array of versions 2 and 3: float32, float64, integers of either byte order; blosc, zstd, gzip, zlib or no
/// compression; CRC-32C; shards; consolidated metadata. CF: numbers are stored * scale_factor + add_offset,
/// `_FillValue` and `missing_value` become NaN, `_Unsigned` is heeded; what they cannot be is refused. A chunk without
/// a file holds the fill value. What it does not read (filters, the order of Fortran, strings) is refused by name.
///
/// read() decodes each chunk that its box touches, once, and no other. Shards are read chunk by chunk.
class ZarrArray {
 public:
  /// Local. std::runtime_error names store, array and fault.
  ZarrArray(const std::filesystem::path& store, const std::string& name)
      : ZarrArray(store, name,
                  said_of(store, name, [&] { return detail::zarr_layout(detail::zarr_texts(store, name)); })) {}
  /// Collective: rank 0 reads the metadata. CollectiveError on all ranks.
  ZarrArray(const Communicator& world, const std::filesystem::path& store, const std::string& name)
      : ZarrArray(store, name, layout_for_all(world, store, name)) {}

  const std::vector<index_t>& shape() const { return layout_.shape; }
  const std::vector<index_t>& chunks() const { return layout_.decoded(); }
  /// Empty where there is nothing to decode.
  std::vector<index_t> decoded_chunks() const {
    return layout_.codecs.is_plain() ? std::vector<index_t>{} : layout_.decoded();
  }
  const std::vector<std::string>& dimension_names() const { return layout_.dimension_names; }
  const nlohmann::ordered_json& attributes() const { return layout_.attributes; }
  const std::string& name() const { return name_; }
  /// Of files, by this process so far.
  std::uint64_t bytes_read() const { return bytes_read_->load(); }

  /// Local: the numbers of a box, row-major. T: float or double. std::runtime_error: a box that reaches out, a chunk
  /// that is damaged.
  template <class T>
  void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, T* to) const {
    const detail::PointBox box{begin, extent};
    said_of(store_, name_, [&] {
      detail::require_inside(box, layout_.shape);
      detail::for_each_chunk(box, layout_.chunk, [&](const std::vector<index_t>& at) { read_file(at, box, to); });
    });
  }

 private:
  ZarrArray(const std::filesystem::path& store, const std::string& name, detail::ZarrLayout layout)
      : store_(store), name_(name), layout_(std::move(layout)) {}

  static detail::ZarrLayout layout_for_all(const Communicator& world, const std::filesystem::path& store,
                                           const std::string& name) {
    const detail::ZarrTexts own = agree(world, [&] {
      return world.rank() == 0 ? said_of(store, name, [&] { return detail::zarr_texts(store, name); })
                               : detail::ZarrTexts{};
    });
    int format = own.format;
    world.broadcast(&format, sizeof format, 0);
    const std::string array = detail::text_of_root(own.array, world);
    const std::string attributes = detail::text_of_root(own.attributes, world);
    return agree(world, [&] {
      return said_of(store, name, [&] { return detail::zarr_layout({format, array, attributes}); });
    });
  }

  template <class F>
  static auto said_of(const std::filesystem::path& store, const std::string& name, F f) -> decltype(f()) {
    try {
      return f();
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("cannot read '" + name + "' of '" + store.string() +
                               "': " + detail::words_of_fault(error, store));
    }
  }

  std::filesystem::path file_of(const std::vector<index_t>& chunk) const {
    std::string key = layout_.key_prefix;
    for (const index_t i : chunk) key += (key.empty() ? "" : std::string(1, layout_.separator)) + std::to_string(i);
    return store_ / name_ / (key.empty() ? "0" : key);
  }

  /// What a box has of one file.
  template <class T>
  void read_file(const std::vector<index_t>& at, const detail::PointBox& box, T* to) const {
    const std::filesystem::path path = file_of(at);
    try {
      const detail::PointBox whole = detail::chunk_box(at, layout_.chunk), wanted = detail::common(box, whole);
      std::error_code error;
      const std::uint64_t bytes = std::filesystem::file_size(path, error);
      if (error == std::errc::no_such_file_or_directory) return fill(wanted, box, to);
      if (error) throw std::runtime_error(detail::words_of_system(error.value(), path));
      const detail::PlacedFile file(path, O_RDONLY);
      std::vector<std::byte> encoded;
      const auto load = [&](std::uint64_t begin, std::uint64_t count) -> std::span<const std::byte> {
        if (begin > bytes || count > bytes - begin) throw std::runtime_error("a chunk reaches out of it");
        encoded.resize(count);
        file.read(encoded.data(), count, begin);
        bytes_read_->fetch_add(count);
        return encoded;
      };
      if (layout_.inner.empty()) {
        if (read_rows(file, bytes, whole, box, to)) return;
        return place(load(0, bytes), whole, box, to);
      }
      const std::vector<std::uint64_t> index = index_of(load, bytes);
      detail::for_each_chunk(wanted, layout_.inner, [&](const std::vector<index_t>& inner) {
        std::size_t number = 0;
        for (std::size_t d = 0; d < inner.size(); ++d) {
          const index_t per_shard = layout_.chunk[d] / layout_.inner[d];
          number =
              number * static_cast<std::size_t>(per_shard) + static_cast<std::size_t>(inner[d] - at[d] * per_shard);
        }
        const detail::PointBox part = detail::chunk_box(inner, layout_.inner);
        constexpr std::uint64_t absent = ~std::uint64_t{0};
        if (index[2 * number] == absent && index[2 * number + 1] == absent)
          fill(detail::common(box, part), box, to);
        else
          place(load(index[2 * number], index[2 * number + 1]), part, box, to);
      });
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("'" + path.string() + "': " + error.what());
    }
  }

  /// Reads what a box has of a file that holds the numbers as they are wanted, row by row, where rows are long; false
  /// for other files.
  template <class T>
  bool read_rows(const detail::PlacedFile& file, std::uint64_t bytes, const detail::PointBox& whole,
                 const detail::PointBox& box, T* to) const {
    constexpr index_t long_row = 4096 / static_cast<index_t>(sizeof(T));
    const detail::ZarrType type = layout_.type;
    const detail::PointBox part = detail::common(whole, box);
    if (type.kind != 'f' || type.bytes != static_cast<int>(sizeof(T)) || type.big_endian ||
        !layout_.codecs.is_plain() || !layout_.numbers.is_plain() || part.extent.empty() ||
        part.extent.back() < long_row || bytes != static_cast<std::uint64_t>(whole.points()) * sizeof(T))
      return false;
    index_t first = -1, end = 0, place = 0;  // rows that follow each other in both are read at once
    const auto flush = [&] {
      if (first < 0) return;
      const auto count = static_cast<std::uint64_t>(end - first) * sizeof(T);
      file.read(to + place, count, static_cast<std::uint64_t>(first) * sizeof(T));
      bytes_read_->fetch_add(count);
    };
    detail::for_each_row(part, whole, box, [&](index_t from, index_t at, index_t points) {
      if (first < 0 || from != end || at != place + (end - first)) {
        flush();
        first = from;
        place = at;
      }
      end = from + points;
    });
    flush();
    return true;
  }

  /// Offset and length of each inner chunk of a shard.
  template <class Load>
  std::vector<std::uint64_t> index_of(Load load, std::uint64_t bytes) const {
    std::uint64_t count = 1;
    for (std::size_t d = 0; d < layout_.chunk.size(); ++d)
      count *= static_cast<std::uint64_t>(layout_.chunk[d] / layout_.inner[d]);
    const std::uint64_t length = 16 * count + (layout_.index_crc32c ? 4 : 0);
    if (length > bytes) throw std::runtime_error("it is shorter than the index of a shard");
    std::span<const std::byte> encoded = load(layout_.index_at_end ? bytes - length : 0, length);
    if (layout_.index_crc32c) encoded = detail::before_crc32c(encoded);
    std::vector<std::uint64_t> index(2 * count);
    std::memcpy(index.data(), encoded.data(), 16 * count);
    return index;
  }

  /// Decodes a chunk, whose box is `part`, and puts what `box` has of it where that is laid out.
  template <class T>
  void place(std::span<const std::byte> encoded, const detail::PointBox& part, const detail::PointBox& box,
             T* to) const {
    const auto size = static_cast<std::size_t>(part.points()) * static_cast<std::size_t>(layout_.type.bytes);
    const std::unique_ptr<const std::byte[]> decoded = detail::decode_chunk(layout_.codecs, encoded, size);
    const bool is_plain = layout_.numbers.is_plain();
    detail::with_stored_type(layout_.type, [&]<class S>(S) {
      detail::for_each_row(detail::common(part, box), part, box, [&](index_t from, index_t at, index_t points) {
        const std::byte* row = decoded.get() + static_cast<std::size_t>(from) * sizeof(S);
        if (std::is_same_v<S, T> && is_plain && !layout_.type.big_endian) {
          std::memcpy(to + at, row, static_cast<std::size_t>(points) * sizeof(S));
          return;
        }
        for (index_t i = 0; i < points; ++i)
          to[at + i] = static_cast<T>(layout_.numbers.value_of(
              detail::zarr_value<S>(row + static_cast<std::size_t>(i) * sizeof(S), layout_.type.big_endian)));
      });
    });
  }

  template <class T>
  void fill(const detail::PointBox& part, const detail::PointBox& box, T* to) const {
    const T value = static_cast<T>(layout_.numbers.value_of(layout_.fill));
    detail::for_each_row(part, part, box,
                         [&](index_t, index_t at, index_t points) { std::fill_n(to + at, points, value); });
  }

  std::filesystem::path store_;
  std::string name_;
  detail::ZarrLayout layout_;
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

/// A store: a folder of arrays.
using ZarrStore = FileStore<ZarrArray>;

}  // namespace halogen
