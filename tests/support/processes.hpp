// Tests of whole processes: they start this executable again, with a skipped test case and other variables.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace support {

struct Ended {
  int status = -1;
  std::string output;
  double seconds = 0;
};

inline std::string this_executable() {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return std::string(path.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

inline Ended shell(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  Ended ended;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 512> part{};
  while (std::fgets(part.data(), part.size(), pipe)) ended.output += part.data();
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ended;
}

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace support
