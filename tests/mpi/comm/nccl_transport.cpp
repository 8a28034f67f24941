// transports: nccl nccl_windows
// guard: 1
// program: nccl
// The transport over NCCL where memory is a device's: what arrives, that messages of one pair are told apart though
// NCCL knows no tags, and that nothing is waited for. With windows: that what lies in them is put there, when its
// receiver is ready.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "halogen/comm/device_mesh.hpp"
#include "halogen/comm/environment.hpp"

#include "support/ran.hpp"
#include "support/refusal.hpp"

namespace test_nccl_transport {

namespace hg = halogen;
using hg::Transfer;

namespace {

/// Device memory, written and read by the host through copies; the transport's own where it has some.
template <class T>
class OnDevice {
 public:
  using Space = Kokkos::DefaultExecutionSpace::memory_space;
  explicit OnDevice(const std::vector<T>& values, const hg::Communicator& ranks = hg::Communicator::null())
      : owned_by_transport_(ranks.message_memory(values.size() * sizeof(T))) {
    if (owned_by_transport_)
      view_ = View(static_cast<T*>(owned_by_transport_.get()), values.size());
    else
      view_ = View("values", values.size());
    Kokkos::deep_copy(view_, Host(const_cast<T*>(values.data()), values.size()));
  }
  OnDevice(std::size_t count, T value, const hg::Communicator& ranks = hg::Communicator::null())
      : OnDevice(std::vector<T>(count, value), ranks) {}
  T* data() const { return view_.data(); }
  void write(T value) const { Kokkos::deep_copy(view_, value); }
  std::vector<T> values() const {
    std::vector<T> values(view_.size());
    Kokkos::deep_copy(Host(values.data(), values.size()), view_);
    return values;
  }

 private:
  using View = Kokkos::View<T*, Space>;
  using Host = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  std::shared_ptr<void> owned_by_transport_;
  View view_;
};

bool with_windows(const hg::Communicator& ranks) { return ranks.message_memory_bytes() > 0; }

/// How many messages the stand-in's process has put; 0 over NCCL itself.
int messages_put() {
  const char* path = std::getenv("HALOGEN_NCCL_LIBRARY");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* puts = library == nullptr ? nullptr : dlsym(library, "nccl_standin_puts");
  return puts == nullptr ? 0 : reinterpret_cast<int (*)()>(puts)();
}

/// The same numbers on all ranks.
std::mt19937 shared_random(unsigned seed) { return std::mt19937(seed); }

}  // namespace

TEST_CASE("the world is NCCL's and in the order of the stream") {
  hg::Environment env;
  const hg::Communicator& world = env.world();
  CHECK(world.transport_name() == (world.size() == 1 ? "self" : "nccl"));
  CHECK(world.stream_ordered() == (world.size() > 1 || hg::detail::has_stream));
  CHECK(world.split(world.rank(), 0, "alone").transport_name() == "self");
}

TEST_CASE("windows are in use where they are asked for, and only there") {
  hg::Environment env;
  const char* asked = std::getenv("HALOGEN_NCCL_WINDOWS");
  const bool has = env.describe().find(" nccl_windows=") != std::string::npos, automatic = asked && *asked == 'a';
  const bool expected = automatic ? has : env.world().size() > 1 && asked != nullptr && std::string(asked) == "1";
  CHECK(with_windows(env.world()) == expected);
  CHECK((env.describe().find(" nccl_windows=256MiB") != std::string::npos) == expected);
  CHECK((env.world().message_memory(8) != nullptr) == expected);
  CHECK(env.world().message_memory(0) == nullptr);
}

TEST_CASE("messages of any tags between any ranks, in any order of their lists, to their places") {
  hg::Environment env;
  const hg::Communicator& world = env.world();
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    auto random = shared_random(seed);
    struct Message {
      int from, to, tag, count, value;
    };
    std::vector<Message> messages;
    for (int i = 0; i < 40; ++i)
      messages.push_back({int(random() % world.size()), int(random() % world.size()), int(random() % 4),
                          int(random() % 50), int(random() % 100000)});
    std::vector<OnDevice<int>> memory;
    memory.reserve(2 * messages.size());
    std::vector<Transfer> sends, receives;
    std::vector<std::pair<std::size_t, Message>> expected;
    // In windows at both ends, at that of some ranks, at none.
    const hg::Communicator outside = hg::Communicator::null();
    const bool in_windows = seed % 3 == 0 || (seed % 3 == 1 && (world.rank() + static_cast<int>(seed)) % 4 != 0);
    const hg::Communicator& place = in_windows ? world : outside;
    for (const Message& message : messages) {
      const auto bytes = message.count * sizeof(int);
      if (message.from == world.rank()) {
        memory.emplace_back(message.count, message.value, place);
        sends.push_back({message.to, memory.back().data(), bytes, message.tag});
      }
      if (message.to == world.rank()) {
        memory.emplace_back(message.count, -1, place);
        expected.emplace_back(memory.size() - 1, message);
        receives.push_back({message.from, memory.back().data(), bytes, message.tag});
      }
    }
    // Each rank lists its messages in an order of its own; only equal tags of one pair keep theirs.
    const auto by_tag_down = [](const Transfer& a, const Transfer& b) { return a.tag > b.tag; };
    if (world.rank() % 2 == 0) std::ranges::stable_sort(sends, by_tag_down);
    if (world.rank() % 3 == 0) std::ranges::stable_sort(receives, by_tag_down);
    hg::Exchange exchange = world.prepare(receives, sends, "random");
    for (int round = 0; round < 2; ++round) {
      exchange.start();
      CHECK(exchange.test());  // done for the host, at once
      for (const auto& [place, message] : expected)
        REQUIRE(memory[place].values() == std::vector<int>(message.count, message.value));
    }
  }
}

TEST_CASE("periodic meshes: left and right are told apart also where they are one rank, or this one") {
  hg::Environment env;
  const hg::Communicator& world = env.world();
  const auto mesh = hg::device_mesh<hg::Mesh<"height", "width">>(world, {-1, world.size() % 2 == 0 ? 2 : 1});
  for (const hg::Communicator& ring :
       {mesh.communicator_of<"height">(), mesh.communicator_of<"width">(), mesh.communicator_of<"height", "width">()}) {
    const int left = (ring.rank() + ring.size() - 1) % ring.size(), right = (ring.rank() + 1) % ring.size();
    const OnDevice<double> to_left(8, 10.0 * ring.rank() + 1, ring), to_right(8, 10.0 * ring.rank() + 2, ring);
    const OnDevice<double> from_left(8, -1.0, ring), from_right(8, -1.0, ring);
    const Transfer sends[] = {{left, to_left.data(), 64, 1}, {right, to_right.data(), 64, 2}};
    const Transfer receives[] = {{left, from_left.data(), 64, 2}, {right, from_right.data(), 64, 1}};
    hg::Exchange exchange = ring.prepare(receives, sends, "halo");
    exchange.start();
    exchange.wait();
    CHECK(from_left.values() == std::vector<double>(8, 10.0 * left + 2));
    CHECK(from_right.values() == std::vector<double>(8, 10.0 * right + 1));
  }
}

TEST_CASE("collectives of device memory, equal and uneven, in place or not") {
  hg::Environment env;
  const hg::Communicator& world = env.world();
  const auto ranks = static_cast<std::size_t>(world.size());
  const int rank = world.rank(), size = world.size();
  const OnDevice<double> sum(100, rank + 1.0);
  hg::Request request = world.all_reduce_async(sum.data(), 100);
  CHECK(request.test());
  CHECK(sum.values() == std::vector<double>(100, size * (size + 1) / 2.0));
  for (const bool is_even : {true, false}) {
    std::vector<std::size_t> counts(ranks), bytes(ranks), offsets(ranks + 1, 0);
    for (std::size_t r = 0; r < ranks; ++r) {
      counts[r] = is_even ? 6 : r * 5 % 3 * 4;
      bytes[r] = counts[r] * sizeof(int);
      offsets[r + 1] = offsets[r] + counts[r];
    }
    const std::size_t own = counts[rank], total = offsets[ranks];
    std::vector<int> whole(total), piece(whole.begin() + offsets[rank], whole.begin() + offsets[rank + 1]);
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < counts[r]; ++i) whole[offsets[r] + i] = int(100 * r + i);
    piece.assign(whole.begin() + offsets[rank], whole.begin() + offsets[rank + 1]);
    const OnDevice<int> mine(piece), all(total, -1), summands(whole), part(own, -1);

    int nowhere = 0;  // where a piece without bytes lies is of no consequence
    world.all_gather_v(own > 0 ? mine.data() : &nowhere, bytes[rank], all.data(), bytes);
    CHECK(all.values() == whole);
    const OnDevice<int> in_place(total, -1);
    world.reduce_scatter_v(summands.data(), in_place.data() + offsets[rank], counts, hg::ReduceOp::max);
    world.all_gather_v(in_place.data() + offsets[rank], bytes[rank], in_place.data(), bytes);
    CHECK(in_place.values() == whole);
    world.reduce_scatter_v(summands.data(), part.data(), counts);
    std::vector<int> sums = piece;
    for (int& value : sums) value *= size;
    CHECK(part.values() == sums);
    for (int root = 0; root < size; ++root) {
      const OnDevice<int> gathered(rank == root ? total : 0, -1), scattered(own, -1), message(9, rank == root ? 7 : -1);
      world.gather_v(mine.data(), bytes[rank], gathered.data(), bytes, root);
      if (rank == root) CHECK(gathered.values() == whole);
      world.scatter_v(rank == root ? all.data() : nullptr, bytes, scattered.data(), bytes[rank], root);
      CHECK(scattered.values() == piece);
      world.broadcast(message.data(), 36, root);
      CHECK(message.values() == std::vector<int>(9, 7));
    }
  }
}

TEST_CASE("a message comes when its receiver is ready, and is counted once, put or sent") {
  FROM_RANKS(2);
  hg::Environment env;
  const hg::Communicator ring = env.world().split(0, env.world().rank(), "ring");
  const int size = ring.size(), rank = ring.rank(), left = (rank + size - 1) % size, right = (rank + 1) % size;
  // Both exchanges of a round receive into one place. The second goes one way only, round the ring.
  const OnDevice<int> there(5, 0, ring), here(5, 0, ring), back_there(3, 0, ring), back_here(3, 0, ring);
  const Transfer both_sends[] = {{right, there.data(), 20, 1}, {left, back_there.data(), 12, 0}};
  const Transfer both_receives[] = {{left, here.data(), 20, 1}, {right, back_here.data(), 12, 0}};
  hg::Exchange both = ring.prepare(both_receives, both_sends, "both ways");
  hg::Exchange one = ring.prepare(std::span(both_receives, 1), std::span(both_sends, 1), "one way");
  const hg::CommStatistics start = hg::comm_stats();
  const int put = messages_put();
  const auto goes_round = [&](hg::Exchange& exchange, int value) {
    there.write(value + rank), back_there.write(value + 50 + rank);
    exchange.start();
    exchange.wait();
    if (rank % 2 == 1) usleep(20000);  // others are ahead, and may not write here before this rank starts anew
    REQUIRE(here.values() == std::vector<int>(5, value + left));
  };
  for (int round = 0; round < 6; ++round) {
    goes_round(both, 1000 * round + 100);
    REQUIRE(back_here.values() == std::vector<int>(3, 1000 * round + 150 + right));
    goes_round(one, 1000 * round + 200);
  }
  CHECK((hg::comm_stats() - start).messages.count == 18);
  CHECK((hg::comm_stats() - start).messages.bytes == 6 * (20 + 12 + 20));
#ifndef KOKKOS_ENABLE_CUDA
  CHECK(messages_put() - put == (with_windows(ring) ? 18 : 0));
  // While a graph is recorded all ranks send, and go on as before.
  hg::detail::is_capturing = [] { return true; };
  goes_round(both, 7100);
  hg::detail::is_capturing = [] { return false; };
  CHECK(messages_put() - put == (with_windows(ring) ? 18 : 0));
  goes_round(one, 7200), goes_round(both, 7300);
  CHECK(messages_put() - put == (with_windows(ring) ? 21 : 0));
#endif
}

TEST_CASE("two exchanges under way at once, and a sum of the same communicator meanwhile") {
  hg::Environment env;
  const hg::Communicator& ring = env.world();
  const int size = ring.size(), rank = ring.rank(), left = (rank + size - 1) % size, right = (rank + 1) % size;
  const OnDevice<int> there(5, 0, ring), here(5, 0, ring), back_there(3, 0, ring), back_here(3, 0, ring), sum(1, 0);
  const Transfer sends[] = {{right, there.data(), 20}, {left, back_there.data(), 12}};
  const Transfer receives[] = {{left, here.data(), 20}, {right, back_here.data(), 12}};
  hg::Exchange first = ring.prepare(std::span(receives, 1), std::span(sends, 1), "to the right");
  hg::Exchange second = ring.prepare(std::span(receives + 1, 1), std::span(sends + 1, 1), "to the left");
  for (int round = 0; round < 6; ++round) {
    there.write(100 * round + rank), back_there.write(100 * round + 50 + rank), sum.write(rank);
    first.start();
    if (rank % 2 == round % 2) usleep(2000);
    second.start();
    ring.all_reduce(sum.data(), 1);
    second.wait();
    REQUIRE(back_here.values() == std::vector<int>(3, 100 * round + 50 + right));
    first.wait();
    REQUIRE(here.values() == std::vector<int>(5, 100 * round + left));
    REQUIRE(sum.values() == std::vector<int>{size * (size - 1) / 2});
  }
}

TEST_CASE("ranks without messages are not waited for, from the first exchange of a communicator on") {
  FROM_RANKS(3);
  hg::Environment env;
  const hg::Communicator all = env.world().split(0, env.world().rank(), "all");
  const OnDevice<int> there(4, 10 + all.rank(), all), here(4, 0, all);
  const Transfer send[] = {{1, there.data(), 16}}, receive[] = {{0, here.data(), 16}};
  const auto only = [&](int rank, const Transfer& one) {
    return std::span(&one, all.rank() == rank ? std::size_t{1} : std::size_t{0});
  };
  hg::Exchange exchange = all.prepare(only(1, receive[0]), only(0, send[0]), "from 0 to 1");
  exchange.start();
  exchange.wait();
  CHECK(here.values() == std::vector<int>(4, all.rank() == 1 ? 10 : 0));
}

TEST_CASE("memory for messages is given out in parts until there is none, and anew") {
  hg::Environment env;
  const hg::Communicator& world = env.world();
  const std::size_t all = world.message_memory_bytes();
  if (all == 0) return;
  CHECK(world.message_memory(all + 1) == nullptr);
  std::shared_ptr<void> whole = world.message_memory(all);
  REQUIRE(whole != nullptr);
  CHECK(world.message_memory(1) == nullptr);
  whole.reset();
  std::vector<std::shared_ptr<void>> parts;
  for (int i = 0; i < 3; ++i) parts.push_back(world.message_memory(all / 4));
  const auto* first = static_cast<const char*>(parts[0].get());
  CHECK(parts[2].get() == first + all / 2);
  parts[0].reset();
  CHECK(world.message_memory(all / 2) == nullptr);
  parts[1].reset();
  CHECK(world.message_memory(all / 2).get() == first);
  parts[2].reset();
  CHECK(world.message_memory(all).get() == first);
}

TEST_CASE("one kind of memory in an exchange; lengths that differ are found before anything moves") {
  FROM_RANKS(2);
  hg::Environment env;
  const hg::Communicator& world = env.world();
  const int right = (world.rank() + 1) % world.size(), left = (world.rank() + world.size() - 1) % world.size();
  const OnDevice<double> there(4, 1.0), here(4, 2.0);
  double host = 0;
  const Transfer send[] = {{right, there.data(), 8}}, mixed[] = {{left, &host, 8}},
                 longer[] = {{left, here.data(), 16}};
  CHECK(support::refusal<hg::Error>([&] { (void)world.prepare(mixed, send, "halo of x"); }) ==
        "halo of x: some buffers lie in device memory, others in host memory: give one kind");
  const hg::Communicator ring = world.split(0, world.rank(), "ring");
  hg::Exchange exchange = ring.prepare(longer, send, "halo of x");
  CHECK(support::refusal<hg::Error>([&] { exchange.start(); }) ==
        "halo of x on \"ring\", peer " + std::to_string(left) + ": sent 8 bytes where 16 were expected");
  CHECK(here.values() == std::vector<double>(4, 2.0));
  if (!with_windows(ring)) return;
  const OnDevice<double> out(3, 1.0, ring), in(3, 2.0, ring);
  const Transfer two[] = {{right, out.data(), 8}, {right, out.data() + 1, 16}},
                 others[] = {{left, in.data(), 16}, {left, in.data() + 2, 8}};
  hg::Exchange crossed = ring.prepare(others, two, "halo of y");
  CHECK(support::refusal<hg::Error>([&] { crossed.start(); }) ==
        "halo of y on \"ring\", peer " + std::to_string(right) +
            ": a message of 8 bytes is sent where one of 16 is expected");
  CHECK(in.values() == std::vector<double>(3, 2.0));
}

}  // namespace test_nccl_transport
