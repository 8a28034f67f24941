// From the numbers of a plan to the views of kernels: which memory a launch reads and writes.
#pragma once

#include "halogen/kernels/sums/affine_tables.hpp"
#include "halogen/kernels/tiles/tile_output.hpp"
#include "halogen/run/arena.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/tensor/strided_view.hpp"

namespace halogen {

namespace detail {
/// The size of a common last-level cache. If a tensor has so many bytes, little of it is still in the cache when the
/// next launch reads it. Tests set a lower size.
inline std::size_t streamed_bytes = std::size_t{32} << 20;
}  // namespace detail

/// The window's planes in depth, for a launch that computes the given planes of each sample.
inline kernels::DepthWindow depth_window(const Window& window, const Interval& planes) {
  return {.planes = static_cast<int>(planes.size()),
          .kernel = window.kernel,
          .stride = window.stride,
          .dilation = window.dilation,
          .first = planes.begin,
          .padding = window.padding};
}

/// S is the value type of stored tensors. Tables are in compute_type<S>.
template <class S>
class Operands {
  using T = compute_type<S>;

 public:
  Operands(const Plan& plan, const Layout& layout, const Arena& arena) : plan_(plan), layout_(layout), arena_(&arena) {}

  void set_arena(const Arena& arena) { arena_ = &arena; }
  void bind_inputs(const InputViews<S>& inputs) { inputs_ = inputs; }
  void bind_cotangents(const std::array<TensorView<S>, most_outputs>& cotangents) { cotangents_ = cotangents; }

  TensorView<S> tensor(TensorId t) const;
  /// The same as a StridedView. Dimensions: samples, channels, depth, height, width.
  StridedView<S, 2 + spatial_dimensions> strided(TensorId t) const {
    const TensorView<S> view = tensor(t);
    return {view.data,
            {view.sample_stride, view.channel_stride, view.plane_stride, view.row_stride, 1},
            {layout_.first_sample(), 0, view.z0, view.y0, view.x0}};
  }
  const IndexView& indices(int input) const { return inputs_.indices[input]; }

  template <class V>
  V* workspace(std::size_t offset) const {
    return arena_->template at<V>(layout_.memory().tensors + offset);
  }

  kernels::RowSums* partial_sums() const { return workspace<kernels::RowSums>(layout_.workspace().row_sums); }

  /// The tables of an affine. slope and offset are those of the activation whose gradient is read, if any.
  kernels::AffineTables<T> tables(AffineTableId id, ActivationId activation) const;

  /// A value, read point by point or as the windows of `reader` read it.
  kernels::ValueReader<S> value_reader(const Value& value, const Node* reader = nullptr) const;

  /// The gradient of an activation's stored tensor, at the points of `level`.
  kernels::GradientReader<S> gradient_reader(ActivationId activation, int level) const;

  /// What a launch sums. The tiles are not set.
  kernels::TileSums<S> sums(const Launch& launch) const;
  /// Where a launch writes. The tiles are not set.
  kernels::TileOutput<S> output(const Launch& launch) const;

 private:
  kernels::RowEpilogue<S> epilogue(const Launch& launch) const;

  kernels::Affine<T> affine(AffineTableId id) const;

  const Plan& plan_;
  const Layout& layout_;
  const Arena* arena_;
  InputViews<S> inputs_;
  std::array<TensorView<S>, most_outputs> cotangents_;
};

template <class S>
TensorView<S> Operands<S>::tensor(TensorId t) const {
  if (plan_.tensors[t].external) {
    const int given = plan_.cotangent_of(t);
    return given >= 0 ? cotangents_[static_cast<std::size_t>(given)] : inputs_.values[t.number];
  }
  const TensorLayout& layout = layout_.tensor(t);
  const Interval& planes = layout.owned[0];
  return {arena_->template at<S>(layout.offset) + (planes.begin - layout.stored[0].begin) * layout.plane_stride,
          layout.sample_stride,
          layout.channel_stride,
          layout.row_stride,
          layout.stored[1].begin,
          layout.stored[2].begin,
          layout.plane_stride,
          planes.begin,
          static_cast<int>(planes.size())};
}

template <class S>
kernels::AffineTables<compute_type<S>> Operands<S>::tables(AffineTableId id, ActivationId activation) const {
  const index_t entries = index_t{layout_.samples()} * plan_.affines[id].channels;
  kernels::AffineTables<T> tables{};
  tables.mean = workspace<double>(layout_.workspace().table(id));
  tables.inverse_deviation = tables.mean + entries;
  tables.scale = reinterpret_cast<T*>(tables.inverse_deviation + entries);
  tables.shift = tables.scale + entries;
  if (activation >= 0) {
    tables.slope = workspace<T>(layout_.workspace().vjp_table(activation));
    tables.offset = tables.slope + entries;
  }
  return tables;
}

template <class S>
kernels::ValueReader<S> Operands<S>::value_reader(const Value& value, const Node* reader) const {
  kernels::ValueReader<S> result;
  result.count = value.sources.size();
  for (int i = 0; i < result.count; ++i) {
    const Source& source = value.sources[i];
    kernels::SourceView<S>& view = result.sources[i];
    view.tensor = tensor(source.tensor);
    view.affine = affine(source.affine);
    view.function = source.function;
    view.resampled = source.resampled;
    view.channels = source.channels;
    for (int d = 0; d < spatial_dimensions; ++d)
      view.map[d] = resample(layout_.levels(), source, plan_.tensors[source.tensor].level, value.level, d);
  }
  for (int d = 0; d < spatial_dimensions; ++d) {
    result.frame.extent[d] = layout_.level(value.level).extent(d);
    result.frame.periodic[d] = reader != nullptr && reader->window[d].periodic;
  }
  const int level = reader != nullptr ? reader->level : value.level;
  result.depth = depth_window(reader != nullptr ? reader->window[0] : Window{}, layout_.owned(level, 0));
  return result;
}

template <class S>
kernels::GradientReader<S> Operands<S>::gradient_reader(ActivationId index, int level) const {
  const Activation& activation = plan_.activations[index];
  kernels::GradientReader<S> reader;
  reader.gradient = tensor(activation.gradient);
  reader.function = activation.function;
  if (activation.reads_value()) reader.value = tensor(activation.tensor);
  if (activation.affine >= 0) {
    const kernels::AffineTables<T> of = tables(activation.affine, index);
    reader.affine = affine(activation.affine);
    reader.slope = of.slope;
    reader.offset = of.offset;
  }
  reader.depth = depth_window(Window{}, layout_.owned(level, 0));
  for (int d = 0; d < spatial_dimensions; ++d)
    reader.frame.extent[d] = layout_.level(plan_.tensors[activation.gradient].level).extent(d);
  return reader;
}

template <class S>
kernels::TileSums<S> Operands<S>::sums(const Launch& launch) const {
  const TensorId summed = plan_.summed_tensor(launch);
  return {tensor(summed), plan_.tensors[summed].channels, {}, epilogue(launch)};
}

template <class S>
kernels::TileOutput<S> Operands<S>::output(const Launch& launch) const {
  kernels::TileOutput<S> output;
  static_cast<kernels::TileSums<S>&>(output) = sums(launch);
  output.accumulate = launch.accumulate;
  output.base = tensor(launch.addend >= 0 ? launch.addend : launch.output);
  output.streams =
      runs_on_host && std::is_same_v<S, T> && layout_.tensor(launch.output).bytes >= detail::streamed_bytes;
  return output;
}

template <class S>
kernels::RowEpilogue<S> Operands<S>::epilogue(const Launch& launch) const {
  using Kind = typename kernels::RowEpilogue<S>::Kind;
  kernels::RowEpilogue<S> epilogue;
  if (launch.statistics < 0 && launch.sums < 0 && launch.mask < 0) return epilogue;
  epilogue.kind = launch.statistics >= 0 ? Kind::moments : launch.sums >= 0 ? Kind::affine_sums : Kind::mask;
  if (launch.mask >= 0) epilogue.mask = tensor(launch.mask), epilogue.mask_function = launch.mask_function;
  epilogue.partial = partial_sums();
  epilogue.channels = plan_.tensors[plan_.summed_tensor(launch)].channels;
  if (launch.sums >= 0) {
    const Activation& activation = plan_.activations[launch.sums];
    epilogue.value = tensor(activation.tensor);
    epilogue.affine = affine(activation.affine);
    epilogue.mean = tables(activation.affine, {}).mean;
    epilogue.function = activation.function;
  }
  return epilogue;
}

template <class S>
kernels::Affine<compute_type<S>> Operands<S>::affine(AffineTableId id) const {
  if (id < 0) return {};
  const kernels::AffineTables<T> of = tables(id, {});
  return {of.scale, of.shift, of.mean, plan_.affines[id].channels};
}

}  // namespace halogen
