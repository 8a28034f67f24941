// transports: mpi nccl
// label: single
// program: collectives
// The differentiable collectives on uneven pieces: against plain loops, the adjoint identity, what is sent as counted
// below MPI, and the sentences for what does not fit.
#include "halogen/halo/collectives_v.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "halogen/comm/environment.hpp"
#include "support/heap.hpp"
#include "support/kokkos_events.hpp"
#include "support/over_nccl.hpp"
#include "support/pmpi_counter.hpp"

namespace test_collectives_v {

namespace {

namespace hg = halogen;
using hg::index_t;

hg::Communicator world() {
  static hg::Environment environment;
  return environment.world();
}

template <class T, int Rank>
struct pointers {
  using type = typename pointers<T, Rank - 1>::type*;
};
template <class T>
struct pointers<T, 0> {
  using type = T;
};
template <class T, int Rank>
using View = Kokkos::View<typename pointers<T, Rank>::type, Kokkos::LayoutRight, hg::memory_space>;

template <class T, int Rank>
View<T, Rank> view(const std::array<index_t, Rank>& extents) {
  return hg::detail::view_of<View<T, Rank>>("test", extents);
}

template <class V>
std::vector<typename V::non_const_value_type> values_of(const V& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, view);
  return {host.data(), host.data() + host.size()};
}

/// Small whole numbers: sums are exact.
template <class V>
V filled(const V& view, int seed) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.size(); ++i)
    host.data()[i] = static_cast<typename V::value_type>((i * 7 + static_cast<std::size_t>(seed) * 11) % 23) - 9;
  Kokkos::deep_copy(view, host);
  return view;
}

template <class V>
double dot(const V& a, const V& b) {
  const auto u = values_of(a), v = values_of(b);
  double sum = 0;
  for (std::size_t i = 0; i < u.size(); ++i) sum += static_cast<double>(u[i]) * static_cast<double>(v[i]);
  world().all_reduce(&sum, 1);
  return sum;
}

/// Some ranks have none.
std::vector<index_t> uneven_sizes() {
  std::vector<index_t> sizes;
  for (int r = 0; r < world().size(); ++r) sizes.push_back((r * 3 + 2) % 5);  // 2 0 3 1 4 2
  return sizes;
}

index_t total(const std::vector<index_t>& sizes) { return std::accumulate(sizes.begin(), sizes.end(), index_t{0}); }
index_t begin_of(const std::vector<index_t>& sizes, int rank) {
  return std::accumulate(sizes.begin(), sizes.begin() + rank, index_t{0});
}

/// The values of a whole at [begin, end) of dimension Dim, row-major: by plain loops.
template <int Dim, class T, std::size_t Rank>
std::vector<T> slice(const std::vector<T>& whole, const std::array<index_t, Rank>& extents, index_t begin,
                     index_t end) {
  index_t before = 1, after = 1;
  for (int d = 0; d < Dim; ++d) before *= extents[d];
  for (std::size_t d = Dim + 1; d < Rank; ++d) after *= extents[d];
  std::vector<T> values;
  for (index_t i = 0; i < before; ++i)
    for (index_t j = begin; j < end; ++j)
      for (index_t k = 0; k < after; ++k)
        values.push_back(whole[static_cast<std::size_t>((i * extents[Dim] + j) * after + k)]);
  return values;
}

/// What f sent, as the library and MPI both say.
template <class F>
hg::CommStatistics spent(F f) {
  const hg::CommStatistics before = hg::comm_stats();
#ifdef HALOGEN_WITH_MPI
  const pmpi::Counts start = pmpi::counts;
#endif
  f();
  const hg::CommStatistics spent = hg::comm_stats() - before;
#ifdef HALOGEN_WITH_MPI
  if (support::is_over_nccl()) return spent;
  CHECK(spent.all_gathers.bytes == pmpi::counts.all_gathers.bytes - start.all_gathers.bytes);
  CHECK(spent.reduce_scatters.bytes == pmpi::counts.reduce_scatters.bytes - start.reduce_scatters.bytes);
  CHECK(spent.gathers.bytes == pmpi::counts.gathers.bytes - start.gathers.bytes);
  CHECK(spent.scatters.bytes == pmpi::counts.scatters.bytes - start.scatters.bytes);
  CHECK(spent.messages.bytes == pmpi::counts.messages.bytes - start.messages.bytes);
  CHECK(pmpi::counts.others.count == start.others.count);
#endif
  return spent;
}

hg::Tally once(index_t values, std::size_t width) {
  return world().size() == 1 ? hg::Tally{} : hg::Tally{1, values * static_cast<index_t>(width)};
}
template <class V>
hg::Tally once(const V& view) {
  return once(static_cast<index_t>(view.size()), sizeof(typename V::value_type));
}

template <class T, int Rank>
std::array<index_t, Rank> extents_like() {
  std::array<index_t, Rank> extents;
  for (int d = 0; d < Rank; ++d) extents[d] = 2 + d;
  return extents;
}

template <class T, int Rank, int Dim>
void check_pieces() {
  CAPTURE(Rank);
  CAPTURE(Dim);
  const int rank = world().rank(), size = world().size();
  const std::vector<index_t> sizes = uneven_sizes();
  std::array<index_t, Rank> piece_extents = extents_like<T, Rank>(), whole_extents = piece_extents;
  piece_extents[Dim] = sizes[static_cast<std::size_t>(rank)];
  whole_extents[Dim] = total(sizes);
  const index_t begin = begin_of(sizes, rank), end = begin + piece_extents[Dim];

  const auto whole = filled(view<T, Rank>(whole_extents), 1);
  const std::vector<T> all = values_of(whole), own = slice<Dim>(all, whole_extents, begin, end);
  const auto piece = view<T, Rank>(piece_extents);
  const auto host = Kokkos::create_mirror_view(piece);
  std::copy(own.begin(), own.end(), host.data());
  Kokkos::deep_copy(piece, host);
  const auto cotangent_whole = filled(view<T, Rank>(whole_extents), 3 + rank);
  const auto cotangent_piece = filled(view<T, Rank>(piece_extents), 4 + rank);
  const auto to_whole = filled(view<T, Rank>(whole_extents), 5), to_piece = filled(view<T, Rank>(piece_extents), 6);
  const View<T, Rank> none;

  hg::AllGatherV<T, Rank, Dim> gather(world(), piece_extents, sizes);
  CHECK(spent([&] { gather.forward(piece, to_whole); }).all_gathers == once(piece));
  CHECK(values_of(to_whole) == all);
  CHECK(values_of(hg::all_gather_v<Dim>(world(), piece, sizes)) == all);

  if constexpr (hg::Reducible<T>) {
    CHECK(spent([&] { gather.vjp(cotangent_whole, to_piece); }).reduce_scatters == once(whole));
    std::vector<T> sum(own.size(), 0);  // of all ranks' cotangents
    for (int r = 0; r < size; ++r) {
      const auto theirs = slice<Dim>(values_of(filled(view<T, Rank>(whole_extents), 3 + r)), whole_extents, begin, end);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
    }
    CHECK(values_of(to_piece) == sum);
    CHECK(dot(to_whole, cotangent_whole) == dot(piece, to_piece));

    hg::ReduceScatterV<T, Rank, Dim> scatter(world(), piece_extents, sizes);
    scatter.forward(cotangent_whole, to_piece);
    CHECK(values_of(to_piece) == sum);
    CHECK(values_of(hg::reduce_scatter_v<Dim>(world(), cotangent_whole, sizes)) == sum);
    CHECK(spent([&] { scatter.vjp(cotangent_piece, to_whole); }).all_gathers == once(piece));
    CHECK(dot(to_piece, cotangent_piece) == dot(cotangent_whole, to_whole));
  }

  for (int root = 0; root < size; ++root) {
    CAPTURE(root);
    const bool here = rank == root;
    const auto of_root = [&](const View<T, Rank>& view) { return here ? view : none; };
    hg::GatherV<T, Rank, Dim> to_root(world(), piece_extents, sizes, root);
    filled(to_whole, 5);
    CHECK(spent([&] { to_root.forward(piece, of_root(to_whole)); }).gathers == once(piece));
    if (here) CHECK(values_of(to_whole) == all);
    const auto gathered = hg::gather_v<Dim>(world(), piece, sizes, root);
    CHECK((here ? values_of(gathered) == all : gathered.size() == 0));
    CHECK(spent([&] { to_root.vjp(of_root(cotangent_whole), to_piece); }).scatters == once(piece));
    CHECK(dot(of_root(to_whole), of_root(cotangent_whole)) == dot(piece, to_piece));

    hg::ScatterV<T, Rank, Dim> from_root(world(), piece_extents, sizes, root);
    CHECK(spent([&] { from_root.forward(of_root(whole), to_piece); }).scatters == once(piece));
    CHECK(values_of(to_piece) == own);
    CHECK(values_of(hg::scatter_v<Dim>(world(), of_root(whole), piece_extents, sizes, root)) == own);
    CHECK(spent([&] { from_root.vjp(cotangent_piece, of_root(to_whole)); }).gathers == once(piece));
    CHECK(dot(to_piece, cotangent_piece) == dot(of_root(whole), of_root(to_whole)));
  }
}

/// Rows that `from` sends to `to`: with repetitions, out of order, sometimes none.
std::vector<index_t> rows_sent(int from, int to, index_t rows) {
  std::vector<index_t> indices;
  for (int i = 0; rows > 0 && i < (from * 2 + to * 3) % 4; ++i) indices.push_back((from + to * 5 + i * 3) % rows);
  return indices;
}
index_t rows_of(int rank) { return (rank * 4 + 3) % 6; }  // 3 1 5 3 1 5

template <class T, int Rank>
void check_indexed() {
  CAPTURE(Rank);
  const int rank = world().rank(), size = world().size();
  std::array<index_t, Rank> extents = extents_like<T, Rank>();
  index_t width = 1;
  for (int d = 1; d < Rank; ++d) width *= extents[d];
  const auto tensor_of = [&](int r) {
    extents[0] = rows_of(r);
    return filled(view<T, Rank>(extents), r);
  };
  std::vector<std::vector<index_t>> indices;
  for (int r = 0; r < size; ++r) indices.push_back(rows_sent(rank, r, rows_of(rank)));
  std::vector<T> expected;
  for (int r = 0; r < size; ++r) {
    const std::vector<T> theirs = values_of(tensor_of(r));
    for (const index_t row : rows_sent(r, rank, rows_of(r)))
      expected.insert(expected.end(), theirs.begin() + row * width, theirs.begin() + (row + 1) * width);
  }

  const auto tensor = tensor_of(rank);
  hg::IndexedAllToAllV<T, Rank> move(world(), extents, indices);
  CHECK(move.received_rows() * width == static_cast<index_t>(expected.size()));
  const auto received = view<T, Rank>(move.received());
  hg::Tally messages;
  for (int r = 0; r < size; ++r)
    if (r != rank && !indices[r].empty()) messages.add(indices[r].size() * static_cast<std::size_t>(width) * sizeof(T));
  CHECK(spent([&] { move.forward(tensor, received); }).messages == messages);
  CHECK(values_of(received) == expected);
  CHECK(values_of(hg::indexed_all_to_all_v(world(), tensor, indices)) == expected);

  const auto cotangent = filled(view<T, Rank>(move.received()), 17 + rank);
  const auto gradient = filled(view<T, Rank>(extents), 2);  // to be overwritten
  move.vjp(cotangent, gradient);
  CHECK(dot(received, cotangent) == dot(tensor, gradient));
  const std::vector<T> first = values_of(gradient);
  move.vjp(cotangent, gradient);
  CHECK(values_of(gradient) == first);
}

std::string refusal(auto f) {
  try {
    f();
  } catch (const hg::CollectiveError& error) {
    return error.what();
  } catch (const hg::Error& error) {
    return std::string("of one rank: ") + error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("pieces along every dimension, of every type: values, adjoints, bytes") {
  check_pieces<double, 1, 0>();
  check_pieces<double, 2, 0>(), check_pieces<double, 2, 1>();
  check_pieces<float, 3, 0>(), check_pieces<float, 3, 1>(), check_pieces<float, 3, 2>();
  check_pieces<std::int64_t, 4, 2>(), check_pieces<int, 2, 1>();
  check_pieces<std::int16_t, 2, 1>();  // is moved, but not added
}

TEST_CASE("indexed_all_to_all_v: rows in any order, repeated, none") {
  check_indexed<double, 1>(), check_indexed<double, 2>(), check_indexed<float, 3>(), check_indexed<int, 2>();
}

TEST_CASE("kept and used again they allocate and set up nothing") {
  const std::vector<index_t> sizes = uneven_sizes();
  const index_t own = sizes[static_cast<std::size_t>(world().rank())];
  hg::AllGatherV<double, 2, 1> gather(world(), {3, 0}, sizes);
  const auto piece = view<double, 2>({3, own}), whole = view<double, 2>({3, total(sizes)});
  hg::GatherV<double, 2> to_root(world(), {0, 3}, sizes);
  const auto flat_piece = view<double, 2>({own, 3}), flat_whole = view<double, 2>({total(sizes), 3});
  const auto rows = view<double, 2>({rows_of(world().rank()), 3});
  std::vector<std::vector<index_t>> indices;
  for (int r = 0; r < world().size(); ++r) indices.push_back(rows_sent(world().rank(), r, rows_of(world().rank())));
  hg::IndexedAllToAllV<double, 2> move(world(), {rows_of(world().rank()), 3}, indices);
  const auto received = view<double, 2>(move.received());
  const auto use = [&] {
    gather.forward(piece, whole), gather.vjp(whole, piece);
    to_root.forward(flat_piece, flat_whole), to_root.vjp(flat_whole, flat_piece);
    move.forward(rows, received), move.vjp(received, rows);
  };
  use();
#ifdef HALOGEN_WITH_MPI
  const auto inits = pmpi::counts.inits;
#endif
  const long before = support::heap.of_data;
  for (int i = 0; i < 5; ++i) use();
  CHECK((support::heap.of_data == before || support::heap_serves_a_tool()));
  CHECK(support::kokkos_events(use).allocations.empty());
#ifdef HALOGEN_WITH_MPI
  CHECK(pmpi::counts.inits == inits);
#endif
}

TEST_CASE("what differs between ranks is one sentence on all of them, and nothing is moved") {
  const int size = world().size(), last = size - 1;
  const bool is_last = world().rank() == last;
  const std::string on = " on \"" + std::string(world().label()) + "\": ", ranks = std::to_string(size);
  const hg::CommStatistics before = hg::comm_stats();
  std::vector<index_t> sizes(static_cast<std::size_t>(size), 2);
  const auto gather = [&](std::array<index_t, 2> extents, const std::vector<index_t>& given) {
    return refusal([&] { hg::AllGatherV<double, 2>(world(), extents, given); });
  };
  std::vector<index_t> negative = sizes;
  negative.back() = -1;
  CHECK(gather({2, 3}, negative) ==
        "all_gather_v" + on + "the piece of rank " + std::to_string(last) + " has -1 points: give 0 or more");
  const std::vector<index_t> many(static_cast<std::size_t>(size) + 1, 2);
  CHECK(gather({2, 3}, many) ==
        "all_gather_v" + on + std::to_string(size + 1) + " sizes for " + ranks + " ranks: give one for each rank");

  const View<double, 2> piece("piece", is_last ? 3 : 2, 3);  // where the sizes say 2
  CHECK(refusal([&] { hg::all_gather_v(world(), piece, sizes); }) ==
        "all_gather_v" + on + "the piece of rank " + std::to_string(last) +
            " is 3 x 3, but 2 x 3 by its sizes: give a view of that shape");
  CHECK(refusal([&] { hg::gather_v(world(), piece, sizes, size); }) ==
        "gather_v" + on + "the root is " + ranks + ", but there are " + ranks + " ranks: name one of 0.." +
            std::to_string(last));
  const View<double, 2> whole("whole", 2 * size + 1, 3);
  CHECK(refusal([&] {
          hg::scatter_v(world(), whole, {0, 3}, sizes);
        }) == "scatter_v" + on + "the whole of rank 0 is " + std::to_string(2 * size + 1) + " x 3, but " +
                  std::to_string(2 * size) + " x 3 by its sizes: give a view of that shape");
  CHECK(
      refusal([&] { hg::reduce_scatter_v(world(), whole, sizes); }).starts_with("reduce_scatter_v" + on + "the whole"));

  std::vector<std::vector<index_t>> indices(static_cast<std::size_t>(size), {0, 1});
  if (is_last) indices[0] = {1, 2};
  const View<double, 2> rows("rows", 2, 3);
  CHECK(refusal([&] { hg::indexed_all_to_all_v(world(), rows, indices); }) ==
        "indexed_all_to_all_v" + on + "rank " + std::to_string(last) +
            " sends row 2 to rank 0, but its tensor has 2 rows: give indices from 0 to less than 2");
  if (is_last) indices.push_back({});
  CHECK(refusal([&] { hg::indexed_all_to_all_v(world(), rows, indices); }).ends_with("give one for each rank"));

  hg::AllGatherV<double, 2> kept(world(), {2, 3}, sizes);  // once made, another shape is a fault of its rank alone
  const View<double, 2> mine("mine", 2, 4);
  CHECK(
      refusal([&] { kept.forward(mine, whole); }).starts_with("of one rank: all_gather_v" + on + "the piece of rank"));
  CHECK(refusal([&] {
          kept.forward(View<double, 2>("piece", 2, 3),
                       Kokkos::subview(whole, std::pair<int, int>(0, 2 * size + 1), Kokkos::ALL));
        }).find("the whole of rank") != std::string::npos);
  const hg::Communicator alone = world().split(world().rank(), 0, "alone");  // where a fault of one rank harms nobody
  hg::ScatterV<double, 2> scatter(alone, {0, 3}, {2});
  CHECK(
      refusal([&] { scatter.forward(View<double, 2>("whole", 3, 3), View<double, 2>("piece", 2, 3)); }) ==
      "of one rank: scatter_v on \"alone\": the whole of rank 0 is 3 x 3, but 2 x 3 by its sizes: give a view of that "
      "shape");
  if (size == 1) return;

  const std::vector<index_t> otherwise(static_cast<std::size_t>(size), is_last ? 5 : 2);
  const std::string five =
      "the piece of rank 0 has 2 points on one rank and 5 on another: give all ranks the same sizes";
  CHECK(gather({2, 3}, otherwise) == "all_gather_v" + on + five);
  CHECK(gather({2, 3}, is_last ? many : sizes) == "all_gather_v" + on + ranks + " sizes on one rank and " +
                                                      std::to_string(size + 1) + " on another: give one for each rank");
  const std::string extent = "dimension 1 has 3 points on one rank and 4 on another: ";
  CHECK(gather({2, is_last ? 4 : 3}, sizes) == "all_gather_v" + on + extent + "pieces may differ in dimension 0 only");
  CHECK(refusal([&] {
          hg::GatherV<double, 2>(world(), {2, 3}, sizes, is_last);
        }) == "gather_v" + on + "the root is 0 on one rank and 1 on another: name one root");
  CHECK(refusal([&] {
          hg::IndexedAllToAllV<double, 2>(world(), {2, is_last ? 4 : 3}, std::vector<std::vector<index_t>>(indices));
        }) == "indexed_all_to_all_v" + on + extent + "tensors may differ in dimension 0 only");
  const hg::CommStatistics moved = hg::comm_stats() - before;
  CHECK(moved.all_gathers.count + moved.gathers.count + moved.scatters.count + moved.reduce_scatters.count == 0);
  CHECK(moved.messages.count == 0);
}

}  // namespace test_collectives_v
