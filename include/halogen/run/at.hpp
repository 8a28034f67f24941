// What a launch type sees of one launch while it runs: what it reads (run/launch_operands.hpp), its output, and
// functions that run kernels while halos arrive.
#pragma once

#include "halogen/kernels/sums/channel_sums.hpp"
#include "halogen/kernels/sums/maps_and_vectors.hpp"
#include "halogen/kernels/sums/merge.hpp"
#include "halogen/kernels/tiles/point_kernel.hpp"
#include "halogen/kernels/tiles/row_kernels.hpp"
#include "halogen/run/fetched_boxes.hpp"
#include "halogen/run/halo_schedule.hpp"
#include "halogen/run/launch_operands.hpp"
#include "halogen/run/sum_launches.hpp"
#include "halogen/tensor/rank_sums.hpp"

namespace halogen {

/// One launch of a plan on this rank. S is the value type of stored tensors. T = compute_type<S> is the type of
/// parameters and of all computations. The object refers to the parts of an evaluation.
template <class S>
class LaunchAt : public LaunchOperands<S> {
  using Base = LaunchOperands<S>;
  using Base::index_, Base::layout_, Base::operands_, Base::plan_, Base::space_;

 public:
  using Space = execution_space;
  using T = compute_type<S>;
  using Base::launch, Base::node, Base::place, Base::windowed_value;

  LaunchAt(const Space& space, const Plan& plan, const Layout& layout, const Operands<S>& operands,
           detail::HaloSchedule<S>& halos, const RankSums& sums, FetchedBoxes<S>& fetched, int index,
           const LaunchParameters<T>& parameters, const RandomStream& random = {}, const LaunchExtras<S>& extras = {})
      : Base(space, plan, layout, operands, index, parameters, random),
        halos_(halos),
        sums_(sums),
        fetched_(fetched),
        extras_(extras) {}

  /// For evaluate(): what the evaluation's launches share that evaluate expressions of fields.
  template <class Image>
  FieldContext<Image>& fields() const {
    return *static_cast<FieldContext<Image>*>(extras_.fields);
  }
  /// For a loss: the losses of the step.
  StepLosses<S>& losses() const { return *extras_.losses; }

  /// A value as the node's windows read it, for an operation that can compute maps from the rows that it reads
  /// (Operation::reads_maps). The reader has another type if the form names a functor.
  template <Form F>
  auto windowed_value(int operand) const {
    if constexpr (F.map == nullptr)
      return windowed_value(operand);
    else
      return detail::type_of_address<F.map>::reader(*this, mapped_inputs(operand), launch().map_use, &node());
  }

  /// Call this before kernels and messages of the array language run. Afterwards the halos that the launch reads are
  /// there, and all messages that are due are on their way.
  void hand_over() const {
    detail::expect_first_run(plan_, launch(), "hand_over");
    halos_.await(space_, index_);
    halos_.send();
  }

  // -- memory of the launch, as large as its workspace() asks ------------------------------------------------------
  T* prepared() const { return operands_.template workspace<T>(layout_.workspace().prepared); }
  template <class V = double>
  V* partials() const {
    return operands_.template workspace<V>(layout_.workspace().partials);
  }

  // -- kernels --------------------------------------------------------------------------------------------------------
  const kernels::Tiling& tiling() const { return layout_.workspace().tiling(index_); }
  /// How many blocks of tiles there are (WorkspaceUse::blocks).
  int blocks() const { return layout_.workspace().use(index_).blocks; }

  /// Runs a kernel over the tiles of the output. Tiles that need no halo under way come first. The kernel writes
  /// through its member `output` (kernels/tiles/tile_output.hpp).
  template <class Kernel>
  void over_tiles(const char* label, Kernel& kernel) const {
    kernel.output = own_output();
    // Captures are named in lambdas of members of the base: else g++ and clang++, which may be linked together, keep
    // them in different orders.
    halos_.run(space_, index_, [this, &kernel, label](const kernels::Tiling& tiling) {
      kernel.output.tiling = tiling;
      kernel.launch(space_, label);
    });
  }
  /// Gathers Launch::statistics or Launch::sums from a tensor that is already written.
  void gather_sums(const char* label) const {
    kernels::MomentsKernel<execution_space, S> kernel{operands_.sums(launch())};
    halos_.run(space_, index_, [this, &kernel, label](const kernels::Tiling& tiling) {
      kernel.sums.tiling = tiling;
      kernel.launch(space_, label);
    });
  }
  /// Computes each row from rows (kernels/tiles/row_kernels.hpp), or all channels of a point
  /// (kernels/tiles/point_kernel.hpp).
  template <class Rows>
  void over_rows(const char* label, const Rows& rows) const {
    kernels::RowKernel<execution_space, S, Rows> kernel;
    kernel.compute = rows;
    over_tiles(label, kernel);
  }
  template <class Point>
  void over_points(const char* label, const Point& point) const {
    kernels::PointKernel<execution_space, S, Point> kernel;
    kernel.point = point;
    over_tiles(label, kernel);
  }

  /// Runs a kernel that sums over the tiles in blocks, and then adds the sums of the blocks. The kernel has
  /// partial_size() numbers for each block, and the first `size` of them are wanted.
  template <class Kernel>
  void over_blocks(const char* label, Kernel& kernel, T* sums, index_t size) const {
    kernel.tiling = tiling();
    kernel.blocks = blocks();
    kernel.partial = partials_for(kernel.partial_size() * kernel.blocks);
    halos_.run_blocks(space_, index_, kernel.blocks, [this, &kernel, label](index_t begin, index_t end) {
      kernel.first_block = static_cast<int>(begin), kernel.last_block = static_cast<int>(end);
      kernel.launch(space_, label);
    });
    add_blocks(kernel.partial, kernel.partial_size(), kernel.blocks, size, sums);
  }

  /// sums[n] = the sum of a * b over this rank's points of sample n and the node's channels. The readers a and b read
  /// point by point. For launch types that derive from SampleSumLaunch.
  template <class A, class B>
  void sum_samples(const A& a, const B& b, double* sums) const {
    const int channels = node().channels;
    const index_t all = sum_blocks("halogen::sample_sums", kernels::ProductReader<A, B>{a, b}, channels) * channels;
    kernels::sum_arrays(space_, "halogen::sample_sums", partials(), all, sums, layout_.samples());
  }

  /// rank_sums()[n, c] = the sum of what `reader` reads of each channel of the output, over all points of sample n,
  /// also those of other ranks. For launch types that derive from VectorSumLaunch.
  template <class Reader>
  void sum_points(const char* label, const Reader& reader) const {
    wait_for_halos();
    const int channels = plan_.tensors[launch().output].channels;
    const index_t blocks = sum_blocks(label, reader, channels), sums = index_t{layout_.samples()} * channels;
    launch_range(space_, label, sums,
                 kernels::Merge<double>{partials(), channels, blocks, rank_sums(), {channels, blocks * channels}});
    sum_over_ranks(sums);
  }
  /// Writes the output, a vector for each sample. `rows` is as for row kernels; all its points are (0, 0).
  template <class Rows>
  void write_vectors(const char* label, const Rows& rows) const {
    kernels::RowKernel<execution_space, S, Rows> kernel;
    kernel.compute = rows;
    kernel.output = operands_.output(launch());
    wrote_ = layout_.level(launch().level).whole ? Wrote::sums : Wrote::values;  // of these tiles nobody joins sums
    kernel.output.tiling = {{0, 1}, {0, 1}, layout_.samples(), 1, 1};
    kernel.launch(space_, label);
  }

  // -- sums over ranks: a barrier ------------------------------------------------------------------------------------
  /// Numbers that kernels write and read, WorkspaceUse::rank_sums of them.
  double* rank_sums() const { return sums_.numbers.data(); }
  /// Whether a sum over all ranks counts what this rank has of a level. Points count on every rank. Vectors are equal
  /// on several ranks and count on one.
  bool counts_points_of(int level) const { return !layout_.level(level).whole || sums_.plane.rank() == 0; }

  /// Sums the first `count` of them over all ranks that share a sample's points, or takes the largest or the smallest
  /// of each. This is one all_reduce. It does nothing if one rank has all points.
  void sum_over_ranks(index_t count, ReduceOp op = ReduceOp::sum) const {
    detail::expect_first_run(plan_, launch(), "sum_over_ranks");
    const index_t most = layout_.workspace().use(index_).rank_sums;
    if (count > most) detail::refuse_rank_sums(plan_, launch(), count, most);
    if (sums_.plane.size() == 1 || layout_.level(launch().level).whole) return;  // vectors: all ranks have the sums
    halos_.send();
    halogen::sum_over_ranks(space_, sums_.plane, "halogen::rank_sums", rank_sums(), count, op);
  }

  // -- an exchange of the launch's own -------------------------------------------------------------------------------
  /// Brings a box of an operand from the ranks that own its points, with all channels and this rank's samples. A rank
  /// that computes the points `box` wants the points wanted(box). Both are a SpaceBox, and the function is the same on
  /// all ranks. Points outside of the field are 0. The operand is one stored tensor: Planner::read_field, result,
  /// tensor, or a gradient that Planner::unmasked returned. Collective over the mesh. The box is valid until the launch
  /// runs again.
  template <class Wanted>
  TensorView<S> fetch(int operand, const Wanted& wanted) const {
    detail::expect_first_run(plan_, launch(), "fetch");
    hand_over();
    const TensorId tensor = stored_operand(plan_, launch(), operand);
    return fetched_.fetch(space_, layout_, index_, operand, plan_.tensors[tensor], operands_.strided(tensor), wanted);
  }

  /// Waits for the halos that the launch reads. Call this before a kernel that none of these functions runs.
  void wait_for_halos() const { halos_.await(space_, index_); }

  /// Sums what `reader` reads over the points of `tiles`, for each of the node's channels. This gives the gradient of a
  /// parameter. For launch types that derive from ChannelSumLaunch, or have memory for TileSizes::blocks(tiles) such
  /// sums.
  template <class Reader, class Result>
  void sum_channels(const char* label, const Reader& reader, const kernels::Tiling& tiles, Result* to) const {
    wait_for_halos();
    const int count = TileSizes::blocks(tiles), channels = node().channels;
    kernels::ChannelSums<Space, Reader> sums{reader, channels, tiles, count, partials_for(index_t{count} * channels)};
    sums.launch(space_, label);
    add_blocks(partials(), channels, count, channels, to);
  }

  /// Adds the sums of the blocks. Each block has `stride` numbers, and the first `size` of them are wanted.
  template <class Partial, class Result>
  void add_blocks(const Partial* partial, index_t stride, index_t blocks, index_t size, Result* to,
                  kernels::Groups places = {}) const {
    launch_range(space_, "halogen::reduce_weight_gradient", size,
                 kernels::Merge<Result, Partial>{partial, stride, blocks, to, {}, places});
  }

  /// Writes rows to a field of the shape of a stored tensor.
  template <class Rows>
  void write_field(const char* label, const Rows& rows, const TensorView<S>& to, const StoredTensor& like) const {
    detail::write_field(space_, label, rows, to, layout_, like);
  }

  /// Called after a launch that runs kernels of its own. Throws if the plan wants the output added, masked or summed,
  /// and none of these functions wrote it, or if the launch reads a halo for which it has not waited.
  void expect_contract() const {
    detail::check_output(plan_, launch(), wrote_ != Wrote::nothing, wrote_ == Wrote::sums);
    if (!halos_.is_awaited_by(index_)) return;
    wait_for_halos();  // so that no message is left behind
    detail::refuse_early_kernel(plan_, launch());
  }

 private:
  kernels::TileOutput<S> own_output() const {
    wrote_ = Wrote::sums;
    return operands_.output(launch());
  }

  /// Memory for so many sums of blocks.
  double* partials_for(index_t count) const {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
    const std::size_t most = layout_.workspace().use(index_).partials;
    if (bytes > most) detail::refuse_partials(plan_, launch(), bytes, most);
    return partials();
  }

  /// Sums what `reader` reads over this rank's points: partials()[sample, block, channel]. Returns how many blocks a
  /// sample has.
  template <class Reader>
  int sum_blocks(const char* label, const Reader& reader, int channels) const {
    const kernels::Tiling tiles = TileSizes::of_sums(place());
    const int blocks = TileSizes::sample_blocks(tiles, layout_.samples()), count = blocks * layout_.samples();
    kernels::ChannelSums<Space, Reader> sums{reader, channels, tiles, count, partials_for(index_t{count} * channels)};
    sums.launch(space_, label);
    return blocks;
  }

  /// The values from which a map is computed.
  std::array<ValueId, 3> mapped_inputs(int operand) const {
    const TensorId tensor = Base::value_of(operand, detail::asked::windowed_value).sources[0].tensor;
    return plan_.maps[plan_.tensors[tensor].map].inputs;
  }

  detail::HaloSchedule<S>& halos_;
  const RankSums& sums_;
  FetchedBoxes<S>& fetched_;
  const LaunchExtras<S> extras_;
  enum class Wrote { nothing, values, sums };
  mutable Wrote wrote_ = Wrote::nothing;  ///< what its functions wrote: the output, and the sums of its tiles
};

}  // namespace halogen
