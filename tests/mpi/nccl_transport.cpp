// transports: nccl
// guard: 1
// program: nccl
// The transport over NCCL where memory is a device's: what arrives, that messages of one pair are told apart though
// NCCL knows no tags, and that nothing is waited for.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "halogen/comm/device_mesh.hpp"
#include "halogen/comm/environment.hpp"

#include "support/refusal.hpp"

namespace test_nccl_transport {

namespace hg = halogen;
using hg::Transfer;

namespace {

/// Device memory, written and read by the host through copies.
template <class T>
class OnDevice {
 public:
  using Space = Kokkos::DefaultExecutionSpace::memory_space;
  explicit OnDevice(const std::vector<T>& values) : view_("values", values.size()) {
    Kokkos::deep_copy(view_, Host(const_cast<T*>(values.data()), values.size()));
  }
  OnDevice(std::size_t count, T value) : OnDevice(std::vector<T>(count, value)) {}
  T* data() const { return view_.data(); }
  std::vector<T> values() const {
    std::vector<T> values(view_.size());
    Kokkos::deep_copy(Host(values.data(), values.size()), view_);
    return values;
  }

 private:
  using Host = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  Kokkos::View<T*, Space> view_;
};

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
    for (const Message& message : messages) {
      const auto bytes = message.count * sizeof(int);
      if (message.from == world.rank()) {
        memory.emplace_back(message.count, message.value);
        sends.push_back({message.to, memory.back().data(), bytes, message.tag});
      }
      if (message.to == world.rank()) {
        memory.emplace_back(message.count, -1);
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
    const OnDevice<double> to_left(8, 10.0 * ring.rank() + 1), to_right(8, 10.0 * ring.rank() + 2);
    const OnDevice<double> from_left(8, -1.0), from_right(8, -1.0);
    const Transfer sends[] = {{left, to_left.data(), 64, 1}, {right, to_right.data(), 64, 2}};
    const Transfer receives[] = {{left, from_left.data(), 64, 2}, {right, from_right.data(), 64, 1}};
    hg::Exchange exchange = ring.prepare(receives, sends, "halo");
    exchange.start();
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

TEST_CASE("one kind of memory in an exchange; lengths that differ are found before anything moves") {
  hg::Environment env;
  const hg::Communicator& world = env.world();
  if (world.size() == 1) return;
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
}

}  // namespace test_nccl_transport
