// Chunks of a Zarr array, from files to numbers. Opt-in: needs zlib, zstd and blosc.
#pragma once

#include <blosc.h>
#include <zlib.h>
#include <zstd.h>

#include <memory>
#include <optional>
#include <span>

#include "halogen/io/data/point_box.hpp"
#include "halogen/io/zarr/zarr_layout.hpp"

namespace halogen::detail {

/// CRC-32C (Castagnoli), as iSCSI and Zarr have it (RFC 3720, appendix B.4).
inline std::uint32_t crc32c_of(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1) * 0x82f63b78u;
      all[i] = crc;
    }
    return all;
  }();
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<std::uint32_t>(byte)) & 255];
  return ~crc;
}

/// The bytes before a CRC-32C of them; std::runtime_error where it is another.
inline std::span<const std::byte> before_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t stored = 0;
  if (bytes.size() < sizeof stored) throw std::runtime_error("it ends before its checksum");
  const auto data = bytes.first(bytes.size() - sizeof stored);
  std::memcpy(&stored, bytes.data() + data.size(), sizeof stored);
  if (stored != crc32c_of(data)) throw std::runtime_error("its checksum is another: it has been changed");
  return data;
}

/// zlib takes and gives at most 4 GiB at a time, by numbers of 32 bits.
inline constexpr std::size_t zlib_step = std::size_t{1} << 30;

/// Inflates gzip or zlib data of exactly so many bytes, at most `step` at a time.
inline void inflate_into(std::span<const std::byte> from, std::span<std::byte> to, std::size_t step = zlib_step) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) throw std::runtime_error("zlib cannot begin");  // by its header
  std::byte more{};
  int status = Z_OK;
  std::size_t read = 0, written = 0;
  while (status == Z_OK) {
    const bool full = written == to.size();
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data())) + read;
    const auto in = static_cast<uInt>(std::min<std::size_t>(from.size() - read, step));
    const auto out = static_cast<uInt>(full ? 1 : std::min<std::size_t>(to.size() - written, step));
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<Bytef*>(full ? &more : to.data() + written);
    stream.avail_out = out;
    status = ::inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
    if (written > to.size() || (in == stream.avail_in && out == stream.avail_out)) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || written != to.size())
    throw std::runtime_error("its gzip data are not of a chunk of its size");
}

/// The gzip data of some bytes, given to zlib by at most `step` at a time; nothing where zlib knows no such level.
inline std::optional<std::vector<std::byte>> deflated(std::span<const std::byte> from, int level,
                                                      std::size_t step = zlib_step) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return std::nullopt;
  std::vector<std::byte> to;
  std::size_t read = 0, written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (written == to.size()) to.resize(to.size() + std::max<std::size_t>(from.size() / 4, 1024));
    const auto in = static_cast<uInt>(std::min(from.size() - read, step));
    const auto out = static_cast<uInt>(std::min(to.size() - written, step));
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data())) + read;
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<Bytef*>(to.data() + written);
    stream.avail_out = out;
    status = ::deflate(&stream, read + in == from.size() ? Z_FINISH : Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  deflateEnd(&stream);
  if (status != Z_STREAM_END) return std::nullopt;
  to.resize(written);
  return to;
}

/// Before memory is taken for a chunk: std::runtime_error where its bytes cannot be one of `wanted`, whatever a damaged
/// file says. Deflate makes at most 1032 of one byte (zlib's technical notes), zstd 128 KiB of a block of 4. Blosc and
/// most of zstd's writers say how many there are.
inline void require_possible(const ZarrCodecs& codecs, std::span<const std::byte> from, std::uint64_t wanted) {
  using Compressor = ZarrCodecs::Compressor;
  constexpr std::uint64_t block = 128 << 10;
  const auto bytes = static_cast<std::uint64_t>(from.size());
  std::uint64_t most = block / 4 * bytes;
  if (codecs.compressor == Compressor::none) most = bytes;
  if (codecs.compressor == Compressor::gzip || codecs.compressor == Compressor::zlib) most = 1032 * bytes;
  if (wanted > most)
    throw std::runtime_error("its " + std::to_string(bytes) + " bytes cannot hold a chunk of " +
                             std::to_string(wanted));
  const auto refuse = [](const char* what) {
    throw std::runtime_error(std::string("its ") + what + " data are not of a chunk of its size");
  };
  if (codecs.compressor == Compressor::zstd) {
    const unsigned long long said = ZSTD_getFrameContentSize(from.data(), from.size());
    if (said == ZSTD_CONTENTSIZE_ERROR || (said != ZSTD_CONTENTSIZE_UNKNOWN && said > wanted)) refuse("zstd");
  }
  std::size_t said = 0;
  if (codecs.compressor == Compressor::blosc &&
      (blosc_cbuffer_validate(from.data(), from.size(), &said) != 0 || said != wanted))
    refuse("blosc");
}

/// Decodes a chunk of exactly `wanted` bytes; std::runtime_error where it is none. The system gives the memory as it is
/// written to: a chunk that breaks off takes no more than what came before.
inline std::unique_ptr<std::byte[]> decode_chunk(const ZarrCodecs& codecs, std::span<const std::byte> from,
                                                 std::size_t wanted) {
  using Compressor = ZarrCodecs::Compressor;
  if (codecs.crc32c_after) from = before_crc32c(from);
  const std::size_t bytes = wanted + (codecs.crc32c_before ? 4 : 0);
  require_possible(codecs, from, bytes);
  auto decoded = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span<std::byte> to(decoded.get(), bytes);
  const auto require = [&](bool is_right, const char* what) {
    if (!is_right) throw std::runtime_error(std::string("its ") + what + " data are not of a chunk of its size");
  };
  switch (codecs.compressor) {
    case Compressor::none:
      require(from.size() == bytes, "plain");
      std::copy(from.begin(), from.end(), to.begin());
      break;
    case Compressor::gzip:
    case Compressor::zlib:
      inflate_into(from, to);
      break;
    case Compressor::zstd:
      require(ZSTD_decompress(to.data(), bytes, from.data(), from.size()) == bytes, "zstd");
      break;
    case Compressor::blosc:
      require(bytes == 0 || blosc_decompress_ctx(from.data(), to.data(), bytes, 1) == static_cast<int>(bytes), "blosc");
      break;
  }
  if (codecs.crc32c_before) before_crc32c(to);
  return decoded;
}

/// std::runtime_error where a compressor knows no such level, or takes no chunk of so many bytes.
inline void require_encodable(const ZarrCodecs& codecs, std::uint64_t bytes) {
  using Compressor = ZarrCodecs::Compressor;
  const bool is_zstd = codecs.compressor == Compressor::zstd;
  const int least = is_zstd ? ZSTD_minCLevel() : 0, most = is_zstd ? ZSTD_maxCLevel() : 9;
  if (codecs.compressor != Compressor::none && (codecs.level < least || codecs.level > most))
    throw std::runtime_error("a level of compression of " + std::to_string(codecs.level) + ": give one from " +
                             std::to_string(least) + " to " + std::to_string(most));
  if (codecs.compressor == Compressor::blosc && bytes > BLOSC_MAX_BUFFERSIZE)
    throw std::runtime_error("a chunk of " + std::to_string(bytes) + " bytes, but blosc takes at most " +
                             std::to_string(BLOSC_MAX_BUFFERSIZE) + ": give smaller chunks, or another compression");
}

/// The bytes of a chunk as a file holds them; width: of a number.
inline std::vector<std::byte> encode_chunk(const ZarrCodecs& codecs, std::span<const std::byte> from,
                                           std::size_t width) {
  using Compressor = ZarrCodecs::Compressor;
  const auto sized = [](std::vector<std::byte> to, std::size_t bytes, bool is_right) {
    if (!is_right) throw std::runtime_error("a chunk cannot be compressed: give another level");
    to.resize(bytes);
    return to;
  };
  switch (codecs.compressor) {
    case Compressor::gzip: {
      auto to = deflated(from, codecs.level);
      const std::size_t bytes = to ? to->size() : 0;
      return sized(to ? std::move(*to) : std::vector<std::byte>{}, bytes, to.has_value());
    }
    case Compressor::zstd: {
      std::vector<std::byte> to(ZSTD_compressBound(from.size()));
      const std::size_t bytes = ZSTD_compress(to.data(), to.size(), from.data(), from.size(), codecs.level);
      return sized(std::move(to), bytes, ZSTD_isError(bytes) == 0);
    }
    case Compressor::blosc: {
      std::vector<std::byte> to(from.size() + BLOSC_MAX_OVERHEAD);
      const int bytes = blosc_compress_ctx(codecs.level, BLOSC_SHUFFLE, width, from.size(), from.data(), to.data(),
                                           to.size(), "zstd", 0, 1);
      return sized(std::move(to), static_cast<std::size_t>(std::max(bytes, 0)), bytes > 0);
    }
    default:
      return {from.begin(), from.end()};
  }
}

}  // namespace halogen::detail
