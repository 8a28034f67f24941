// Processes that meet through files on a file system that all of them see.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "halogen/comm/rendezvous/rendezvous.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// Files begin with `path`. Those that an earlier run left behind are told apart by numbers drawn anew: rank 0 lists
/// what it has read of the others until each of them has found its own number there and answered with rank 0's. Files
/// are removed at the end of this object, which must not come before all are done reading.
class FileRendezvous final : public Rendezvous {
 public:
  FileRendezvous(const Launched& launched, std::string path, std::chrono::milliseconds timeout)
      : Rendezvous(launched, "file:" + path, timeout), path_(std::move(path)), drawn_(draw()) {
    rank() == 0 ? gather_all() : join();
  }
  ~FileRendezvous() override {
    for (const std::string& file : own_) std::remove(file.c_str());
  }

  void all_gather(const void* own, std::size_t bytes, void* all) override;

 private:
  static std::string draw();

  /// Rank 0: until all have answered.
  void gather_all();

  /// The others: until rank 0 has listed this one's number.
  void join();

  template <class Done>
  void await(Clock::time_point end, const std::string& missing, Done done) const;

  /// Appears whole or not at all.
  void write(const std::string& name, const std::string& words);
  std::string read(const std::string& name) const;

  std::string path_, drawn_, run_;
  int round_ = 0;
  std::vector<std::string> own_;
};

template <class Done>
void FileRendezvous::await(Clock::time_point end, const std::string& missing, Done done) const {
  while (!done()) {
    if (Clock::now() > end) give_up(missing);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

#if HALOGEN_BODIES
HALOGEN_INLINE void FileRendezvous::all_gather(const void* own, std::size_t bytes, void* all) {
  const std::string round = run_ + "." + std::to_string(round_++) + ".";
  write(round + std::to_string(rank()), {static_cast<const char*>(own), bytes});
  const Clock::time_point end = deadline();
  for (int r = 0; r < size(); ++r) {
    std::string words;
    await(end, "rank " + std::to_string(r), [&] { return (words = read(round + std::to_string(r))).size() == bytes; });
    std::memcpy(static_cast<char*>(all) + static_cast<std::size_t>(r) * bytes, words.data(), bytes);
  }
}

HALOGEN_INLINE std::string FileRendezvous::draw() {
  std::random_device device;
  return std::to_string(device()) + "-" + std::to_string(device());
}

HALOGEN_INLINE void FileRendezvous::gather_all() {
  run_ = drawn_;
  std::string missing, listed;
  await(deadline(), missing, [&] {
    std::string list = drawn_;
    missing.clear();
    for (int r = 1; r < size(); ++r) {
      const std::string number = std::to_string(r), drawn = read("here." + number);
      list += " " + drawn;
      if (drawn.empty() || read("answer." + number) != drawn_ + " " + drawn)
        missing += (missing.empty() ? "rank " : ", ") + number;
    }
    if (list != listed) write("all", listed = list);
    return missing.empty();
  });
}

HALOGEN_INLINE void FileRendezvous::join() {
  const std::string number = std::to_string(rank());
  write("here." + number, drawn_);
  await(deadline(), "rank 0", [&] {
    const std::string list = read("all");
    if ((list + " ").find(" " + drawn_ + " ") == std::string::npos) return false;
    run_ = list.substr(0, list.find(' '));
    return true;
  });
  write("answer." + number, run_ + " " + drawn_);
}

HALOGEN_INLINE void FileRendezvous::write(const std::string& name, const std::string& words) {
  const std::string file = path_ + "." + name, part = file + "." + drawn_;
  std::ofstream stream(part, std::ios::binary);
  stream << words;
  stream.close();
  if (!stream || std::rename(part.c_str(), file.c_str()) != 0)
    throw Error(self() + " cannot write '" + file + "': name another place with HALOGEN_RENDEZVOUS=file:/path");
  own_.push_back(file);
}

HALOGEN_INLINE std::string FileRendezvous::read(const std::string& name) const {
  std::ifstream stream(path_ + "." + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
#endif

}  // namespace halogen::detail
