// What an evaluation gives to a launch beside its operands: parameters and memory for sums. And fields that are written
// outside of a plan.
#pragma once

#include "halogen/core/prepared.hpp"
#include "halogen/kernels/tiles/row_kernels.hpp"
#include "halogen/plan/launch.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/tensor/sharded.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// The parameters of a launch, in the order of Launch::parameters. A use has either a value or a gradient; the other is
/// null.
template <class T>
struct LaunchParameters {
  const T* value[Launch::most_parameters] = {};
  T* gradient[Launch::most_parameters] = {};
  index_t values[Launch::most_parameters] = {};  ///< how many
  bool is_piece[Launch::most_parameters] = {};  ///< it lies on a field, and has the numbers of this rank's points alone
};

/// Numbers that a launch sums over the ranks which share a sample's points.
struct RankSums {
  Communicator plane;
  TransportBuffer<double> numbers;
};

/// What launches that evaluate expressions of fields are given beside their operands: the type and the mesh of the
/// fields, and what each node keeps from launch to launch.
template <class Image>
struct FieldContext {
  using field_type = Image;
  DeviceMesh<typename Image::mesh_type> mesh;
  detail::Prepared<int> kept{};
};
template <>
struct FieldContext<void> {};

template <class S>
struct StepLosses;

/// What some launches of an evaluation are given that most do not need. Each pointer is null where no launch needs it.
template <class S>
struct LaunchExtras {
  void* fields = nullptr;  ///< a FieldContext
  StepLosses<S>* losses = nullptr;
};

namespace detail {
/// Writes rows, which are computed as in row kernels, to a field of the shape of a stored tensor.
template <class S, class Rows>
void write_field(const execution_space& space, const char* label, const Rows& rows, const TensorView<S>& to,
                 const Layout& layout, const StoredTensor& like) {
  kernels::RowKernel<execution_space, S, Rows> kernel;
  kernel.compute = rows;
  kernel.output.tensor = to;
  kernel.output.channels = like.channels;
  const Interval columns = layout.owned(like.level, 2);
  kernel.output.tiling = {layout.owned(like.level, 1), columns, layout.samples() * layout.planes(like.level),
                          TileSizes::rows, std::max(index_t{1}, columns.size())};
  kernel.launch(space, label);
}
}  // namespace detail

}  // namespace halogen
