// How much of the communication of a step on 2 ranks is hidden behind its computation.
#pragma once

#include "protocol.hpp"
#include "waits.hpp"

namespace bench {

#ifdef HALOGEN_WITH_MPI

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Milliseconds of waiting in which both ranks waited for the same operation: that is communication. Where only one
/// waits, the other is late, which no overlap can hide.
inline double both_waited(std::vector<double> own) {
  MPI_Allreduce(MPI_IN_PLACE, own.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  double sum = 0;
  for (const double seconds : own) sum += 1e3 * seconds;
  return sum;
}

/// Milliseconds of the messages and sums of one step by themselves, back to back, each waited for.
struct MessagesAlone {
  double halos = 0, sums = 0;

  MessagesAlone(const hg::CommStatistics& step, int repeats) {
    const hg::Tally &messages = step.messages, &gathers = step.all_gathers, &reduces = step.all_reduces;
    const auto mean = [](const hg::Tally& tally) { return tally.count == 0 ? 0 : tally.bytes / tally.count; };
    std::vector<char> from(static_cast<std::size_t>(step.messages.bytes + gathers.bytes + reduces.bytes + 8));
    std::vector<char> to(2 * from.size());
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    halos = time(repeats, messages.count, [&] {
      const int bytes = static_cast<int>(mean(messages));
      MPI_Sendrecv(from.data(), bytes, MPI_BYTE, 1 - rank, 0, to.data(), bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    });
    sums = time(repeats, gathers.count, [&] {
      const int bytes = static_cast<int>(mean(gathers));
      MPI_Allgather(from.data(), bytes, MPI_BYTE, to.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
    });
    sums += time(repeats, reduces.count, [&] {
      MPI_Allreduce(from.data(), to.data(), static_cast<int>(mean(reduces) / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
  }

 private:
  template <class F>
  static double time(int repeats, std::int64_t count, F f) {
    std::vector<double> all;
    for (int i = 0; i < repeats; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto begin = Clock::now();
      for (std::int64_t k = 0; k < count; ++k) f();
      all.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
    return median(all);
  }
};

/// step_ms; alone_ms: the time of `alone`, on both ranks at the same time, which is the work of one rank's share with
/// nothing exchanged; of the step's halos (and the messages of a ring) and sums: how many, wait_ms (both ranks waited),
/// late_ms (one waited for the other), by_itself_ms (the same messages back to back; packing excluded). hidden = 1 -
/// wait_ms / by_itself_ms, at least 0; 0 where there are no messages.
template <class Step, class Alone>
void print_exchange(const Options& options, const hg::Communicator& world, Step&& step, Alone&& alone) {
  if (world.size() != 2) throw std::invalid_argument(options.name + " wants 2 ranks");
  std::vector<double> halo_wait, halo_own, sum_wait, sum_own;
  hg::CommStatistics traffic;
  const auto logged = [&] {
    waits.halos.clear(), waits.sums.clear();
    const hg::CommStatistics before = hg::comm_stats();
    step();
    traffic = hg::comm_stats() - before;
    const auto total = [](const std::vector<double>& all) {
      double sum = 0;
      for (const double seconds : all) sum += 1e3 * seconds;
      return sum;
    };
    halo_own.push_back(total(waits.halos)), sum_own.push_back(total(waits.sums));
    halo_wait.push_back(both_waited(waits.halos)), sum_wait.push_back(both_waited(waits.sums));
  };
  const std::vector<double> together = milliseconds(options, world, logged);
  const auto halos = waits.halos.size(), sums = waits.sums.size();
  const std::vector<double> apart = milliseconds(options, world, alone);
  const MessagesAlone by_itself(traffic, 25);

  const auto part = [&](const std::string& name, std::size_t count, double wait, double waited, double without) {
    world.all_reduce(&waited, 1);
    const double hidden = without > 0 ? std::max(0.0, 1 - wait / without) : 0;
    return ", \"" + name + "\": {\"count\": " + std::to_string(count) + ", \"wait_ms\": " + std::to_string(wait) +
           ", \"late_ms\": " + std::to_string(waited / 2 - wait) + ", \"by_itself_ms\": " + std::to_string(without) +
           ", \"hidden\": " + std::to_string(hidden) + "}";
  };
  print_line(options, world,
             "\"step_ms\": " + std::to_string(median(together)) + ", \"alone_ms\": " + std::to_string(median(apart)) +
                 part("halos", halos, median(halo_wait), median(halo_own), by_itself.halos) +
                 part("sums", sums, median(sum_wait), median(sum_own), by_itself.sums));
}

#else

template <class Step, class Alone>
void print_exchange(const Options& options, const hg::Communicator&, Step&&, Alone&&) {
  throw std::invalid_argument(options.name + " wants a build with MPI");
}

#endif

}  // namespace bench
