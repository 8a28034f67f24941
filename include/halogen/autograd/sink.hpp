// Where the gradients of an expression are collected. Stages wait here with their cotangents until all that read them
// have added theirs. Then each is pulled back once, the newest first: a node is older than the nodes that contain it.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "halogen/array/evaluate/stored.hpp"
#include "halogen/autograd/variable.hpp"

namespace halogen::detail {

template <class Node>
struct CotangentOf;

/// Whether a node waits for all its cotangents: stages, and reductions to a number. Copies are the same node.
template <class Node>
inline constexpr bool is_deferred = requires(const Node& node) { node.identity.key(); };

/// Knows its variables by number, so that what lies below a stored node is compiled once, whatever they are.
class GradientSink {
  struct Deferred {
    std::uint64_t order;
    const void* node;
    Deferred(std::uint64_t o, const void* n) : order(o), node(n) {}
    virtual void run(GradientSink& gradients) const = 0;
    virtual ~Deferred() = default;
  };
  template <class Node, class C>
  struct DeferredNode final : Deferred {
    Node stage;
    C cotangent;
    DeferredNode(const Node& n, const C& c) : Deferred(n.identity.number(), n.identity.key()), stage(n), cotangent(c) {}
    void run(GradientSink& gradients) const override { CotangentOf<Node>::pass(stage, cotangent, gradients); }
  };

 public:
  GradientSink() = default;
  GradientSink(const GradientSink&) = delete;
  GradientSink& operator=(const GradientSink&) = delete;
  virtual ~GradientSink() = default;

  /// Adds to what the Index-th variable, a Field, is owed.
  template <int Index, class Field, class E>
  void add(const E& term) {
    const Slot slot = slot_of(Index);
    if (slot.sum == nullptr || *slot.type != typeid(Field)) return;  // a variable of another function's
    auto& sum = *static_cast<Field*>(slot.sum);
    if (sum.empty())
      sum = computed<Field>(static_cast<const Field*>(slot.variable)->shape(), as_expression(term));
    else
      sum.rebind(evaluated(sum, sum + term));
  }

  /// Adds to what a stage is owed: a field, or a number.
  template <class Node, class C>
  void defer(const Node& node, const C& cotangent) {
    for (const auto& one : deferred_)
      if (one->node == node.identity.key()) {  // the same node, and so of the same type
        C& sum = static_cast<DeferredNode<Node, C>&>(*one).cotangent;
        sum = sum + cotangent;
        return;
      }
    deferred_.push_back(std::make_unique<DeferredNode<Node, C>>(node, cotangent));
  }

  /// Pulls back all waiting stages, and the stages that get cotangents from them.
  void run_deferred() {
    while (!deferred_.empty()) {
      const auto last = std::max_element(deferred_.begin(), deferred_.end(),
                                         [](const auto& a, const auto& b) { return a->order < b->order; });
      const std::unique_ptr<Deferred> node = std::move(*last);
      deferred_.erase(last);
      node->run(*this);
    }
  }

 protected:
  /// A variable and what is collected for it; null where there is none of this number.
  struct Slot {
    const std::type_info* type = nullptr;
    const void* variable = nullptr;
    void* sum = nullptr;
  };
  virtual Slot slot_of(int index) = 0;

  template <class Arguments, class Sums>
  static Slot slot_among(int index, const Arguments& arguments, Sums& sums) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      Slot slot;
      ((index == static_cast<int>(I)
            ? void(slot = {&typeid(std::tuple_element_t<I, Sums>), &std::get<I>(arguments), &std::get<I>(sums)})
            : void()),
       ...);
      return slot;
    }(std::make_index_sequence<std::tuple_size_v<Sums>>{});
  }

 public:
  /// What is collected for the Index-th variable where that is no field.
  template <class Sum>
  Sum& sum_of(int index) {
    return *static_cast<Sum*>(slot_of(index).sum);
  }

 private:
  std::vector<std::unique_ptr<Deferred>> deferred_;
};

}  // namespace halogen::detail
