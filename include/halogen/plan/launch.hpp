// A launch of a plan: its kind, the operands that it reads, the tensor that it writes and the sums that it gathers. A
// kind is identified by the address of an object that belongs to the launch type, so that anybody can add one.
#pragma once

#include <string>

#include "halogen/core/nonlinearity.hpp"
#include "halogen/core/type_of.hpp"
#include "halogen/plan/ids.hpp"
#include "halogen/plan/pattern.hpp"

namespace halogen {

/// A stored tensor as a reader sees it: scaled and shifted by `affine` and put through `function` if these are set, and
/// resampled to the reader's level if its own level differs. None of these results is written to memory.
struct Source {
  TensorId tensor;
  AffineTableId affine;
  Nonlinearity function;
  bool resampled = false;
  int channels = 0;
  bool linear = false;                 ///< resampled by linear interpolation, not to the nearest point
  Edge pads[spatial_dimensions] = {};  ///< if not zero: resampled to a field that a pad has made wider
  int more[spatial_dimensions] = {};   ///< for pads: how many points the end has more than the beginning

  constexpr bool is_padded() const {
    return std::ranges::any_of(pads, [](Edge edge) { return edge != Edge::zero; });
  }
  constexpr bool operator==(const Source&) const = default;
};

/// A value of the network: sources side by side along the channels. A concatenation is a value of several sources.
struct Value {
  StaticVector<Source, 4> sources;
  int level = 0;

  /// Whether the value is one stored tensor as it was written.
  constexpr bool is_raw() const {
    const Source& source = sources[0];
    return sources.size() == 1 && source.affine < 0 && !source.function && !source.resampled;
  }
  constexpr int channels() const { return channels_before(sources.size()); }
  constexpr int channels_before(int source) const {
    int sum = 0;
    for (int i = 0; i < source; ++i) sum += sources[i].channels;
    return sum;
  }
  constexpr bool operator==(const Value&) const = default;
};

/// One thing that a launch reads, with the pattern of the points.
struct Read {
  enum class Role : signed char {
    value,     ///< a value of Plan::values
    source,    ///< the one source of Launch::input that a backward launch differentiates
    gradient,  ///< the gradient of an activation of Plan::activations
    tensor     ///< a tensor of Plan::tensors, as it was written
  };
  Role role = Role::source;
  Pattern pattern;
  int halo_from = 0;  ///< beyond its own piece it reads the channels from this one on

  constexpr Read() = default;
  constexpr Read(ValueId value, Pattern of) : role(Role::value), pattern(of), number_(value.number) {}
  constexpr Read(ActivationId gradient, Pattern of) : role(Role::gradient), pattern(of), number_(gradient.number) {}
  constexpr Read(TensorId tensor, Pattern of) : role(Role::tensor), pattern(of), number_(tensor.number) {}
  static constexpr Read source(Pattern of) {
    Read read;
    read.pattern = of;
    return read;
  }

  constexpr Read with_halo_from(int channel) const {
    Read read = *this;
    read.halo_from = channel;
    return read;
  }

  /// The same of another value or tensor.
  constexpr Read of(ValueId value) const { return with_number(value.number); }
  constexpr Read of(TensorId tensor) const { return with_number(tensor.number); }

  /// What is read. Only the function of its role returns an id; the others return none.
  constexpr ValueId value() const { return ValueId(role == Role::value ? number_ : -1); }
  constexpr ActivationId gradient() const { return ActivationId(role == Role::gradient ? number_ : -1); }
  constexpr TensorId tensor() const { return TensorId(role == Role::tensor ? number_ : -1); }

 private:
  constexpr Read with_number(int number) const {
    Read read = *this;
    read.number_ = number;
    return read;
  }

  int number_ = -1;
};

/// A parameter tensor that a launch reads, or whose gradient it writes or adds to. `parameter` is an index of
/// Graph::parameters.
struct ParameterUse {
  int parameter = -1;
  bool gradient = false;
};

/// The few numbers on which the type of a launch's kernel depends. Launches of one kind and one form are one compiled
/// function.
struct Form {
  int number[6] = {};
  const char* map = nullptr;  ///< the functor of a map that it computes as it reads rows, by its address (PointMap)
  constexpr bool operator==(const Form&) const = default;
};

struct Plan;
struct LaunchPlace;
struct WorkspaceUse;
struct TrafficUse;
class Layout;
struct Launch;
namespace kernels {
struct Tiling;
}

/// What a launch type says about itself, for code that does not know the type. A launch type is a struct with
///
///   static constexpr const char* label            the name of its kernel
///
/// and one of these four functions. The first three are templates of <class S, Form F>, the last one of <class S, class
/// Context>:
///
///   static auto rows(at)       returns a functor that computes points, or rows of them (kernels/tiles/row_kernels.hpp)
///
///   static auto point(at)      returns one that computes all channels of a point from all channels of the same point
///                              (kernels/tiles/point_kernel.hpp)
///
///   static void run(at)        runs any kernels (run/at.hpp)
///
///   static void evaluate(at, context)    evaluates expressions of fields; context is a FieldContext
///                              (run/launch_parts.hpp)
///
/// `at` is a const LaunchAt<S>&. What these functions and their kernels may read, and when:
///
///   What: the operands and parameters that the launch lists (Launch::reads, parameters), each as what it is listed as,
///   at the points that its pattern names. Another operand or parameter is refused by a CollectiveError on all ranks,
///   before a kernel of the launch runs (run/launch_operands.hpp). A point outside of the pattern is not checked:
///   its number is that of an old step, or none.
///
///   rows, point: they are called before the halos have arrived, and only make a functor. Kernels that they run
///   themselves, such as sums, read this rank's own points alone, or wait (LaunchAt::wait_for_halos). The functor runs
///   on the tiles that need no halo, then on the others.
///
///   run: LaunchAt's functions that run kernels wait by themselves, but not write_vectors and write_field. Before a
///   kernel of its own that reads a halo, it calls wait_for_halos. If it has not waited, the launch is refused by an
///   Error on the ranks that have a halo.
///
///   evaluate: it calls hand_over before fields are read, because expressions send messages of their own. If it has not
///   waited: as run.
///
/// It may also have these members:
///
///   name, suffix               its name in explain: name, or the operation's name and suffix
///
///   Form form(node, input, source)             the numbers on which its kernel's type depends
///
///   array<int, 3> grid(node, input, source)    how many points of each dimension it computes together
///
///   bool adds_as_rows_leave    it can add a tensor to the rows that it writes (Launch::addend), even where its output
///                              is that of a layer
///
///   bool common_output = false    it does not write through LaunchAt::over_tiles, over_rows or over_points, so it has
///                              no mask and gathers no sums
///
///   void check(node, dimension, input, output)    throws CollectiveError if the extents do not suit it
///
///   tiling, workspace          the memory that it needs in addition to stored tensors (run/launch_place.hpp)
///
///   const char* remark(form)   words that explain adds at the end of its line
///
///   std::string words(layout, launch)    the same, if they depend on the mesh
///
///   TrafficUse traffic(layout, launch)    what this rank sends in it in addition to halos, for dry runs
///
///   index_t memory(layout, launch)    bytes that it allocates itself and keeps for launches like it, for dry runs
///
///   bool talks = true          it sends messages itself: sum_over_ranks, fetch, hand_over. So what it writes is kept, and
///                              not computed again in the backward pass (plan/recompute.hpp). A type with `traffic` need
///                              not say it
struct LaunchKind {
  const char *name = "", *suffix = "";
  const char* type = nullptr;  ///< core/type_of.hpp
  Form (*form)(const Node&, const Value& input, int source) = no_form;
  std::array<int, 3> (*grid)(const Node&, const Value& input, int source) = each_point;
  void (*check)(const Node&, int dimension, index_t input, index_t output) = nullptr;
  kernels::Tiling (*tiling)(const LaunchPlace&) = nullptr;
  WorkspaceUse (*workspace)(const LaunchPlace&, const kernels::Tiling&) = nullptr;
  const char* (*remark)(const Form&) = nullptr;
  std::string (*words)(const Layout&, const Launch&) = nullptr;
  TrafficUse (*traffic)(const Layout&, const Launch&) = nullptr;
  index_t (*memory)(const Layout&, const Launch&) = nullptr;
  bool adds_as_rows_leave = false, common_output = true, talks = false;

  template <class L>
  static constexpr LaunchKind of() {
    LaunchKind kind;
    kind.type = detail::address_of_type<L>;
    if constexpr (requires { L::name; }) kind.name = L::name;
    if constexpr (requires { L::suffix; }) kind.suffix = L::suffix;
    if constexpr (requires { L::form; }) kind.form = L::form;
    if constexpr (requires { L::grid; }) kind.grid = L::grid;
    if constexpr (requires { L::check; }) kind.check = L::check;
    if constexpr (requires { L::tiling; }) kind.tiling = L::tiling;
    if constexpr (requires { L::workspace; }) kind.workspace = L::workspace;
    if constexpr (requires { L::remark; }) kind.remark = L::remark;
    if constexpr (requires { L::words; }) kind.words = L::words;
    if constexpr (requires { L::traffic; }) kind.traffic = L::traffic;
    if constexpr (requires { L::memory; }) kind.memory = L::memory;
    if constexpr (requires { L::adds_as_rows_leave; }) kind.adds_as_rows_leave = L::adds_as_rows_leave;
    if constexpr (requires { L::common_output; }) kind.common_output = L::common_output;
    kind.talks = kind.traffic != nullptr;
    if constexpr (requires { L::talks; }) kind.talks = L::talks;
    return kind;
  }

 private:
  static constexpr Form no_form(const Node&, const Value&, int) { return {}; }
  static constexpr std::array<int, 3> each_point(const Node&, const Value&, int) { return {1, 1, 1}; }
};

namespace detail {
template <class L>
struct KindOf {
  static constexpr LaunchKind kind = LaunchKind::of<L>();
};
}  // namespace detail

/// The address that identifies the launch type L in plans.
template <class L>
constexpr const LaunchKind* kind_of() {
  return &detail::KindOf<L>::kind;
}

struct Launch {
  static constexpr int most_reads = 7, most_parameters = 8;

  const LaunchKind* kind = nullptr;
  Form form;
  int grid[spatial_dimensions] = {1, 1, 1};  ///< points computed together, in blocks at multiples on the global grid
  int node = -1;
  int level = -1;   ///< level of the points that it computes
  ValueId input;    ///< what its node reads forward, if the launch has an input
  int source = -1;  ///< which source of the input a backward launch differentiates
  StaticVector<Read, most_reads> reads;
  StaticVector<ParameterUse, most_parameters> parameters;
  int map_use = -1;  ///< where the parameters of the map that it computes begin in `parameters`
  TensorId output;   ///< the stored tensor that it writes
  TensorId kept;     ///< a second one, for backward launches of its node (PlanForward::keep)
  bool accumulate = false;
  TensorId addend;             ///< if it accumulates: the stored tensor that it adds to, unless that is its output
  TensorId mask;               ///< a stored tensor x: the output is multiplied by f'(x) (vjp of an activation layer)
  Nonlinearity mask_function;  ///< f
  AffineTableId statistics;    ///< the affine whose moments it gathers: of its output or, without one, of what it reads
  ActivationId sums;  ///< the activation whose gradient is complete with it, and whose affine's sums it gathers
  int stage = 0;
  int origin = -1;  ///< a forward launch that runs again in the backward pass: the index of the first run

  template <class L>
  constexpr bool is() const {
    return kind == kind_of<L>();
  }
  constexpr Launch& read(const Read& operand) { return reads.push(operand), *this; }
  constexpr Launch& use(int parameter) { return parameters.push({parameter, false}), *this; }
  constexpr Launch& sum_gradient_of(int parameter) { return parameters.push({parameter, true}), *this; }
};

}  // namespace halogen
