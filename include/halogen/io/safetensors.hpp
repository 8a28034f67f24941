// safetensors files: u64 little-endian header length, JSON header, raw data. Opt-in: needs nlohmann-json.
// Source: https://huggingface.co/docs/safetensors ("Format"); PyTorch's load_file reads what is written here.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "halogen/core/half.hpp"
#include "halogen/core/host_array.hpp"
#include "halogen/io/json.hpp"
#include "halogen/io/placed_file.hpp"

namespace halogen {
namespace detail {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is not swapped here");
inline constexpr std::uint64_t longest_header = 100'000'000;  // the reference implementation's limit

/// Bytes per element, 0 for a dtype that the format does not know (or packs below one byte).
constexpr std::uint64_t dtype_bytes(std::string_view dtype) {
  constexpr std::string_view known[4][5] = {{"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"},
                                            {"F16", "BF16", "I16", "U16"},
                                            {"F32", "I32", "U32"},
                                            {"F64", "I64", "U64", "C64"}};
  for (int power = 0; power < 4; ++power)
    if (!dtype.empty() && std::ranges::count(known[power], dtype) > 0) return std::uint64_t{1} << power;
  return 0;
}

template <class T>
std::string dtype_name() {
  if constexpr (std::is_same_v<T, bfloat16>)
    return "BF16";
  else if constexpr (std::is_same_v<T, float16>)
    return "F16";
  else if constexpr (std::is_same_v<T, bool>)
    return "BOOL";
  else {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "T has no safetensors dtype");
    return (std::is_floating_point_v<T> ? "F" : std::is_unsigned_v<T> ? "U" : "I") + std::to_string(8 * sizeof(T));
  }
}

}  // namespace detail

/// One tensor of a file: `data` holds the elements row-major, the last dimension fastest, in PyTorch's own dimension
/// order (NCHW fields, OIHW weights). An empty shape is a scalar.
struct NamedTensor {
  std::string name;
  std::string dtype;  // F32, F64, I64, ... as the format spells them
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;

  /// std::runtime_error unless dtype and shape make so many bytes: an unknown dtype, a negative extent, an overflow.
  void check_bytes(std::uint64_t bytes) const {
    std::uint64_t needed = detail::dtype_bytes(dtype);
    bool sound = needed > 0;
    for (const std::int64_t extent : shape) {
      sound = sound && extent >= 0 && (extent == 0 || needed <= static_cast<std::uint64_t>(INT64_MAX / extent));
      if (sound) needed *= static_cast<std::uint64_t>(extent);
    }
    if (!sound || needed != bytes)
      throw std::runtime_error("tensor '" + name + "' has " + std::to_string(bytes) + " bytes, which dtype '" + dtype +
                               "' and its shape do not make");
  }

  /// The elements, where T is exactly the stored dtype; std::runtime_error otherwise.
  ///   auto weight = find(read_safetensors("weights.safetensors"), "enc1.0.weight").as<float>();
  template <class T>
  std::vector<T> as() const {
    const std::string asked = detail::dtype_name<T>();
    if (dtype != asked) throw std::runtime_error("tensor '" + name + "' holds " + dtype + ", not " + asked);
    check_bytes(data.size());
    detail::HostArray<T> values(data.size() / sizeof(T));
    if (values.size() > 0) std::memcpy(values.data(), data.data(), data.size());
    detail::make_values<T>(values);
    return detail::as_vector(std::move(values));
  }
};

/// A tensor of T's dtype with a copy of the values; that they fill the shape is checked when it is written.
template <class T>
NamedTensor named_tensor(std::string name, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  const auto& array = detail::as_array(values);
  const auto bytes = std::as_bytes(std::span(array.data(), array.size()));
  return {std::move(name), detail::dtype_name<T>(), std::move(shape), {bytes.begin(), bytes.end()}};
}

namespace detail {

/// Whether two shapes differ by extents of 1 at most: (64) and (1 x 64 x 1 x 1) hold the same numbers in the same
/// order.
template <class A, class B>
bool same_but_for_ones(const A& a, const B& b) {
  const auto without = [](const auto& shape) {
    std::vector<std::int64_t> extents(std::begin(shape), std::end(shape));
    std::erase(extents, 1);
    return extents;
  };
  return without(a) == without(b);
}

}  // namespace detail

/// The tensor of that name, a reference into `tensors`; std::runtime_error where there is none.
inline const NamedTensor& find(const std::vector<NamedTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end()) throw std::runtime_error("there is no tensor '" + std::string(name) + "'");
  return *found;
}

/// A tensor of a file: what is said of it, without data, and where its data lie.
struct TensorPlace {
  NamedTensor tensor;
  std::uint64_t begin = 0, bytes = 0;  ///< begin: from the first byte of the file on
};

namespace detail {

/// A file's first bytes, up to the data, and where each tensor's lie.
struct SafetensorsLayout {
  std::string header;
  std::vector<std::uint64_t> begin;  ///< of each tensor, from the first byte of the file on
  std::uint64_t end = 0;             ///< of the file
};

/// The data of the widest elements lie first, so that all are aligned. `bytes` of each tensor.
inline SafetensorsLayout safetensors_layout(const std::vector<NamedTensor>& tensors,
                                            const std::vector<std::uint64_t>& bytes) try {
  std::set<std::string_view> names{"__metadata__"};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!names.insert(tensors[i].name).second) throw std::runtime_error("the name '" + tensors[i].name + "' is taken");
    tensors[i].check_bytes(bytes[i]);
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](auto i) { return 8 - dtype_bytes(tensors[i].dtype); });
  SafetensorsLayout layout;
  layout.begin.resize(tensors.size());
  for (const std::size_t i : order) layout.begin[i] = std::exchange(layout.end, layout.end + bytes[i]);
  std::string text = "{";
  for (std::size_t i = 0; i < tensors.size(); ++i)
    text += (i > 0 ? "," : "") + Json(tensors[i].name).dump() + ":" +
            Json{{"dtype", tensors[i].dtype},
                 {"shape", tensors[i].shape},
                 {"data_offsets", {layout.begin[i], layout.begin[i] + bytes[i]}}}
                .dump();
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  if (length > longest_header) throw std::runtime_error("its header would be longer than the 100 MB allowed");
  layout.header.assign(reinterpret_cast<const char*>(&length), sizeof length);
  layout.header += text;
  for (std::uint64_t& begin : layout.begin) begin += layout.header.size();
  layout.end += layout.header.size();
  return layout;
} catch (const nlohmann::json::exception&) {
  throw std::runtime_error("the name of a tensor is not UTF-8");
}

/// A list of counts in a header.
inline std::vector<std::uint64_t> counts_in(const Json& list) {
  for (const Json& number : list)
    if (number.is_number() && !number.is_number_unsigned())
      throw std::runtime_error("its header holds a number that is no count");
  return list.get<std::vector<std::uint64_t>>();
}

/// The tensors of an open file of so many bytes, in the order of its header. Those of a dtype that is not known here
/// are among them, with as many bytes as the header says.
inline std::vector<TensorPlace> safetensors_places(std::istream& file, std::uint64_t file_bytes) try {
  const auto refuse = [](const std::string& cause) { throw std::runtime_error(cause); };
  const auto get = [&](void* bytes, std::uint64_t n) {
    if (!file.read(static_cast<char*>(bytes), static_cast<std::streamsize>(n))) refuse("it ends too early");
  };
  std::uint64_t length = 0;
  get(&length, sizeof length);
  if (length > std::min(longest_header, file_bytes - sizeof length))
    refuse("its header of " + std::to_string(length) + " bytes is longer than the file or than the 100 MB allowed");
  std::string header(length, ' ');
  get(header.data(), length);
  const Json entries = parse_json(header);
  if (!entries.is_object()) throw JsonFault("it is no object");
  const std::uint64_t data = sizeof length + length;
  std::vector<TensorPlace> places;
  std::vector<std::array<std::uint64_t, 3>> order;  // begin, end, index into places
  for (const auto& entry : entries.items()) {
    if (entry.key() == "__metadata__") continue;
    const std::vector<std::uint64_t> offsets = counts_in(entry.value().at("data_offsets"));
    const std::vector<std::uint64_t> shape = counts_in(entry.value().at("shape"));
    const NamedTensor tensor{entry.key(), entry.value().at("dtype"), {shape.begin(), shape.end()}, {}};
    if (offsets.size() != 2 || offsets[0] > offsets[1]) refuse("tensor '" + entry.key() + "' has bad data_offsets");
    if (dtype_bytes(tensor.dtype) > 0) tensor.check_bytes(offsets[1] - offsets[0]);
    order.push_back({offsets[0], offsets[1], places.size()});
    places.push_back({tensor, data + offsets[0], offsets[1] - offsets[0]});
  }
  std::ranges::sort(order);
  std::uint64_t end = 0, data_bytes = file_bytes - data;
  for (const auto& [first, last, i] : order) {
    if (first != end || last > data_bytes)
      refuse("tensor '" + places[i].tensor.name + "' has data bytes " + std::to_string(first) + " to " +
             std::to_string(last) + ", but the one before it ends at " + std::to_string(end) + " and the file at " +
             std::to_string(data_bytes));
    end = last;
  }
  if (end != data_bytes) refuse(std::to_string(data_bytes - end) + " data bytes after the last tensor belong to none");
  return places;
} catch (const nlohmann::json::exception&) {
  throw std::runtime_error("its header is not the JSON of a safetensors file");
} catch (const JsonFault& fault) {
  throw std::runtime_error(std::string("its header is not the JSON of a safetensors file: ") + fault.what());
}

/// Calls read(file, its tensors) of a file that can be opened; every fault says which file it is.
template <class Read>
auto with_safetensors(const std::filesystem::path& path, Read read) try {
  remove_left_over(path);
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) throw std::runtime_error(words_of_system(error.value(), path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(words_of_system(errno, path));
  return read(file, safetensors_places(file, file_bytes));
} catch (const std::exception& error) {
  throw std::runtime_error("cannot read '" + path.string() + "': " + words_of_fault(error, path));
}

}  // namespace detail

/// Writes the tensors, named in the file in the order given; the data of the widest elements lies first, so that all of
/// it is aligned. The bytes go to `path` + ".partial", are synchronised to the disk and renamed: a write that ends
/// early leaves an older file at `path` as it was. What a killed process has left there goes when the file is next
/// written or read. A symbolic link stays: its target is replaced. Not collective. std::runtime_error: a name twice or
/// reserved, data that does not fill its shape, a path that is no regular file, whatever the system refuses.
inline void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) try {
  std::vector<std::uint64_t> bytes;
  for (const NamedTensor& tensor : tensors) bytes.push_back(tensor.data.size());
  const detail::SafetensorsLayout layout = detail::safetensors_layout(tensors, bytes);
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return layout.begin[i]; });
  detail::Replacement replacement(path);
  std::uint64_t at = layout.header.size();
  replacement.file().write(layout.header.data(), at, 0);
  for (const std::size_t i : order) {
    replacement.file().write(tensors[i].data.data(), bytes[i], at);
    at += bytes[i];
  }
  replacement.take_name();
} catch (const std::exception& error) {
  throw std::runtime_error("cannot write '" + path.string() + "': " + detail::words_of_fault(error, path));
}

/// Names, dtypes, shapes and places of a file's tensors, in the order of its header; no data is read. Errors: as
/// read_safetensors.
inline std::vector<TensorPlace> read_safetensors_header(const std::filesystem::path& path) {
  return detail::with_safetensors(path, [](std::istream&, const std::vector<TensorPlace>& places) { return places; });
}

/// All tensors of a file, in the order of its header; `__metadata__` is skipped. A tensor of a dtype that is not known
/// here ("F4") comes as the bytes that it is. Nothing is allocated that the file is
/// not long enough to fill. Not collective. std::runtime_error for a file that is missing, truncated or of another
/// format, or whose tensors overlap, leave bytes over, reach out of the file or do not have the size of their shape.
inline std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  return detail::with_safetensors(path, [](std::istream& file, const std::vector<TensorPlace>& places) {
    std::vector<NamedTensor> tensors;
    for (const TensorPlace& place : places) {
      NamedTensor& tensor = tensors.emplace_back(place.tensor);
      tensor.data.resize(place.bytes);
      file.seekg(static_cast<std::streamoff>(place.begin));
      if (!file.read(reinterpret_cast<char*>(tensor.data.data()), static_cast<std::streamsize>(place.bytes)))
        throw std::runtime_error("it ends too early");
    }
    return tensors;
  });
}

}  // namespace halogen
