// Attention of fields over ranks: forward, what it keeps, and backward. The node of the array language
// (array/attention/attention_stage.hpp) and the layers of networks (layers/attention/function_of_heads.hpp) call it.
//
//   query (N, H, L, E), key (N, G, S, E), value (N, G, S, V) -> output (N, H, L, V), logarithms (N, H, L, 1)
//
// The placements of query and key say what moves:
//
//   both cut along points        a way of ContextParallel
//   only key and value           each rank attends to its own keys; the results become one (attention/parts.hpp)
//   neither                      nothing
//
// Kept for backward: operands, output, logarithms, and where rows were moved those too. Backward writes (=) gradients
// that lie as the operands do, and adds those of a bias in a field of its own. Collective.
#pragma once

#include <cmath>
#include <memory>
#include <tuple>

#include "halogen/attention/bias.hpp"
#include "halogen/attention/dropout.hpp"
#include "halogen/attention/fields.hpp"
#include "halogen/attention/parts.hpp"
#include "halogen/attention/ring.hpp"
#include "halogen/attention/schedule.hpp"
#include "halogen/attention/zigzag.hpp"
#include "halogen/halo/redistribute.hpp"

namespace halogen::detail {

/// Rows of an attention at one place: Stored as the operands are, Computed as results and gradients are.
template <class Stored, class Computed>
struct RowsAtPlace {
  Stored query, key, value;
  Computed output, logarithms;
};
/// The same of one backward pass: the gradient of the output, and of the operands.
template <class Computed>
struct GradientsAtPlace {
  Computed owed, query, key, value;
};

/// T: the type of computations. Bias, Mask: fields of T, or NoTerm. Query, key and value store the same type.
template <class T, class Query, class Key, class Value, class Bias = NoTerm, class Mask = NoTerm>
class AttentionPass {
 public:
  using S = typename Query::value_type;
  static constexpr bool is_cut = cuts_points<Query>, has_whole_queries = !is_cut && cuts_points<Key>;
  using Result = rows_like<T, Query>;
  using KeyRows = rows_like<T, Key>;
  using BiasSums = typename sums_of_bias<T, Key, Bias>::type;
  struct Gradients {
    Result query;
    KeyRows key, value;
    BiasSums bias;  ///< of this rank's pairs
  };

  /// Throws CollectiveError if extents, cuts or meshes do not fit, or the way is not possible.
  AttentionPass(const AttentionOptions& options, std::shared_ptr<const PairNumbers> numbers, Query query, Key key,
                Value value, Bias bias = {}, Mask mask = {})
      : options_(options),
        numbers_(std::move(numbers)),
        query_(std::move(query)),
        key_(std::move(key)),
        value_(std::move(value)),
        bias_(std::move(bias)),
        mask_(std::move(mask)) {
    check_attention(query_, key_, value_, options.enable_gqa);
    if constexpr (is_term<Bias>) check_bias(bias_, query_, key_, numbers_ != nullptr && numbers_->of_table);
    if constexpr (is_term<Mask>) check_bias(mask_, query_, key_, false);
    query_.shape()->agree(query_.decomposition().mask({2}));  // keys and values have the same cut
    key_.shape()->agree(key_.decomposition().mask({2}));
    schedule_.way = is_cut ? ways().chosen(options.parallel) : ContextParallel::ring;
  }

  void forward() { schedule_.forward(*this); }
  /// In place of forward: it takes a result and logarithms that were kept, and computes nothing.
  void resume(const Result& output, const Result& logarithms) {
    output_ = output, logarithms_ = logarithms;
    schedule_.resume(*this);
  }
  const Result& output() const { return output_; }
  /// The logarithms of the sums of exponentials. Ranks that moved rows send them.
  const Result& logarithms() {
    schedule_.keep(*this);
    return logarithms_;
  }
  /// The gradients that the flags name, from that of the output; other fields stay empty.
  template <bool OfQuery, bool OfKeys, bool OfBias>
  Gradients backward(const Result& owed) {
    Backward<OfQuery, OfKeys, OfBias> run(*this, owed);
    if constexpr (OfBias) run.found.bias = BiasSums(BiasSums::make_shape(bias_.mesh(), bias_.cuts()));
    schedule_.backward(run, OfQuery, OfKeys || OfBias);
    return run.found;
  }

  /// For explain: which way attention goes, if the sequence is cut.
  std::string words() const {
    return words_of(ways(), schedule_.way, query_.extent(0) * static_cast<index_t>(sizeof(S)));
  }

 private:
  friend struct AttentionSchedule;
  using Ring = AttentionRing<T, S>;
  using Zigzag = AttentionZigzag<T, S>;
  using ByHeads = RowsAtPlace<rows_by_heads<S, Query>, rows_by_heads<T, Query>>;
  using InRing = RowsAtPlace<typename Zigzag::template Memory<S>, typename Zigzag::template Memory<T>>;
  static constexpr InOrder all_in_order{true, true};

  // -- moves ------------------------------------------------------------------------------------------------------
  void there(AttentionRows rows) {
    using enum AttentionRows;
    if constexpr (is_cut) {
      if (rows == query) move_there(rows, query_, by_heads_.query, in_ring_.query);
      if (rows == key) move_there(rows, key_, by_heads_.key, in_ring_.key);
      if (rows == value) move_there(rows, value_, by_heads_.value, in_ring_.value);
      if (rows == output) move_there(rows, output_, by_heads_.output, in_ring_.output);
      if (rows == logarithms) move_there(rows, logarithms_, by_heads_.logarithms, in_ring_.logarithms);
    }
  }
  void back(AttentionRows rows) {
    if constexpr (is_cut) {
      if (rows == AttentionRows::output)
        move_back(rows, by_heads_.output, in_ring_.output, output_ = rows_beside_queries<T>(query_, value_.cut(3)));
      else
        move_back(rows, by_heads_.logarithms, in_ring_.logarithms,
                  logarithms_ = rows_beside_queries<T>(query_, Cut{{0, 1}}));
    }
  }
  void gather(AttentionRows rows) {
    if constexpr (is_cut) {
      if (rows == AttentionRows::key)
        gathered_key_ = in_order(rows, redistribute<rows_gathered<S, Key>>(key_));
      else
        gathered_value_ = in_order(rows, redistribute<rows_gathered<S, Key>>(value_));
    }
  }
  template <class Field, class Moved, class Memory>
  void move_there(AttentionRows rows, const Field& from, Moved& by_heads, Memory& in_ring) {
    if (schedule_.has_ring())
      in_ring = zigzag().there(rows, head_rows(from).read_only());
    else
      by_heads = in_order(rows, redistribute<Moved>(from));
  }
  template <class Field, class Moved, class Memory>
  void move_back(AttentionRows rows, const Moved& by_heads, const Memory& in_ring, const Field& to) {
    if (schedule_.has_ring())
      zigzag().back(rows, in_ring, head_rows(to));
    else
      redistribute_to(in_order(rows, by_heads, true), to);
  }
  /// All rows of queries or keys, moved to the order of their numbers, or back.
  template <class Field>
  Field in_order(AttentionRows rows, const Field& field, bool back = false) const {
    if (numbers_ == nullptr) return field;
    return rows_in_order(field, are_of_keys(rows) ? numbers_->key_order : numbers_->query_order, back);
  }

  // -- forward ----------------------------------------------------------------------------------------------------
  void attend();
  /// Attention of fields with these placements, by the ring of the ranks that cut the sequence.
  template <class Q, class K, class V>
  void attend(const Q& query, const K& key, const V& value, rows_like<T, Q>& output, rows_like<T, Q>& logarithms,
              InOrder in) {
    output = rows_beside_queries<T>(query, value.cut(3));
    logarithms = rows_beside_queries<T>(query, Cut{{0, 1}});
    ring(query, key, value)
        .forward(scale(), head_rows(query).read_only(), head_rows(key).read_only(), head_rows(value).read_only(),
                 terms(query, key, positions_of(query), in), head_rows(output), head_rows(logarithms));
  }

  // -- backward ---------------------------------------------------------------------------------------------------
  template <bool OfQuery, bool OfKeys, bool OfBias>
  struct Backward;
  /// Inputs of a ring's backward pass for fields, and results where `to` has fields for them.
  template <bool OfQuery, bool OfKeys, class Q, class K, class V, class O, class To>
  void pull(const Q& query, const K& key, const V& value, const O& output, const O& owed, const O& logarithms, To& to,
            const kernels::PairBias<T>& bias, InOrder in) {
    typename Ring::Pulled pulled;
    pulled.saved.query = head_rows(query).read_only();
    pulled.saved.key = head_rows(key).read_only();
    pulled.saved.value = head_rows(value).read_only();
    pulled.saved.gradient = head_rows(owed).read_only();
    pulled.saved.logsumexp = head_rows(logarithms).read_only();
    pulled.saved.terms = terms(query, key, positions_of(query), in);
    pulled.output = head_rows(output).read_only();
    pulled.bias = bias;
    pulled.apart = options_.parallel == ContextParallel::deterministic;
    if constexpr (OfQuery) pulled.query = head_rows(to.query = rows_unwritten<T>(query));
    if constexpr (OfKeys) {
      pulled.key = head_rows(to.key = rows_unwritten<T>(key));
      pulled.value = head_rows(to.value = rows_unwritten<T>(value));
    }
    ring(query, key, value).backward(scale(), pulled);
  }

  // -- what kernels and rings need --------------------------------------------------------------------------------
  double scale() const { return options_.scale.value_or(1 / std::sqrt(static_cast<double>(query_.extent(3)))); }
  AttentionWay ways() const {
    const Decomposition apart(query_.mesh().extents(), rows_by_heads<T, Query>::placements, Query::mesh_type::names);
    AttentionWay way = AttentionWay::of(query_.cut(2), key_.cut(2), options_.is_causal);
    way.query_heads = query_.extent(1), way.key_heads = key_.extent(1);
    way.width = query_.extent(3) + value_.extent(3), way.parts = apart.parts(1);
    way.bias_is_cut = is_bias_cut<Bias>();
    return way;
  }
  /// What kernels know about pairs of queries at these positions and keys.
  template <class Q, class K>
  kernels::PairTerms<T> terms(const Q& query, const K& key, const kernels::Positions& at, InOrder in) {
    kernels::PairTerms<T> terms;
    if constexpr (is_term<Bias>) terms.bias = pair_bias<const T>(bias_, query, numbers_.get(), in);
    if constexpr (is_term<Mask>) add_key_mask<T>(terms.bias, mask_, query, numbers_.get(), in);
    terms.dropout =
        dropout_.template beside<T>(query, at, key, options_.dropout_p, options_.generator, numbers_.get(), in);
    return terms;
  }
  template <class Q>
  static kernels::Positions positions_of(const Q& query) {
    return kernels::Positions::of({query.offset(2), query.offset(2) + query.local_extent(2)});
  }
  /// Prepared for fields of these shapes: the first call for them makes it.
  template <class Made, class Q, class K, class V, class Make>
  Made& prepared(const Q& query, const K& key, const V& value, Make make) const {
    return query.mesh().template prepared<PreparedByMesh<AttentionKey, Made>>().get(
        AttentionAsked{place_of(query), place_of(key), place_of(value), options_.is_causal}, make);
  }
  template <class Q, class K, class V>
  static kernels::AttentionShape shape_of_rank(const Q& query, const K& key, const V& value) {
    kernels::AttentionShape shape;
    shape.samples = query.local_extent(0), shape.heads = key.local_extent(1);
    shape.embedding = static_cast<int>(query.extent(3));
    shape.value_embedding = static_cast<int>(value.extent(3));
    return shape;
  }
  /// Heads of queries that see the same head of keys.
  index_t group() const { return key_.extent(1) == 0 ? 1 : query_.extent(1) / key_.extent(1); }
  /// The call is local, because the shapes determine who sends what. If queries or keys are gathered, the ring sends
  /// nothing.
  template <class Q, class K, class V>
  Ring& ring(const Q& query, const K& key, const V& value) const {
    return prepared<Ring>(query, key, value, [&] {
      const Decomposition& pieces = query.decomposition();
      RingSchedule schedule;
      schedule.rank = pieces.part(query.mesh().rank(), 2);
      schedule.queries = query.cut(2), schedule.keys = key.cut(2);
      if (pieces.parts(2) == 1)  // all queries are gathered and the keys are cut: only the own keys
        schedule.keys = Cut{{key.offset(2), key.offset(2) + key.local_extent(2)}};
      schedule.is_causal = options_.is_causal;
      return std::make_unique<Ring>(query.mesh().communicator(pieces.mask({2})), schedule,
                                    shape_of_rank(query, key, value), group());
    });
  }
  Zigzag& zigzag() const {
    return prepared<Zigzag>(query_, key_, value_, [&] {
      const Decomposition& pieces = query_.decomposition();
      return std::make_unique<Zigzag>(query_.mesh().communicator(pieces.mask({2})),
                                      pieces.part(query_.mesh().rank(), 2), query_.cut(2), key_.cut(2),
                                      shape_of_rank(query_, key_, value_), group());
    });
  }
  /// What joins the parts of ranks that share out the keys.
  AttentionParts<T>& parts() const {
    return prepared<AttentionParts<T>>(query_, key_, value_, [&] {
      return std::make_unique<AttentionParts<T>>(query_.mesh().communicator(key_.decomposition().mask({2})),
                                                 query_.local_extent(0), query_.local_extent(1), query_.local_extent(2),
                                                 static_cast<int>(std::max(query_.extent(3), value_.extent(3))));
    });
  }

  AttentionOptions options_;
  std::shared_ptr<const PairNumbers> numbers_;  ///< null: positions are the places in the sequence
  AttentionSchedule schedule_;
  Query query_;
  Key key_;
  Value value_;
  Bias bias_;
  Mask mask_;
  RandomPairs dropout_;
  Result output_, logarithms_;
  ByHeads by_heads_;
  InRing in_ring_;
  rows_gathered<S, Key> gathered_key_, gathered_value_;
};

template <class T, class Query, class Key, class Value, class Bias, class Mask>
void AttentionPass<T, Query, Key, Value, Bias, Mask>::attend() {
  using enum AttentionRows;
  if constexpr (is_cut) {
    if (schedule_.way == ContextParallel::zigzag) {
      Zigzag& moved = zigzag();
      in_ring_.output = moved.template made<T>(output), in_ring_.logarithms = moved.template made<T>(logarithms);
      moved.ring().forward(scale(), moved.rows(query, in_ring_.query).read_only(),
                           moved.rows(key, in_ring_.key).read_only(), moved.rows(value, in_ring_.value).read_only(),
                           terms(query_, key_, moved.query_positions(), {}), moved.rows(output, in_ring_.output),
                           moved.rows(logarithms, in_ring_.logarithms));
    } else if (schedule_.moves_rows()) {
      attend(by_heads_.query, by_heads_.key, by_heads_.value, by_heads_.output, by_heads_.logarithms, all_in_order);
    } else if (schedule_.gathers()) {
      attend(query_, gathered_key_, gathered_value_, output_, logarithms_, {.keys = true});
      gathered_key_ = gathered_value_ = {};
    } else {
      attend(query_, key_, value_, output_, logarithms_, {});
    }
  } else if constexpr (has_whole_queries) {
    attend(query_, key_, value_, output_, logarithms_, {});
    parts().join(execution_space{}, head_rows(output_), head_rows(logarithms_), static_cast<int>(value_.extent(3)),
                 key_.local_extent(2) > 0);
  } else {
    attend(query_, in_order(key, key_), in_order(value, value_), output_, logarithms_, {.keys = true});
  }
}

/// One backward pass. By the ring dq stays where it is; dk and dv travel with their keys and values and end at home.
template <class T, class Query, class Key, class Value, class Bias, class Mask>
template <bool OfQuery, bool OfKeys, bool OfBias>
struct AttentionPass<T, Query, Key, Value, Bias, Mask>::Backward {
  Backward(AttentionPass& of, const Result& owed) : pass(of), of_output(owed) {}

  AttentionPass& pass;
  const Result& of_output;  ///< the gradient of the output
  Gradients found{};
  GradientsAtPlace<rows_by_heads<T, Query>> by_heads{};
  GradientsAtPlace<typename Zigzag::template Memory<T>> in_ring{};
  rows_gathered<S, Query> all_queries{};
  rows_gathered<T, Query> all_outputs{}, all_owed{}, all_logarithms{};

  void there(AttentionRows rows) {
    if constexpr (is_cut) pass.move_there(rows, of_output, by_heads.owed, in_ring.owed);
  }
  void back(AttentionRows rows) {
    using enum AttentionRows;
    if constexpr (is_cut) {
      if (OfQuery && rows == query_gradient)
        pass.move_back(rows, by_heads.query, in_ring.query, found.query = rows_unwritten<T>(pass.query_));
      if (OfKeys && rows == key_gradient)
        pass.move_back(rows, by_heads.key, in_ring.key, found.key = rows_unwritten<T>(pass.key_));
      if (OfKeys && rows == value_gradient)
        pass.move_back(rows, by_heads.value, in_ring.value, found.value = rows_unwritten<T>(pass.value_));
    }
  }
  void gather(AttentionRows rows) {
    using enum AttentionRows;
    if constexpr (is_cut) {
      const auto gathered = [&](const auto& field) {
        using V = typename std::decay_t<decltype(field)>::value_type;
        return pass.in_order(rows, redistribute<rows_gathered<V, Query>>(field));
      };
      if (are_of_keys(rows)) pass.gather(rows);
      if (rows == query) all_queries = gathered(pass.query_);
      if (rows == output) all_outputs = gathered(pass.output_);
      if (rows == owed) all_owed = gathered(of_output);
      if (rows == logarithms) all_logarithms = gathered(pass.logarithms_);
    }
  }

  template <class Q>
  kernels::PairBias<T> bias_of(const Q& query, InOrder in) const {
    if constexpr (OfBias) return pair_bias<T>(found.bias, query, pass.numbers_.get(), in);
    return {};
  }
  void pull(bool of_query, bool) {
    if constexpr (is_cut) {
      if (pass.schedule_.way == ContextParallel::zigzag) return pull_in_ring();
      if (pass.schedule_.gathers()) return of_query ? pull_query() : pull_keys();
      const auto& at = pass.by_heads_;
      if (pass.schedule_.moves_rows())
        pass.template pull<OfQuery, OfKeys>(at.query, at.key, at.value, at.output, by_heads.owed, at.logarithms,
                                            by_heads, bias_of(at.query, all_in_order), all_in_order);
      else
        pull_at_home(pass.key_, pass.value_, {});
    } else if constexpr (has_whole_queries) {
      pull_at_home(pass.key_, pass.value_, {});
      if constexpr (OfQuery)
        pass.parts().add(execution_space{}, head_rows(found.query), static_cast<int>(pass.query_.extent(3)),
                         pass.key_.local_extent(2) > 0);
    } else {
      using enum AttentionRows;
      pull_at_home(pass.in_order(key, pass.key_), pass.in_order(value, pass.value_), {.keys = true});
      found.key = pass.in_order(key, found.key, true), found.value = pass.in_order(value, found.value, true);
    }
  }
  void pull_at_home(const Key& key, const Value& value, InOrder in) {
    pass.template pull<OfQuery, OfKeys>(pass.query_, key, value, pass.output_, of_output, pass.logarithms_, found,
                                        bias_of(pass.query_, in), in);
  }
  void pull_query() {
    pass.template pull<OfQuery, false>(pass.query_, pass.gathered_key_, pass.gathered_value_, pass.output_, of_output,
                                       pass.logarithms_, found, {}, {.keys = true});
    pass.gathered_key_ = pass.gathered_value_ = {};
  }
  /// By all queries, so that a bias of keys is summed by one rank.
  void pull_keys() {
    const InOrder in{.queries = true};
    pass.template pull<false, OfKeys>(all_queries, pass.key_, pass.value_, all_outputs, all_owed, all_logarithms, found,
                                      bias_of(all_queries, in), in);
  }
  void pull_in_ring() {
    using enum AttentionRows;
    Zigzag& moved = pass.zigzag();
    const auto& at = pass.in_ring_;
    typename Ring::Pulled pulled;
    pulled.saved.query = moved.rows(query, at.query).read_only();
    pulled.saved.key = moved.rows(key, at.key).read_only();
    pulled.saved.value = moved.rows(value, at.value).read_only();
    pulled.saved.gradient = moved.rows(owed, in_ring.owed).read_only();
    pulled.saved.logsumexp = moved.rows(logarithms, at.logarithms).read_only();
    pulled.saved.terms = pass.terms(pass.query_, pass.key_, moved.query_positions(), {});
    pulled.output = moved.rows(output, at.output).read_only();
    pulled.bias = bias_of(pass.query_, {});
    const auto made = [&](AttentionRows rows, auto& memory) {
      return moved.rows(rows, memory = moved.template made<T>(rows));
    };
    if (OfQuery) pulled.query = made(query_gradient, in_ring.query);
    if (OfKeys) pulled.key = made(key_gradient, in_ring.key), pulled.value = made(value_gradient, in_ring.value);
    moved.ring().backward(pass.scale(), pulled);
  }
};

}  // namespace halogen::detail
