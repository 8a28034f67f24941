// What the metadata of a Zarr array say: versions 2 and 3, sharded or not, consolidated or not. Opt-in: needs
// nlohmann-json. Sources: https://zarr-specs.readthedocs.io, "Zarr core specification (version 3)" and "Sharding
// codec"; https://zarr.readthedocs.io, "Zarr storage specification version 2"; what xarray adds: its "Zarr encoding
// specification".
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "halogen/io/data/cf.hpp"
#include "halogen/io/text.hpp"
#include "halogen/tensor/field_size.hpp"

namespace halogen::detail {

/// The numbers of an array as they are stored.
struct ZarrType : StoredType {
  bool big_endian = false;
};

/// What is done to a chunk's bytes, in the order of writing.
struct ZarrCodecs {
  enum class Compressor { none, gzip, zlib, zstd, blosc } compressor = Compressor::none;
  int level = 5;
  bool crc32c_before = false, crc32c_after = false;  ///< around the compressor
  bool is_plain() const { return compressor == Compressor::none && !crc32c_before && !crc32c_after; }
};

struct ZarrLayout {
  int format = 3;
  std::vector<index_t> shape, chunk;  ///< chunk: of a file
  std::vector<index_t> inner;         ///< chunks within a file that is a shard; empty: none is
  ZarrType type;
  ZarrCodecs codecs;  ///< of inner chunks where there are any
  bool index_crc32c = true, index_at_end = true;
  std::string key_prefix = "c";  ///< "c" or nothing
  char separator = '/';
  double fill = 0;  ///< of chunks without a file
  std::vector<std::string> dimension_names;
  Json attributes = Json::object();
  CfNumbers numbers;

  const std::vector<index_t>& decoded() const { return inner.empty() ? chunk : inner; }
};

/// Texts of the metadata: of version 3 one, of version 2 array and attributes.
struct ZarrTexts {
  int format = 3;
  std::string array, attributes;
};

inline constexpr std::uint64_t longest_zarr_json = 100'000'000;

inline Json parse_zarr_json(const std::string& text) try { return parse_json(text); } catch (const JsonFault& fault) {
  throw std::runtime_error(std::string("its metadata are not read: ") + fault.what());
}

/// Local. Reads them from a store, which is a folder, by the consolidated metadata where they name the array.
inline ZarrTexts zarr_texts(const fs::path& store, const std::string& name) {
  constexpr std::uint64_t most = longest_zarr_json;
  std::error_code none;
  const auto has = [&](const fs::path& path) { return fs::is_regular_file(path, none); };
  if (has(store / "zarr.json")) {
    const Json group = parse_zarr_json(text_in(store / "zarr.json", most));
    const auto all = group.find("consolidated_metadata");
    if (all != group.end() && all->is_object() && all->contains("metadata") && (*all)["metadata"].contains(name))
      return {3, json_text((*all)["metadata"][name]), "{}"};
  }
  if (has(store / ".zmetadata")) {
    const Json group = parse_zarr_json(text_in(store / ".zmetadata", most));
    if (group.contains("metadata") && group["metadata"].contains(name + "/.zarray")) {
      const Json& all = group["metadata"];
      return {2, json_text(all[name + "/.zarray"]), json_text(all.value(name + "/.zattrs", Json::object()))};
    }
  }
  const fs::path folder = store / name;
  if (has(folder / "zarr.json")) return {3, text_in(folder / "zarr.json", most), "{}"};
  if (has(folder / ".zarray"))
    return {2, text_in(folder / ".zarray", most), has(folder / ".zattrs") ? text_in(folder / ".zattrs", most) : "{}"};
  throw std::runtime_error(
      fs::is_directory(store, none)
          ? "the store has no array of that name (no zarr.json or .zarray): give the name of one that it has"
          : "there is no such folder: give the path of a store that is there");
}

inline ZarrType zarr_type(const std::string& text, int format) {
  const auto refuse = [&]() -> ZarrType {
    throw std::runtime_error("numbers of type '" + text + "' are not read: store float32, float64, or integers");
  };
  ZarrType type;
  std::string bits;
  if (format == 2) {  // "<f4"
    if (text.size() < 3 || (text[0] != '<' && text[0] != '>' && text[0] != '|')) return refuse();
    type.big_endian = text[0] == '>';
    type.kind = text[1];
    bits = text.substr(2);
    for (const int bytes : {1, 2, 4, 8})
      if (bits == std::to_string(bytes)) type.bytes = bytes, bits.clear();
  } else {  // "float32", "uint8"
    for (const auto& [word, kind] : {std::pair<std::string, char>{"float", 'f'}, {"int", 'i'}, {"uint", 'u'}})
      if (text.starts_with(word)) type.kind = kind, bits = text.substr(word.size());
    if (bits.empty()) return refuse();
    for (const int bytes : {1, 2, 4, 8})
      if (bits == std::to_string(8 * bytes)) type.bytes = bytes, bits.clear();
  }
  const bool known = type.kind == 'f' ? type.bytes == 4 || type.bytes == 8 : type.kind == 'i' || type.kind == 'u';
  return bits.empty() && known ? type : refuse();
}

/// A stored number.
template <class S>
double zarr_value(const std::byte* at, bool big_endian) {
  std::byte bytes[sizeof(S)];
  std::memcpy(bytes, at, sizeof(S));
  if (big_endian) std::reverse(bytes, bytes + sizeof(S));
  return static_cast<double>(std::bit_cast<S>(bytes));
}

inline ZarrCodecs::Compressor zarr_compressor(const std::string& name) {
  using Compressor = ZarrCodecs::Compressor;
  if (name == "gzip") return Compressor::gzip;
  if (name == "zlib") return Compressor::zlib;
  if (name == "zstd") return Compressor::zstd;
  if (name == "blosc") return Compressor::blosc;
  throw std::runtime_error("its codec '" + name + "' is not read: store it with blosc, zstd, gzip or none");
}

/// A word of the metadata, one of two; std::runtime_error where it is another, since what it means is not known.
inline std::string one_of(const Json& in, const char* name, const std::string& otherwise, const char* first,
                          const char* second) {
  const Json word = in.value(name, Json(otherwise));
  if (word == first || word == second) return word;
  throw std::runtime_error("its " + std::string(name) + " is " + short_text(word) +
                           ", which is not read: store it with \"" + first + "\" or \"" + second + "\"");
}

/// The codecs of version 3: bytes, then at most one compressor, crc32c before or behind it.
inline ZarrCodecs zarr_codecs(const Json& list, ZarrType& type) {
  ZarrCodecs codecs;
  bool has_bytes = false;
  for (const Json& codec : list) {
    const std::string name = codec.at("name");
    const Json configuration = codec.value("configuration", Json::object());
    if (name == "bytes") {
      has_bytes = true;
      type.big_endian = one_of(configuration, "endian", "little", "little", "big") == "big";
    } else if (name == "crc32c") {
      (codecs.compressor == ZarrCodecs::Compressor::none ? codecs.crc32c_before : codecs.crc32c_after) = true;
    } else if (codecs.compressor != ZarrCodecs::Compressor::none) {
      throw std::runtime_error("it has two compressors, '" + name + "' is the second: store it with one");
    } else {
      codecs.compressor = zarr_compressor(name);
    }
  }
  if (!has_bytes) throw std::runtime_error("its codecs lack 'bytes'");
  return codecs;
}

/// What the metadata of version 2 say beside the shape.
inline void take_zarr_v2(const Json& array, ZarrLayout& layout) {
  layout.chunk = whole_numbers<index_t>(array.at("chunks"));
  if (!array.at("dtype").is_string()) throw std::runtime_error("numbers of several fields are not read");
  layout.type = zarr_type(array["dtype"], 2);
  if (array.value("order", "C") != "C")
    throw std::runtime_error("its chunks are in the order of Fortran, which is not read: store them in that of C");
  if (array.contains("filters") && !array["filters"].is_null() && !array["filters"].empty())
    throw std::runtime_error("it has filters, which are not read: store it without");
  if (const Json compressor = array.value("compressor", Json()); !compressor.is_null())
    layout.codecs.compressor = zarr_compressor(compressor.at("id"));
  layout.key_prefix = "";
  layout.separator = one_of(array, "dimension_separator", ".", ".", "/")[0];
  if (layout.attributes.contains("_ARRAY_DIMENSIONS"))
    layout.dimension_names = layout.attributes["_ARRAY_DIMENSIONS"].get<std::vector<std::string>>();
}

/// The codecs of version 3, or those of the chunks within a shard and of its index.
inline void take_zarr_codecs(const Json& codecs, ZarrLayout& layout) {
  if (codecs.size() != 1 || codecs[0].at("name") != "sharding_indexed") {
    layout.codecs = zarr_codecs(codecs, layout.type);
    return;
  }
  const Json& sharding = codecs[0].at("configuration");
  layout.inner = whole_numbers<index_t>(sharding.at("chunk_shape"));
  layout.codecs = zarr_codecs(sharding.at("codecs"), layout.type);
  layout.index_at_end = one_of(sharding, "index_location", "end", "start", "end") == "end";
  ZarrType index;
  const ZarrCodecs of_index = zarr_codecs(sharding.at("index_codecs"), index);
  layout.index_crc32c = of_index.crc32c_before;
  if (index.big_endian || of_index.compressor != ZarrCodecs::Compressor::none)
    throw std::runtime_error("the index of its shards is compressed or big-endian, which is not read");
}

/// What the metadata of version 3 say beside the shape.
inline void take_zarr_v3(const Json& array, ZarrLayout& layout) {
  if (array.at("node_type") != "array") throw std::runtime_error("it is a group, not an array");
  layout.attributes = array.value("attributes", Json::object());
  if (array.at("chunk_grid").at("name") != "regular")
    throw std::runtime_error("its chunk grid '" + array["chunk_grid"]["name"].get<std::string>() + "' is not read");
  layout.chunk = whole_numbers<index_t>(array["chunk_grid"].at("configuration").at("chunk_shape"));
  layout.type = zarr_type(array.at("data_type"), 3);
  const Json& encoding = array.at("chunk_key_encoding");
  const bool as_v2 = one_of(encoding, "name", "", "default", "v2") == "v2";
  layout.key_prefix = as_v2 ? "" : "c";
  layout.separator =
      one_of(encoding.value("configuration", Json::object()), "separator", as_v2 ? "." : "/", ".", "/")[0];
  if (const Json others = array.value("storage_transformers", Json()); !others.empty())
    throw std::runtime_error("it has storage transformers, which are not read: store it without");
  take_zarr_codecs(array.at("codecs"), layout);
  if (array.contains("dimension_names") && array["dimension_names"].is_array())
    for (const Json& dimension : array["dimension_names"])
      layout.dimension_names.push_back(dimension.is_string() ? dimension.get<std::string>() : "");
}

/// Throws where the shape or the chunks are of no possible size, or do not fit each other.
inline void require_sizes(const ZarrLayout& layout) {
  const auto sound = [&](const std::vector<index_t>& extents, index_t least) {
    double product = 1;
    for (const index_t extent : extents) {
      product *= static_cast<double>(std::max<index_t>(extent, 1));
      if (extent < least || product > 1e15) throw std::runtime_error("its shape or chunks are of no possible size");
    }
    if (extents.size() != layout.shape.size()) throw std::runtime_error("its chunks have not as many dimensions as it");
  };
  sound(layout.shape, 0);
  sound(layout.chunk, 1);
  if (layout.inner.empty()) return;
  sound(layout.inner, 1);
  for (std::size_t d = 0; d < layout.inner.size(); ++d)
    if (layout.chunk[d] % layout.inner[d] != 0) throw std::runtime_error("its shards do not consist of whole chunks");
}

/// What the numbers mean: the fill value, and what CF's attributes say.
inline void take_zarr_numbers(const Json& fill, ZarrLayout& layout) {
  Json attributes = layout.attributes;
  if (layout.format == 2 && !fill.is_null()) {  // as xarray takes it
    std::vector<Json> both = missing_in(attributes.value("_FillValue", Json()));
    both.push_back(fill);
    attributes["_FillValue"] = both;
  }
  layout.numbers = cf_numbers(attributes, layout.type);
  if (layout.format == 2 && fill.is_null()) return;  // 0, as zarr-python has it
  const auto number = cf_number(fill, layout.type);
  const auto stored = number ? as_stored(*number, layout.type) : std::nullopt;
  if (!stored) refuse_number("fill_value", fill, "a number of " + layout.type.name());
  layout.fill = *stored;
}

/// std::runtime_error with what is not read, or is no metadata of an array. Nothing is allocated by what they claim.
inline ZarrLayout zarr_layout(const ZarrTexts& texts) try {
  const Json array = parse_zarr_json(texts.array);
  ZarrLayout layout;
  layout.format = texts.format;
  layout.shape = whole_numbers<index_t>(array.at("shape"));
  const Json fill = array.value("fill_value", Json());
  if (texts.format == 2) {
    layout.attributes = parse_zarr_json(texts.attributes);
    take_zarr_v2(array, layout);
  } else {
    take_zarr_v3(array, layout);
  }
  require_sizes(layout);
  take_zarr_numbers(fill, layout);
  return layout;
} catch (const nlohmann::json::exception& error) {
  throw std::runtime_error(
      std::string(
          "its metadata are not those of an array: a name is missing, or stands before a value of another kind (") +
      error.what() + ")");
} catch (const JsonFault& fault) {
  throw std::runtime_error(std::string("its metadata are not those of an array: ") + fault.what());
}

}  // namespace halogen::detail
