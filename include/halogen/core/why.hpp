// Refusals of fields, expressions and their arguments: types that say in their names and numbers why something does not
// compile. A deleted overload has the refusal as a template argument,
//   template <class X, class Why = why::rank_differs<4, 5>> requires (!Fits) void step(X) = delete;
// so that g++, clang and nvcc all print its name and numbers. Number parameters are int. The refusals of layers are in
// graph/misfit.hpp and in the layers' own files.
#pragma once

namespace halogen::why {

/// The function given to parameters_named takes the name of none of the model's parameters, which are Tensors. Fix: the
/// names are those of hg::parameter_names<Model>().
template <int Tensors>
struct no_parameter_is_chosen {};

/// The model takes Needed inputs, and was given Have. Fix: hg::Inputs{x, y, ...} in the order of the model's `inputs`.
template <int Needed, int Have>
struct inputs_differ {};

/// Input Number of the model, from 0, has Needed channels; the field given for it has Have.
template <int Number, int Needed, int Have>
struct input_channels_differ {};

/// Input Number of the model holds indices. Fix: give a field of std::int32_t or std::int64_t.
template <int Number>
struct input_is_no_index {};

/// The model returns Needed values; its losses, labels or weights are given for Have. Fix: hg::Labels{a, b, ...} in the
/// order of what its forward returns.
template <int Needed, int Have>
struct outputs_differ {};

/// The network's output has Have channels, the label Needed; or the weight has Needed, where Have = 1 is meant.
template <int Needed, int Have>
struct label_channels_differ {};

/// Reason is why the label or the weight of output Number, from 0, does not fit. The model has several outputs.
template <int Number, class Reason>
struct of_output {};

/// A mesh dimension cuts tensor dimension TensorDimension (1 = channels); windows and norms need it whole.
/// Fix: Shard<0> (batch), Shard<2> and beyond (depth, height, width) or Replicate.
template <int MeshDimension, int TensorDimension>
struct channels_are_cut {};

/// A field given to a network, a loss or to attention, and an operand of an expression, must be a value, not a sum that
/// is still due; so must a field that is assigned to. Fix: redistribute to Replicate or Shard.
template <int MeshDimension>
struct input_is_partial {};

/// Images, labels and weights have dimensions (N, C, H, W), Needed = 4, or, where a model's windows have depth,
/// (N, C, D, H, W), Needed = 5, and of signals (N, C, W), Needed = 3; vectors (N, C), Needed = 2. Query, key and value
/// of attention have (N, H, L, E), Needed = 4.
template <int Needed, int Have>
struct rank_differs {};

/// Image and label (or weight) must be cut alike: mesh dimension MeshDimension places them differently.
template <int MeshDimension>
struct placements_differ {};

/// A network with parameters of type Parameter takes images, labels and weights of that type, or of bfloat16 where it
/// is float, not of Field. Fix: float parameters, or fields of their type; float16 has no range for gradients that are
/// not scaled: bfloat16.
template <class Parameter, class Field>
struct field_values_differ {};

/// The optimiser takes gradients that are whole. Fix: redistribute<Replicate>(gradient), one all_reduce.
struct gradient_is_partial {};

/// The parameters of a trainer with shard_parameters are gathered by the host in the course of each step.
/// Fix: call step(), or hold the parameters whole.
struct sharded_step_is_not_captured {};

/// Two operands of one expression are placed differently by mesh dimension MeshDimension. Nothing moves unasked. Fix:
/// redistribute the one that is placed Have to To.
template <int MeshDimension, class Have, class To>
struct redistribute_operand {};

/// Two operands of one expression have First and Second dimensions, or lie on meshes of so many.
template <int First, int Second>
struct operands_differ_in_rank {};

/// shift, slice, pad, transpose, select, squeeze, unflatten, flip, roll or cumulative_sum names dimension Dimension of
/// an expression of Rank dimensions.
template <int Dimension, int Rank>
struct no_such_dimension {};

/// The result that is differentiated is an integer: argmax, a sum or an extreme of integers, a count. It does not
/// change smoothly. Fix: differentiate something real, as max(u) for argmax(u); a sum of cast<double>(...) for one of
/// integers.
struct integer_has_no_gradient {};

/// What is differentiated does not depend on its argument with the number Argument (0: the first), or only by functions
/// without a gradient: comparisons, floor, sign, detach, casts to integers. Its gradient would be 0 for all values.
/// Fix: let the function depend on the argument, or capture it in the function instead of passing it.
template <int Argument>
struct variable_has_no_gradient {};

/// An expression of fields of From is assigned to a field of To, which has fewer digits: double to float, float to two
/// bytes, reals to integers, integers to narrower ones. Fix: cast<To>(expression), or a field of From. Numbers are no
/// fields: u = 2.0 * u is right for a u of float.
template <class From, class To>
struct values_are_narrowed {};

/// assign, +=, -=, *= and /= write the points of a field, which is const here. Fix: a field that is not.
struct field_is_const {};

/// Odd is a boundary of expressions, not of layers. Fix: Zero, ConstantEdge, Periodic, Reflect or ReplicateEdge; or the
/// stencil as an expression, with_boundary<Odd, ...>(u).
template <class... Edges>
struct boundary_of_expressions {};

/// flatten joins dimensions of which mesh dimension MeshDimension cuts one behind the first, First: points that follow
/// each other in the result would lie on all ranks. Fix: redistribute to Shard<First> or Replicate.
template <int MeshDimension, int First>
struct flattened_dimension_is_cut {};

/// A stencil's neighbour is given by Distances distances, in a field of Rank dimensions: one for each.
template <int Distances, int Rank>
struct footprint_differs_in_rank {};

/// A function that takes a field is given an expression, which holds no values. Fix: assign it first, Field v = u + 1,
/// and give v; or cut_as(u + 1, like) for redistribute_to.
struct expression_is_no_field {};

/// A field keeps its dimensions and value type when it is redistributed, and summands are Partial<Sum> of float,
/// double, int, int64 or uint64. First, Second: the mesh dimension whose placement is Partial in source or target, -1
/// for none.
template <int First, int Second>
struct partial_is_a_sum {};

/// Mesh dimension MeshDimension cuts the embedding of attention (dimension 3), which each product needs whole. Fix:
/// redistribute to Shard<0> (batch), Shard<1> (heads), Shard<2> (sequence) or Replicate.
template <int MeshDimension>
struct embedding_is_cut {};

/// Query, key and value of attention have First and Second points in dimension Dimension: batch, heads and embedding of
/// query and key are alike, batch, heads and sequence of key and value.
template <int Dimension, int First, int Second>
struct attention_extents_differ {};

}  // namespace halogen::why
