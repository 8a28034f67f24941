// Parameters and gradient as launches see them if every rank holds all of them.
#pragma once

#include "halogen/plan/plan.hpp"

namespace halogen {

/// What an evaluation needs of its parameters. gathered_parameters.hpp has the same functions for sharded parameters.
template <class T>
class WholeParameters {
 public:
  explicit WholeParameters(const Plan& plan) : graph_(&plan.graph) {}

  void reserve() {}
  void begin(T* values) { values_ = values; }
  void begin_backward(T* gradient) { gradient_ = gradient; }
  void before(int /*launch*/) {}
  void after(int /*launch*/) {}
  void finish() {}

  const T* value(int parameter) const { return values_ + graph_->parameters[parameter].offset; }
  T* buffer(int parameter) const { return values_ + graph_->parameters[parameter].offset; }
  T* gradient(int parameter) const { return gradient_ + graph_->parameters[parameter].offset; }
  static constexpr bool is_piece(int /*parameter*/) { return false; }
  index_t values_of(int parameter) const { return graph_->parameters[parameter].count; }

 private:
  const Graph* graph_;
  T* values_ = nullptr;
  T* gradient_ = nullptr;
};

}  // namespace halogen
