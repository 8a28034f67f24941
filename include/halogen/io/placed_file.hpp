// Files that are read and written at any place, and files that replace an older one when they are whole.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "halogen/io/system_words.hpp"

namespace halogen::detail {

/// A file that is open for reading or writing at any place. Throws std::runtime_error, which says what the system
/// refuses (system_words.hpp).
class PlacedFile {
 public:
  PlacedFile(const std::filesystem::path& path, int flags)
      : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) refuse();
  }
  PlacedFile(const PlacedFile&) = delete;
  PlacedFile& operator=(const PlacedFile&) = delete;
  ~PlacedFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  /// Some file systems tell only now that there was no space.
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0) refuse();
  }

  void write(const void* from, std::uint64_t bytes, std::uint64_t at) const {
    const char* data = static_cast<const char*>(from);
    each(bytes, [&](std::uint64_t done) {
      return ::pwrite(descriptor_, data + done, bytes - done, static_cast<off_t>(at + done));
    });
  }
  void read(void* to, std::uint64_t bytes, std::uint64_t at) const {
    char* data = static_cast<char*>(to);
    each(bytes, [&](std::uint64_t done) {
      return ::pread(descriptor_, data + done, bytes - done, static_cast<off_t>(at + done));
    });
  }
  void resize(std::uint64_t bytes) const {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) refuse();
  }
  void synchronise() const {
    if (::fsync(descriptor_) != 0) refuse();
  }

  /// Waits until no other process has it locked; false where the file system knows no locks.
  bool lock() const {
    while (::flock(descriptor_, LOCK_EX) != 0)
      if (errno != EINTR) return false;
    return true;
  }
  /// The same at once or not at all.
  bool try_lock() const { return ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0; }
  /// Whether the file still has that name.
  bool is_at(const std::filesystem::path& path) const {
    struct stat own {};
    struct stat named {};
    return ::fstat(descriptor_, &own) == 0 && ::stat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
           own.st_dev == named.st_dev;
  }

  /// Takes owner, group and mode of the file at `path`, where there is one: the owner where the system lets it. Where
  /// the group cannot be kept, the new one may do no more than all others.
  void take_access(const std::filesystem::path& path) const {
    struct stat own {};
    struct stat old {};
    if (::stat(path.c_str(), &old) != 0 || ::fstat(descriptor_, &own) != 0) return;
    if (own.st_uid != old.st_uid || own.st_gid != old.st_gid)
      if (::fchown(descriptor_, old.st_uid, old.st_gid) != 0 &&
          ::fchown(descriptor_, static_cast<uid_t>(-1), old.st_gid) != 0)
        old.st_mode &= ~static_cast<mode_t>(S_IRWXG) | ((old.st_mode & S_IRWXO) << 3);
    if ((own.st_mode & 0777) != (old.st_mode & 0777) && ::fchmod(descriptor_, old.st_mode & 0777) != 0) refuse();
  }
  /// For its owner alone until it is whole, where the file at `path` is not for everybody.
  void hide_as(const std::filesystem::path& path) const {
    struct stat old {};
    if (::stat(path.c_str(), &old) == 0 && (old.st_mode & S_IROTH) == 0) ::fchmod(descriptor_, S_IRUSR | S_IWUSR);
  }

 private:
  [[noreturn]] void refuse() const { throw std::runtime_error(words_of_system(errno, path_)); }

  /// The system may move less than it was asked for.
  template <class Move>
  void each(std::uint64_t bytes, Move move) const {
    for (std::uint64_t done = 0; done < bytes;) {
      const ssize_t moved = move(done);
      if (moved == 0) throw std::runtime_error("it ends too early");
      if (moved < 0 && errno != EINTR) refuse();
      if (moved > 0) done += static_cast<std::uint64_t>(moved);
    }
  }

  std::filesystem::path path_;
  int descriptor_;
};

/// What a path means in the end, behind symbolic links, whether or not it is there. Throws std::runtime_error where
/// that is there but no regular file, which nothing may replace.
inline std::filesystem::path target_of(std::filesystem::path path) {
  namespace fs = std::filesystem;
  std::error_code none;
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, none)); ++links) {
    if (links == 40) throw std::runtime_error(words_of_system(ELOOP, path));
    const fs::path next = in_own_words([&] { return fs::read_symlink(path); }, path);
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  const fs::file_status status = fs::status(path, none);
  if (!fs::exists(status) || fs::is_regular_file(status)) return path;
  throw std::runtime_error(std::string("it is ") +
                           (fs::is_directory(status) ? "a folder"
                            : fs::is_fifo(status)    ? "a pipe"
                            : fs::is_socket(status)  ? "a socket"
                                                     : "a device") +
                           ", which a file must not replace: give the path of a regular file");
}

inline std::filesystem::path partial_of(const std::filesystem::path& target) { return target.string() + ".partial"; }

/// What is written beside a file until it is whole and takes its name, mode and, where it may, owner; other names of
/// the older file (hard links) keep that. While it lives other processes see by its lock that somebody writes it.
/// Throws std::runtime_error, which says what the system refuses.
class Replacement {
 public:
  explicit Replacement(const std::filesystem::path& path) : target_(target_of(path)), partial_(partial_of(target_)) {
    in_own_words([&] { return std::filesystem::is_symlink(partial_) && std::filesystem::remove(partial_); }, partial_);
    for (;;) {  // another process may take it for left over before it is locked
      file_.emplace(target_of(partial_), O_WRONLY | O_CREAT);
      if (!file_->lock() || file_->is_at(partial_)) break;
    }
    file_->hide_as(target_);
    file_->resize(0);
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (!done_) std::remove(partial_.c_str());
  }

  const PlacedFile& file() const { return *file_; }
  const std::filesystem::path& partial() const { return partial_; }

  void take_name() {
    file_->take_access(target_);
    file_->synchronise();
    in_own_words([&] { std::filesystem::rename(partial_, target_); }, partial_);
    done_ = true;
  }

 private:
  std::filesystem::path target_, partial_;
  std::optional<PlacedFile> file_;
  bool done_ = false;
};

/// A file that a library makes or changes. Where there is none, or one of 0 bytes, which a full disk leaves, the
/// library makes it under another name, and it appears when that is done.
class MadeFile {
 public:
  explicit MadeFile(const std::filesystem::path& path) : target_(target_of(path)), is_new_(!has_bytes(target_)) {
    if (is_new_)
      std::remove(this->path().c_str());
    else
      PlacedFile(target_, O_WRONLY);  // says why it cannot be changed; a library need not
  }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  ~MadeFile() {
    if (is_new_) std::remove(path().c_str());
  }
  static bool has_bytes(const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::file_size(path, error) > 0 && !error;
  }

  bool is_new() const { return is_new_; }
  std::filesystem::path path() const { return is_new_ ? partial_of(target_) : target_; }
  void take_name() {
    if (!is_new_) return;
    if (has_bytes(target_)) throw std::runtime_error("another run has made it meanwhile: give this one another file");
    in_own_words([&] { std::filesystem::rename(path(), target_); }, path());
    is_new_ = false;
  }

 private:
  std::filesystem::path target_;
  bool is_new_;
};

/// Why no more can be written into a folder; empty where it can, or that cannot be found out.
inline std::string words_about_space(const std::filesystem::path& folder) try {
  const std::filesystem::path probe = folder / (".halogen-" + std::to_string(::getpid()) + ".partial");
  try {
    const std::string bytes(1 << 16, ' ');
    const PlacedFile file(probe, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(bytes.data(), bytes.size(), 0);
    file.synchronise();
  } catch (const std::runtime_error& error) {
    ::unlink(probe.c_str());
    return error.what();
  }
  ::unlink(probe.c_str());
  return {};
} catch (const std::exception&) {
  return {};
}

/// Writes a small file, or one of many: it appears whole or not at all, whenever this process ends. It is not
/// synchronised to the disk. Throws std::runtime_error, which says what the system refuses.
inline void write_whole(const std::filesystem::path& path, const void* from, std::uint64_t bytes) {
  const std::filesystem::path partial = path.parent_path() / ("." + path.filename().string() + ".partial");
  try {
    PlacedFile file(partial, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(from, bytes, 0);
    file.close();
    in_own_words([&] { std::filesystem::rename(partial, path); }, partial);
  } catch (...) {
    std::remove(partial.c_str());
    throw;
  }
}

/// Removes what a save that was killed has left beside a file: a partial file that no process has locked. Where it may
/// not be removed, or the file system knows no locks, it stays.
inline void remove_left_over(const std::filesystem::path& path) try {
  const std::filesystem::path partial = partial_of(target_of(path));
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(partial))) return;
  const PlacedFile file(partial, O_RDWR);
  if (file.try_lock() && file.is_at(partial)) ::unlink(partial.c_str());
} catch (const std::exception&) {  // it is in nobody's way
}

}  // namespace halogen::detail
