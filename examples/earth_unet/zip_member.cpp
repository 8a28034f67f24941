#include "zip_member.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <stdexcept>

namespace earth {

ZipMember::ZipMember(const std::filesystem::path& archive, const std::string& name)
    : label_(archive.string() + ": member " + name), compressed_(1 << 16), skipped_(1 << 18) {
  int code = 0;
  archive_.reset(zip_open(archive.c_str(), ZIP_RDONLY, &code));
  if (!archive_) {
    const bool is_read = code != ZIP_ER_NOENT && code != ZIP_ER_OPEN;
    throw std::runtime_error("cannot open " + archive.string() + ": it is " +
                             (is_read ? "no whole zip archive" : "not there or may not be read"));
  }
  zip_stat_t entry;
  if (zip_stat(archive_.get(), name.c_str(), 0, &entry) != 0)
    throw std::runtime_error(archive.string() + " has no member " + name);
  if (entry.comp_method != ZIP_CM_DEFLATE)
    throw std::runtime_error(label_ + " is not compressed by deflate; write it with numpy.savez_compressed");
  file_.reset(zip_fopen(archive_.get(), name.c_str(), ZIP_FL_COMPRESSED));
  if (!file_) throw std::runtime_error(label_ + " cannot be opened: the archive is damaged");
  isal_inflate_init(&state_);
  left_ = entry.size;
  stored_checksum_ = entry.crc;
}

void ZipMember::read(std::span<std::uint8_t> out) {
  state_.next_out = out.data();
  state_.avail_out = static_cast<std::uint32_t>(out.size());
  while (state_.avail_out > 0) {
    if (state_.avail_in == 0) {
      const zip_int64_t count = zip_fread(file_.get(), compressed_.data(), compressed_.size());
      if (count < 0) throw std::runtime_error(label_ + " cannot be read: the archive is damaged");
      state_.next_in = compressed_.data();
      state_.avail_in = static_cast<std::uint32_t>(count);
    }
    const std::uint32_t had = state_.avail_in;
    const std::uint32_t wanted = state_.avail_out;
    if (isal_inflate(&state_) != ISAL_DECOMP_OK)
      throw std::runtime_error(label_ + " is damaged: it cannot be inflated");
    // Output may still be held back when the input is used up; only a call that moves neither is the end.
    if (state_.avail_in == had && state_.avail_out == wanted)
      throw std::runtime_error(label_ + " ends too early: it is truncated");
  }
  left_ -= std::min<std::uint64_t>(left_, out.size());
  checksum_ = crc32_gzip_refl(checksum_, out.data(), out.size());
}

void ZipMember::skip(std::int64_t bytes) {
  while (bytes > 0) {
    const std::int64_t count = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(skipped_.size()));
    read({skipped_.data(), static_cast<std::size_t>(count)});
    bytes -= count;
  }
}

void ZipMember::finish() {
  skip(static_cast<std::int64_t>(left_));
  if (checksum_ != stored_checksum_) throw std::runtime_error(label_ + " is damaged: its checksum does not match");
}

}  // namespace earth
