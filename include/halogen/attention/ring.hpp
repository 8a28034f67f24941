// Attention of fields whose sequence is cut: keys and values, and backward the sums of their gradients, travel round
// the ranks while kernels work on the pieces that have arrived.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "halogen/attention/head_rows.hpp"
#include "halogen/attention/ring_schedule.hpp"
#include "halogen/halo/pack.hpp"
#include "halogen/kernels/attention/attention.hpp"
#include "halogen/kernels/attention/attention_bias_gradient.hpp"
#include "halogen/kernels/attention/attention_gradients.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen::detail {

/// One attention, prepared for fields of given shapes: buffers, messages and schedule. T: computed type, S: stored
/// type.
///
/// Forward sends at most ranks - 1 messages, each with keys and values of one piece. Backward sends the same again, as
/// many messages with sums of dk and dv, and one that sends the sums to their owner. Each message is posted before a
/// kernel and waited for after it. A rank holds two more pieces of keys and values, and backward four pieces of sums.
template <class T, class S>
class AttentionRing {
 public:
  /// `shape`: samples, heads of keys and embeddings of this rank. `group` neighbouring heads of queries share a head of
  /// keys. `ranks`: those that cut the sequence, in order.
  AttentionRing(const Communicator& ranks, const RingSchedule& schedule, const kernels::AttentionShape& shape,
                index_t group);

  void forward(double scale, const kernels::HeadRows<const S>& query, const kernels::HeadRows<const S>& key,
               const kernels::HeadRows<const S>& value, const kernels::PairTerms<T>& terms,
               const kernels::HeadRows<T>& output, const kernels::HeadRows<T>& logsumexp);

  /// Inputs and results of backward: dq unless `query` is null, dk and dv unless `key` is null, and the terms of the
  /// bias's gradient unless `bias` is null.
  struct Pulled {
    kernels::AttentionSaved<T, S> saved;
    kernels::HeadRows<const T> output;
    kernels::HeadRows<T> query, key, value;  ///< results
    kernels::PairBias<T> bias;
    bool apart = false;  ///< always two kernels: they add members of a group in another order than one kernel
  };

  void backward(double scale, const Pulled& pulled);

 private:
  static constexpr int tag_of_keys = 0, tag_of_sums = 1, tag_of_home = 2;
  static constexpr index_t parts_of_a_launch = 8;

  index_t heads() const { return shape_.samples * shape_.heads; }
  index_t values_of(index_t keys) const { return heads() * keys * (shape_.embedding + shape_.value_embedding); }
  index_t keys_of(int piece) const { return schedule_.key_count(piece); }

  kernels::AttentionShape shape_of_piece(int piece) const;

  // In a buffer the keys of a piece come before its values.
  template <class V>
  kernels::HeadRows<V> key_rows(V* data, int piece) const {
    return kernels::HeadRows<V>::packed(data, shape_.heads, keys_of(piece), shape_.embedding);
  }
  template <class V>
  kernels::HeadRows<V> value_rows(V* data, int piece) const;
  kernels::HeadRows<T> key_sums(const TransportBuffer<T>& sums, int piece) const {
    return key_rows(sums.data(), piece);
  }
  kernels::HeadRows<T> value_sums(const TransportBuffer<T>& sums, int piece) const {
    return value_rows(sums.data(), piece);
  }

  template <class V>
  Transfer transfer(int peer, const TransportBuffer<V>& buffer, int piece, int tag) const {
    return {peer, buffer.data(), static_cast<std::size_t>(values_of(keys_of(piece))) * sizeof(V), tag};
  }

  /// An exchange and whether this rank takes part in it.
  struct Move {
    Exchange exchange;
    bool moves = false;
  };
  Move prepared(const std::vector<Transfer>& receives, const std::vector<Transfer>& sends, const char* what) const;
  void start(Move& move);

  /// run(step, piece, keys, values) for every piece that this rank sees, between(step) after each step.
  template <class Run, class Between>
  void travel(const kernels::HeadRows<const S>& key, const kernels::HeadRows<const S>& value, Run run, Between between);

  /// On the host the kernel runs in parts, and the transport is polled between them.
  template <class Kernel>
  void launch(int step, const Kernel& kernel);
  static const kernels::AttentionShape& shape_of(const kernels::AttentionForward<execution_space, T, S>& kernel) {
    return kernel.shape;
  }
  template <class Kernel>
  static const kernels::AttentionShape& shape_of(const Kernel& kernel) {
    return kernel.saved.shape;
  }

  template <bool Add, class To, class From>
  void move_rows(const kernels::HeadRows<To>& to, const kernels::HeadRows<From>& from, index_t positions,
                 int width) const;
  void zero(const kernels::HeadRows<T>& rows, index_t positions, int width);

  void pack(const kernels::HeadRows<const S>& key, const kernels::HeadRows<const S>& value) const;

  void prepare_sums();

  /// Adds this rank's sums of the piece at `step` to those of earlier ranks, and sends them on.
  void pass_sums(int step);
  template <bool Add>
  void join_sums(const TransportBuffer<T>& sums, int piece) const;

  /// Collects the sums of the own piece after all steps.
  void bring_home(const Pulled& pulled);

  execution_space space_;
  Communicator ranks_;
  RingSchedule schedule_;
  kernels::AttentionShape shape_;
  index_t group_ = 1;
  index_t most_keys_ = 0;
  int first_ = -1, last_ = -1;  ///< first and last step whose piece this rank sees
  std::array<TransportBuffer<S>, 2> pairs_;
  std::array<TransportBuffer<T>, 2> sums_;
  TransportBuffer<T> incoming_, home_;
  std::vector<Move> moves_, sum_moves_;
  detail::Lasting<Kokkos::View<T*, memory_space>> state_, dots_, zeros_;
  detail::Lasting<Kokkos::View<S*, memory_space>> staged_;
};

template <class T, class S>
AttentionRing<T, S>::AttentionRing(const Communicator& ranks, const RingSchedule& schedule,
                                   const kernels::AttentionShape& shape, index_t group)
    : ranks_(ranks), schedule_(schedule), shape_(shape), group_(group) {
  const auto queries = schedule.piece(schedule.queries, schedule.rank);
  shape_.query_positions = kernels::Positions::of(queries[0], queries[1]);
  shape_.queries = shape_.query_positions.count;
  shape_.is_causal = schedule.is_causal;
  for (int piece = 0; piece < schedule.ranks(); ++piece) most_keys_ = std::max(most_keys_, schedule.key_count(piece));
  for (int step = 0; step < schedule.ranks(); ++step)
    if (schedule.sees(schedule.rank, schedule.piece_at(step))) {
      if (first_ < 0) first_ = step;
      last_ = step;
    }
  if (schedule.ranks() == 1) return;
  for (TransportBuffer<S>& pair : pairs_)
    pair = TransportBuffer<S>("halogen::piece", values_of(most_keys_), Travels::in_messages, ranks);
  for (int step = 0; step + 1 < schedule.ranks(); ++step) {
    std::vector<Transfer> receives, sends;
    const int here = schedule.piece_at(step), coming = schedule.piece_at(step + 1);
    if (schedule.travels(here, step)) sends.push_back(transfer(schedule.next(), pairs_[step % 2], here, tag_of_keys));
    if (schedule.travels(coming, step))
      receives.push_back(transfer(schedule.previous(), pairs_[(step + 1) % 2], coming, tag_of_keys));
    moves_.push_back(prepared(receives, sends, "keys and values of attention"));
  }
  if (!runs_on_host && !takes_device_memory(ranks, Travels::in_messages))
    staged_ = Kokkos::View<S*, memory_space>(Kokkos::view_alloc("halogen::staged_keys", Kokkos::WithoutInitializing),
                                             values_of(most_keys_));
}

template <class T, class S>
void AttentionRing<T, S>::forward(double scale, const kernels::HeadRows<const S>& query,
                                  const kernels::HeadRows<const S>& key, const kernels::HeadRows<const S>& value,
                                  const kernels::PairTerms<T>& terms, const kernels::HeadRows<T>& output,
                                  const kernels::HeadRows<T>& logsumexp) {
  shape_.scale = scale;
  kernels::AttentionForward<execution_space, T, S> kernel;
  const auto run = [&](int step, int piece, const auto& keys, const auto& values) {
    kernel.shape = shape_of_piece(piece);
    kernel.key = keys, kernel.value = values;
    kernel.is_first = step == first_;
    kernel.is_last = step == last_;
    const index_t state_values = kernel.state_values(kernel.shape);
    if (!(kernel.is_first && kernel.is_last) && state_.extent(0) == 0)
      state_ = Kokkos::View<T*, memory_space>(Kokkos::view_alloc("halogen::attention", Kokkos::WithoutInitializing),
                                              group_ * state_values);
    for (index_t member = 0; member < group_; ++member) {
      kernel.query = query.member_of_groups(group_, member);
      kernel.terms = terms.member_of_groups(group_, member);
      kernel.output = output.member_of_groups(group_, member);
      kernel.logsumexp = logsumexp.member_of_groups(group_, member);
      kernel.state = state_.extent(0) == 0 ? nullptr : state_.data() + member * state_values;
      launch(step, kernel);
    }
  };
  travel(key, value, run, [](int) {});
}

template <class T, class S>
void AttentionRing<T, S>::backward(double scale, const Pulled& pulled) {
  shape_.scale = scale;
  const index_t rows = shape_.samples * shape_.heads * shape_.queries;  // of each member of the groups
  if (static_cast<index_t>(dots_.extent(0)) < group_ * rows)
    dots_ =
        Kokkos::View<T*, memory_space>(Kokkos::view_alloc("halogen::dots", Kokkos::WithoutInitializing), group_ * rows);
  const bool pulls_keys = pulled.key.data != nullptr;
  if (pulls_keys && schedule_.ranks() > 1 && sum_moves_.empty()) prepare_sums();
  for (index_t member = 0; rows > 0 && member < group_; ++member)
    launch_range(space_, "halogen::attention_dots", rows,
                 kernels::AttentionDots<T>{pulled.saved.gradient.member_of_groups(group_, member),
                                           pulled.output.member_of_groups(group_, member), shape_.heads, shape_.queries,
                                           shape_.value_embedding, dots_.data() + member * rows});
  const auto run_member = [&](int step, int piece, const auto& keys, const auto& values, index_t member) {
    kernels::AttentionSaved<T, S> saved;
    saved.shape = shape_of_piece(piece);
    saved.query = pulled.saved.query.member_of_groups(group_, member);
    saved.gradient = pulled.saved.gradient.member_of_groups(group_, member);
    saved.logsumexp = pulled.saved.logsumexp.member_of_groups(group_, member);
    saved.key = keys, saved.value = values;
    saved.terms = pulled.saved.terms.member_of_groups(group_, member);
    saved.dots = dots_.data() + member * rows;
    if (pulled.bias.data != nullptr)
      launch(step, kernels::AttentionBiasGradient<execution_space, T, S>{saved,
                                                                         pulled.bias.member_of_groups(group_, member)});
    const bool stays = step == 0 && schedule_.last_hop(piece) == 0, pulls_query = pulled.query.data != nullptr;
    const auto query_result = pulls_query ? pulled.query.member_of_groups(group_, member) : pulled.query;
    const auto key_result = stays || !pulls_keys ? pulled.key : key_sums(sums_[step % 2], piece);
    const auto value_result = stays || !pulls_keys ? pulled.value : value_sums(sums_[step % 2], piece);
    using All = kernels::AttentionGradients<execution_space, T, S>;
    if (!pulled.apart && pulls_query && pulls_keys && All::suits(space_, saved.shape))
      return launch(
          step, All{saved, query_result, key_result, value_result, step == first_, member == 0, member == group_ - 1});
    if (pulls_query)
      launch(step, kernels::AttentionQueryGradient<execution_space, T, S>{saved, query_result, step == first_});
    if (pulls_keys)
      launch(step, kernels::AttentionKeyGradient<execution_space, T, S>{saved, key_result, value_result, member == 0});
  };
  const auto run = [&](int step, int piece, const auto& keys, const auto& values) {
    for (index_t member = 0; member < group_; ++member) run_member(step, piece, keys, values, member);
  };
  travel(pulled.saved.key, pulled.saved.value, run, [&](int step) {
    if (pulls_keys) pass_sums(step);
  });
  if (pulls_keys) bring_home(pulled);
}

template <class T, class S>
kernels::AttentionShape AttentionRing<T, S>::shape_of_piece(int piece) const {
  kernels::AttentionShape shape = shape_;
  shape.keys = keys_of(piece);
  const auto keys = schedule_.piece(schedule_.keys, piece);
  shape.key_positions = kernels::Positions::of(keys[0], keys[1]);
  return shape;
}

template <class T, class S>
template <class V>
kernels::HeadRows<V> AttentionRing<T, S>::value_rows(V* data, int piece) const {
  return kernels::HeadRows<V>::packed(data + heads() * keys_of(piece) * shape_.embedding, shape_.heads, keys_of(piece),
                                      shape_.value_embedding);
}

template <class T, class S>
auto AttentionRing<T, S>::prepared(const std::vector<Transfer>& receives, const std::vector<Transfer>& sends,
                                   const char* what) const -> Move {
  Move move{ranks_.prepare(receives, sends, what), false};
  for (const auto* list : {&receives, &sends})
    for (const Transfer& one : *list) move.moves |= one.bytes > 0;
  return move;
}

template <class T, class S>
void AttentionRing<T, S>::start(Move& move) {
  if (!move.moves) return;
  settle(space_, ranks_, "halogen::ring");  // kernels must have written what is sent and read what is overwritten
  move.exchange.start();
}

template <class T, class S>
template <class Run, class Between>
void AttentionRing<T, S>::travel(const kernels::HeadRows<const S>& key, const kernels::HeadRows<const S>& value,
                                 Run run, Between between) {
  if (heads() == 0) return;
  for (int step = 0; step < schedule_.ranks(); ++step) {
    const int piece = schedule_.piece_at(step);
    if (step + 1 < schedule_.ranks()) {
      if (step == 0 && schedule_.travels(piece, 0)) pack(key, value);
      start(moves_[static_cast<std::size_t>(step)]);
    }
    if (schedule_.sees(schedule_.rank, piece)) {
      if (step == 0) {
        run(step, piece, key, value);
      } else {
        const TransportBuffer<S>& pair = pairs_[step % 2];
        S* data = pair.data();
        if (staged_.data() != nullptr) {
          data = staged_.data();
          pair.get(space_, data, static_cast<std::size_t>(values_of(keys_of(piece))));
        }
        run(step, piece, key_rows(data, piece).read_only(), value_rows(data, piece).read_only());
      }
    }
    between(step);
    if (step + 1 < schedule_.ranks()) moves_[static_cast<std::size_t>(step)].exchange.wait();
  }
}

template <class T, class S>
template <class Kernel>
void AttentionRing<T, S>::launch(int step, const Kernel& kernel) {
  const index_t teams = kernel.teams(shape_of(kernel));
  const auto i = static_cast<std::size_t>(step);
  const bool moves = i < moves_.size() && moves_[i].moves;
  const bool sums = i > 0 && i <= sum_moves_.size() && sum_moves_[i - 1].moves;
  const index_t parts = runs_on_host && (moves || sums)  // each with work for all threads
                            ? std::clamp<index_t>(teams / space_.concurrency(), 1, parts_of_a_launch)
                            : 1;
  for (index_t part = 0; part < parts; ++part) {
    kernel.launch(space_, teams * part / parts, teams * (part + 1) / parts);
    if (parts > 1 && moves) moves_[i].exchange.test();
    if (parts > 1 && sums) sum_moves_[i - 1].exchange.test();
  }
}

template <class T, class S>
template <bool Add, class To, class From>
void AttentionRing<T, S>::move_rows(const kernels::HeadRows<To>& to, const kernels::HeadRows<From>& from,
                                    index_t positions, int width) const {
  using Kernel = MoveRows<To, std::remove_const_t<From>, Add>;
  launch_range(
      space_, "halogen::move_rows", Kernel::items(heads() * positions, width),
      Kernel{to, {from.data, from.sample_stride, from.head_stride, from.row_stride}, shape_.heads, positions, width});
}

template <class T, class S>
void AttentionRing<T, S>::zero(const kernels::HeadRows<T>& rows, index_t positions, int width) {
  if (zeros_.extent(0) < static_cast<std::size_t>(width))
    zeros_ = Kokkos::View<T*, memory_space>("halogen::zeros", static_cast<std::size_t>(width));
  move_rows<false>(rows, kernels::HeadRows<const T>{zeros_.data(), 0, 0, 0}, positions, width);
}

template <class T, class S>
void AttentionRing<T, S>::pack(const kernels::HeadRows<const S>& key, const kernels::HeadRows<const S>& value) const {
  S* data = pairs_[0].data();
  move_rows<false>(key_rows(data, schedule_.rank), key, keys_of(schedule_.rank), shape_.embedding);
  move_rows<false>(value_rows(data, schedule_.rank), value, keys_of(schedule_.rank), shape_.value_embedding);
}

template <class T, class S>
void AttentionRing<T, S>::prepare_sums() {
  for (TransportBuffer<T>* buffer : {&sums_[0], &sums_[1], &incoming_})
    *buffer = TransportBuffer<T>("halogen::sum", values_of(most_keys_), Travels::in_messages, ranks_);
  home_ = TransportBuffer<T>("halogen::receive", values_of(keys_of(schedule_.rank)), Travels::in_messages, ranks_);
  const int own = schedule_.rank, count = schedule_.ranks();
  for (int step = 0; step < count; ++step) {
    std::vector<Transfer> receives, sends;
    const int here = schedule_.piece_at(step), coming = schedule_.piece_at(step + 1);
    const TransportBuffer<T>& sums = sums_[step % 2];
    if (schedule_.sum_travels(here, step)) sends.push_back(transfer(schedule_.next(), sums, here, tag_of_sums));
    if (schedule_.goes_home(here, step)) sends.push_back(transfer(here, sums, here, tag_of_home));
    if (step + 1 < count && schedule_.sum_travels(coming, step))
      receives.push_back(transfer(schedule_.previous(), incoming_, coming, tag_of_sums));
    if (schedule_.goes_home(own, step)) receives.push_back(transfer((own + step) % count, home_, own, tag_of_home));
    sum_moves_.push_back(prepared(receives, sends, "gradients of keys and values of attention"));
  }
}

template <class T, class S>
void AttentionRing<T, S>::pass_sums(int step) {
  if (sum_moves_.empty()) return;
  const int piece = schedule_.piece_at(step);
  if (step > 0) {
    sum_moves_[static_cast<std::size_t>(step - 1)].exchange.wait();
    if (schedule_.sum_travels(piece, step - 1)) {
      const TransportBuffer<T>& sums = sums_[step % 2];
      if (schedule_.sees(schedule_.rank, piece))
        join_sums<true>(sums, piece);
      else
        join_sums<false>(sums, piece);
    }
  }
  start(sum_moves_[static_cast<std::size_t>(step)]);
}

template <class T, class S>
template <bool Add>
void AttentionRing<T, S>::join_sums(const TransportBuffer<T>& sums, int piece) const {
  move_rows<Add>(key_sums(sums, piece), key_sums(incoming_, piece), keys_of(piece), shape_.embedding);
  move_rows<Add>(value_sums(sums, piece), value_sums(incoming_, piece), keys_of(piece), shape_.value_embedding);
}

template <class T, class S>
void AttentionRing<T, S>::bring_home(const Pulled& pulled) {
  const int own = schedule_.rank;
  if (heads() == 0) return;
  if (!sum_moves_.empty()) sum_moves_.back().exchange.wait();
  if (schedule_.last_hop(own) > 0) {
    move_rows<false>(pulled.key, key_sums(home_, own), keys_of(own), shape_.embedding);
    move_rows<false>(pulled.value, value_sums(home_, own), keys_of(own), shape_.value_embedding);
  } else if (!schedule_.sees(own, own)) {
    zero(pulled.key, keys_of(own), shape_.embedding);
    zero(pulled.value, keys_of(own), shape_.value_embedding);
  }
}

}  // namespace halogen::detail
