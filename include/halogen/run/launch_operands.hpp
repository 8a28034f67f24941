// What a launch reads: its operands as kernels read them, and its parameters. What it asks for and has not declared is
// refused.
#pragma once

#include "halogen/core/philox.hpp"
#include "halogen/kernels/rows/space_window.hpp"
#include "halogen/kernels/rows/whole_field.hpp"
#include "halogen/run/launch_faults.hpp"
#include "halogen/run/launch_parts.hpp"
#include "halogen/run/operands.hpp"

namespace halogen {

/// The part of LaunchAt that gives a launch what it reads. It refers to the parts of an evaluation. Operands and
/// parameters are counted as the launch lists them (Launch::reads, Launch::parameters). Errors: the same
/// CollectiveError on all ranks, before the kernel of the launch runs, if the launch asks for an operand that it does
/// not list, or as something else than it lists it.
template <class S>
class LaunchOperands {
 public:
  using Space = execution_space;
  using T = compute_type<S>;

  LaunchOperands(const Space& space, const Plan& plan, const Layout& layout, const Operands<S>& operands, int index,
                 const LaunchParameters<T>& parameters, const RandomStream& random)
      : space_(space),
        plan_(plan),
        layout_(layout),
        operands_(operands),
        index_(index),
        parameters_(parameters),
        random_(random) {}

  const Space& space() const { return space_; }
  const Plan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  int number() const { return index_; }
  const Launch& launch() const { return plan_.launches[index_]; }
  const Node& node() const { return plan_.node_of(launch()); }
  LaunchPlace place() const {
    const int level = launch().level;
    return {plan_,
            launch(),
            layout_.owned(level, 1),
            layout_.owned(level, 2),
            layout_.samples() * layout_.planes(level),
            layout_.samples(),
            layout_.value_bytes()};
  }

  // -- operands -----------------------------------------------------------------------------------------------------
  /// A value, read point by point.
  kernels::ValueReader<S> value(int operand) const {
    return operands_.value_reader(value_of(operand, detail::asked::value));
  }
  /// A value as the node's windows read it: padded, and periodic where they are.
  kernels::ValueReader<S> windowed_value(int operand) const {
    const Value value = value_of(operand, detail::asked::windowed_value);
    expect_pattern(operand, Pattern::Step::window, "windowed_value", "Pattern::window()");
    return operands_.value_reader(value, &node());
  }
  kernels::GradientReader<S> gradient(int operand) const { return gradient_reader(operand, detail::asked::gradient); }
  /// The same as the node's windows gather it: periodic where the windows are.
  kernels::GradientReader<S> windowed_gradient(int operand) const {
    kernels::GradientReader<S> reader = gradient_reader(operand, detail::asked::windowed_gradient);
    expect_pattern(operand, Pattern::Step::adjoint, "windowed_gradient", "Pattern::adjoint()");
    for (int d = 0; d < spatial_dimensions; ++d) reader.frame.periodic[d] = node().window[d].periodic;
    return reader;
  }
  /// An input of integers.
  const IndexView& indices(int operand) const {
    return operands_.indices(value_of(operand, detail::asked::indices).sources[0].tensor.number);
  }
  /// A stored tensor as it was written.
  TensorView<S> tensor(int operand) const {
    return operands_.tensor(declared(operand, detail::asked::tensor).tensor());
  }
  /// The stored tensor of a value that is only one, because the operation made sure of it (PlanForward::read_field).
  TensorId tensor_of(int operand) const { return value_of(operand, detail::asked::tensor_of).sources[0].tensor; }

  /// The same for a number in the plan: the output, or one that an operand is read from.
  TensorView<S> stored_tensor(TensorId tensor) const {
    detail::expect_tensor(plan_, launch(), tensor);
    return operands_.tensor(tensor);
  }
  /// A stored tensor's layout on this rank.
  const TensorLayout& layout_of(TensorId tensor) const { return layout_.tensor(tensor); }
  /// The tensor that the launch keeps. It has no memory if no backward launch of the node reads it.
  TensorView<S> kept() const { return launch().kept >= 0 ? operands_.tensor(launch().kept) : TensorView<S>{}; }

  /// The first channel, among those of the launch's input, of the source that a backward launch differentiates.
  int first_channel() const { return plan_.input_of(launch()).channels_before(launch().source); }

  /// A value, read point by point or as the windows of a node read it.
  kernels::ValueReader<S> reader_of(ValueId value, const Node* windows = nullptr) const {
    return operands_.value_reader(plan_.values[value], windows);
  }
  /// Reads channels of a field that is placed like the tensors of the level that the launch computes.
  kernels::ValueReader<S> reader_of_field(const TensorView<S>& field, int channels) const {
    kernels::ValueReader<S> reader;
    reader.count = 1;
    reader.sources[0].tensor = field;
    reader.sources[0].channels = channels;
    for (int d = 0; d < spatial_dimensions; ++d) reader.frame.extent[d] = layout_.level(launch().level).extent(d);
    reader.depth = depth_window(Window{}, layout_.owned(launch().level, 0));
    return reader;
  }
  /// The same for vectors (N, channels).
  static kernels::ValueReader<S> reader_of_vectors(const TensorView<S>& field, int channels) {
    kernels::ValueReader<S> reader;
    reader.count = 1;
    reader.sources[0].tensor = field;
    reader.sources[0].channels = channels;
    for (index_t& extent : reader.frame.extent) extent = 1;
    return reader;
  }

  // -- parameters ---------------------------------------------------------------------------------------------------
  const T* parameter(int use) const {
    detail::expect_parameter(plan_, launch(), use, false);
    return parameters_.value[use];
  }
  T* parameter_gradient(int use) const {
    detail::expect_parameter(plan_, launch(), use, true);
    return parameters_.gradient[use];
  }
  index_t values_of_parameter(int use) const { return parameters_.values[use]; }
  /// The points of the node's level that have numbers in a parameter that lies on a field: this rank's, or all.
  Box<spatial_dimensions> points_of_parameter(int use) const {
    if (parameters_.is_piece[use]) return layout_.box(node().level, layout_.rank());
    Box<spatial_dimensions> all;
    for (int d = 0; d < spatial_dimensions; ++d)
      all.side[static_cast<std::size_t>(d)] = {0, layout_.level(node().level).extent(d)};
    return all;
  }

  // -- the node -----------------------------------------------------------------------------------------------------
  /// The node's windows, from its outputs to its inputs.
  kernels::SpaceWindow windows() const {
    kernels::SpaceWindow windows;
    for (int d = 0; d < spatial_dimensions; ++d) {
      windows.window[d] = node().window[d];
      windows.outputs[d] = layout_.level(node().level).extent(d);
    }
    return windows;
  }
  /// The random numbers of the node in this step. Forward and backward draw the same, and the same index gives the same
  /// number on all ranks.
  RandomStream random() const {
    if (node().in_evaluation) return {};
    RandomStream random = random_;
    random.stream = random.stream << 16 | static_cast<std::uint32_t>(node().layer);
    return random;
  }
  /// Where this rank's points are in the node's whole output.
  kernels::WholeField whole_field() const {
    const LevelLayout& level = layout_.level(node().level);
    kernels::WholeField field{layout_.first_sample() + random_.samples_before,
                              node().channels,
                              {},
                              layout_.owned(node().level, 0).begin,
                              layout_.planes(node().level)};
    for (int d = 0; d < spatial_dimensions; ++d) field.extent[d] = level.extent(d);
    return field;
  }
  /// Tables of the node's affine.
  kernels::AffineTables<T> affine_tables() const {
    int affine = 0;
    while (plan_.affines[affine].node != node().index) ++affine;
    return operands_.tables(AffineTableId(affine), {});
  }

 protected:
  const Read& declared(int operand, const detail::AskedOperand& as) const {
    return detail::declared_operand(plan_, launch(), operand, as);
  }
  Value value_of(int operand, const detail::AskedOperand& as) const {
    const Read& read = declared(operand, as);
    if (read.value() >= 0) return plan_.values[read.value()];
    Value one;
    one.level = plan_.input_of(launch()).level;
    one.sources.push(plan_.source_of(launch()));
    return one;
  }

  const Space& space_;
  const Plan& plan_;
  const Layout& layout_;
  const Operands<S>& operands_;
  int index_;

 private:
  kernels::GradientReader<S> gradient_reader(int operand, const detail::AskedOperand& as) const {
    const Read& read = declared(operand, as);
    const bool is_vector = read.pattern == Pattern::vector();
    const TensorId tensor = plan_.activations[read.gradient()].gradient;
    return operands_.gradient_reader(read.gradient(), is_vector ? plan_.tensors[tensor].level : launch().level);
  }
  /// Halos follow from the patterns that a launch declares. Other points would be missing in the margins.
  void expect_pattern(int operand, Pattern::Step step, const char* called, const char* wanted) const {
    if (node().window[0].transposed && launch().output < 0) return;  // it sums over the centres of its windows
    const Pattern pattern = launch().reads[operand].pattern;
    for (int i = 0; i < Pattern::steps; ++i)
      if (pattern.step(i) == step) return;
    detail::refuse_pattern(plan_, launch(), operand, called, wanted);
  }

  LaunchParameters<T> parameters_;
  RandomStream random_;
};

}  // namespace halogen
