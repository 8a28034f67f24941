// What a call of the system that failed on a path means, and what to do about it, in sentences of ours.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "halogen/core/system_limits.hpp"

namespace halogen::detail {

/// The first part of a path for which is_wanted(part) holds, with all that stands before it; else the whole path.
template <class IsWanted>
std::filesystem::path first_part(const std::filesystem::path& path, IsWanted is_wanted) {
  std::filesystem::path known;
  for (const std::filesystem::path& part : path) {
    known /= part;
    if (is_wanted(known)) return known;
  }
  return path;
}

inline std::string words_of_long_path(const std::filesystem::path& path) {
  std::size_t longest = 0;
  for (const std::filesystem::path& part : path) longest = std::max(longest, part.native().size());
  const bool is_name = longest > NAME_MAX;
  return (is_name ? "a name in it" : std::string("it")) + " has " +
         std::to_string(is_name ? longest : path.native().size()) + " characters, more than the " +
         std::to_string(is_name ? NAME_MAX : PATH_MAX - 1) + " that the system takes: give a shorter path";
}

/// Of a path of which some part is not there (ENOENT), or is a file where a folder should be (ENOTDIR).
inline std::string words_of_parts(int error, const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path at = first_part(path, [&](const fs::path& part) {
    return error == ENOENT ? !fs::exists(part, none) : !fs::is_directory(part, none);
  });
  if (error == ENOTDIR)
    return (at == path ? "it" : "'" + at.string() + "'") + " is no folder: remove it, or give another path";
  if (at == path) return "there is no such file or folder: give the path of one that is there";
  return "there is no folder '" + at.string() + "': make it, or give another path";
}

/// What an errno means of a path, which may be empty where it is not known. The path itself is "it" in the sentence.
inline std::string words_of_system(int error, const std::filesystem::path& path = {}) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return words_of_parts(error, path);
    case ENAMETOOLONG:
      return words_of_long_path(path);
    case EACCES:
    case EPERM:
      return "the system does not let user " + std::to_string(::geteuid()) +
             " do this: change the permissions of the file and its folder, or give another path";
    case ENOSPC:
      return "no space is left on its disk: free some, or give a path on another disk";
    case EDQUOT:
      return "the quota of this user on its disk is used up: free some space, or give a path on another disk";
    case EROFS:
      return "its disk can only be read: give a path on another disk";
    case EISDIR:
      return "it is a folder: give the path of a file";
    case EEXIST:
      return "something of its name is there already: remove that, or give another path";
    case ENOTEMPTY:
      return "it is a folder that is not empty: remove it, or give another path";
    case ELOOP:
      return "its symbolic links lead to each other: correct them, or give another path";
    case EFBIG:
      return "a file there may not be so large, by its file system or by the limit of this process (ulimit -f, " +
             limit_text(RLIMIT_FSIZE) + " bytes): raise the limit, or give a path on another disk";
    case EBUSY:
    case ETXTBSY:
      return "another program uses it: end that, or give another path";
    case EIO:
      return "its disk fails: look at the disk, or give a path on another one";
    default:
      return words_of_limits(error, "give another path, or look at this disk");
  }
}

/// What an exception says; of std::filesystem's our own words, after the path unless that is `known` to the reader.
inline std::string words_of_fault(const std::exception& error, const std::filesystem::path& known = {}) {
  const auto* const of_system = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (of_system == nullptr) return error.what();
  const std::filesystem::path& path = of_system->path1();
  return (path == known ? "" : "'" + path.string() + "': ") + words_of_system(of_system->code().value(), path);
}

/// Returns f(). What std::filesystem throws in it is thrown in our own words, as std::runtime_error.
template <class F>
auto in_own_words(F&& f, const std::filesystem::path& known = {}) try {
  return std::forward<F>(f)();
} catch (const std::filesystem::filesystem_error& error) {
  throw std::runtime_error(words_of_fault(error, known));
}

}  // namespace halogen::detail
