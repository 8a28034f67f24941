// Sharded<T, Mesh, Placements...>: a field whose placement is its type; each rank holds its piece, with margins.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "halogen/core/why.hpp"
#include "halogen/tensor/field_shape.hpp"
#include "halogen/tensor/space.hpp"
#include "halogen/tensor/storage_pool.hpp"
#include "halogen/tensor/strided_view.hpp"

namespace halogen {
namespace detail {

template <class T, int Rank>
struct add_pointers {
  using type = typename add_pointers<T*, Rank - 1>::type;
};
template <class T>
struct add_pointers<T, 0> {
  using type = T;
};

/// Throws CollectiveError: all ranks run the same program. `user`: the function that was given the field.
[[noreturn]] inline void refuse_unmade(const char* user) {
  throw CollectiveError(std::string(user) +
                        " is given a field that was never made: give the field a mesh and extents, or assign an "
                        "expression or another field to it, before it is used");
}

/// Shared by all copies of one Sharded, so that a margin grown once has grown for all.
template <class T, class MeshType, int Rank>
struct Storage {
  using View = Kokkos::View<typename add_pointers<T, Rank>::type, Kokkos::LayoutRight, memory_space>;
  std::shared_ptr<const Shape<MeshType, Rank>> shape;
  View view;
  std::array<Margin, Rank> margins{};
  int growths = 0;          ///< how often the margin has grown
  bool is_callers = false;  ///< its memory is that of Sharded::over: it is written in place, and never moves

  ~Storage() { end_with_process(view); }
};

}  // namespace detail

/// TensorType = Tensor<T, Extents...>; one placement per mesh dimension. Copies are shallow; clone() is deep.
/// Inputs are cut as torch.chunk unless explicit cuts are given. Errors: CollectiveError where a static extent
/// differs from the run's, or a cut has not the mesh's number of pieces, before anything is allocated.
template <class TensorType, class MeshType, Placement... Placements>
class Sharded {
  static_assert(sizeof...(Placements) == MeshType::rank, "Sharded takes one placement per mesh dimension");
  static_assert(((placement_code<Placements> < TensorType::rank) && ...), "Shard<Dim> names a dimension of the tensor");

 public:
  using tensor_type = TensorType;
  using mesh_type = MeshType;
  using value_type = typename TensorType::value_type;
  static constexpr int rank = TensorType::rank;
  static constexpr std::array<int, MeshType::rank> placements{placement_code<Placements>...};
  using Shape = detail::Shape<MeshType, rank>;
  using Storage = detail::Storage<value_type, MeshType, rank>;
  using Extents = std::array<index_t, rank>;

  /// Empty; assign another to it, or an expression. Any other use throws a CollectiveError that names the function
  /// which the field was given to. A function that takes fields passes its name to what it asks first, as `user`.
  Sharded() = default;

  /// Zeros of the given global extents, cut as torch.chunk.
  Sharded(const DeviceMesh<MeshType>& mesh, const Extents& extents) : Sharded(mesh, chunked(mesh, extents)) {}

  /// What a new field holds: zeros, or whatever, where all its points are about to be written.
  enum class Start { zeros, unwritten };

  /// Explicit cuts, one per tensor dimension.
  Sharded(const DeviceMesh<MeshType>& mesh, std::array<Cut, rank> cuts, Start start = Start::zeros)
      : Sharded(make_shape(mesh, std::move(cuts), detail::Origin::given), start) {}

  /// Throws CollectiveError where the cuts fit neither the mesh nor the type. Cuts that do not follow from another
  /// field's are `given`: ranks compare them before they first communicate about the field.
  static std::shared_ptr<const Shape> make_shape(const DeviceMesh<MeshType>& mesh, std::array<Cut, rank> cuts,
                                                 detail::Origin origin = detail::Origin::derived) {
    auto shape = std::make_shared<const Shape>(mesh, std::move(cuts), placements, TensorType::extents, origin);
    shape->check_bytes(sizeof(value_type));
    return shape;
  }

  /// Placed and cut exactly as `shape`, another field's shape().
  explicit Sharded(std::shared_ptr<const Shape> shape, Start start = Start::zeros) : shape_(std::move(shape)) {
    made("Sharded").check_extents(TensorType::extents);
    shape_->check_bytes(sizeof(value_type));
    storage_ = take_buffer();
    if (start == Start::zeros) set_zero(storage_->view);
  }

  using Margins = std::array<detail::Margin, rank>;

  /// A field over the caller's own array, which must live longer than any copy of the field. `memory`: the array's
  /// first value, in memory_space. margins[d]: how many points of dimension d the array has before and behind the owned
  /// ones (ghost cells, padding); the last dimension varies fastest. All cuts and margins are those of all ranks:
  /// collective, one agreement. Nothing is copied: the field reads what the caller writes, `field = expression` and
  /// assign() write the caller's array, halo exchanges its ghost cells. A margin that is narrower than a reader needs
  /// is refused there, by all ranks: field.clone() has a memory of its own. Throws CollectiveError where a rank gives
  /// no memory for its points or memory that kernels cannot reach, and where margins are negative or differ between
  /// ranks.
  ///
  ///   auto u = Field::over(mesh, {Cut::of_sizes(rows), Cut::of_sizes(columns)}, array, {{{2, 2}, {2, 2}}});
  static Sharded over(const DeviceMesh<MeshType>& mesh, std::array<Cut, rank> cuts, value_type* memory,
                      const Margins& margins);

  /// The same where the shape is another field's, or derived, and margins are alike on all ranks. Emits nothing.
  static Sharded over(std::shared_ptr<const Shape> shape, value_type* memory, const Margins& margins) {
    Sharded field = over_copied(std::move(shape), memory, margins);
    field.storage_->is_callers = true;
    return field;
  }

  /// The same for memory that is only read: where a reader needs a wider margin, the field moves into memory of its
  /// own.
  static Sharded over_copied(std::shared_ptr<const Shape> shape, value_type* memory, const Margins& margins) {
    Sharded field;
    field.shape_ = std::move(shape);
    field.storage_ = std::make_shared<Storage>();
    field.storage_->shape = field.shape_;
    field.storage_->margins = margins;
    field.storage_->view = [&]<std::size_t... D>(std::index_sequence<D...>) {
      return typename Storage::View(memory, (margins[D].lo + field.local_extent(D) + margins[D].hi)...);
    }(std::make_index_sequence<rank>{});
    return field;
  }

  const DeviceMesh<MeshType>& mesh(const char* user = "mesh") const { return made(user).mesh(); }
  const Decomposition& decomposition(const char* user = "decomposition") const { return made(user).decomposition(); }
  const std::shared_ptr<const Shape>& shape(const char* user = "shape") const {
    made(user);
    return shape_;
  }

  const Cut& cut(int d, const char* user = "cut") const { return made(user).cut(d); }
  index_t extent(int d, const char* user = "extent") const { return made(user).extent(d); }
  Interval owned(int d, const char* user = "owned") const { return made(user).owned(d); }
  /// Global index of this rank's first point.
  index_t offset(int d, const char* user = "offset") const { return owned(d, user).begin; }
  index_t local_extent(int d, const char* user = "local_extent") const { return owned(d, user).size(); }
  Extents local_shape(const char* user = "local_shape") const {
    Extents shape{};
    for (int d = 0; d < rank; ++d) shape[d] = local_extent(d, user);
    return shape;
  }

  /// The owned points as a strided Kokkos view: no copy, no margin. Take it anew after the field was first read by a
  /// network or a shift, which may have grown its margin once, and after an assignment, which rebinds.
  auto to_local(const char* user = "to_local") const {
    made(user);
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return Kokkos::subview(storage_->view, std::pair<index_t, index_t>(storage_->margins[D].lo,
                                                                         storage_->margins[D].lo + local_extent(D))...);
    }(std::make_index_sequence<rank>{});
  }

  /// The owned points on the host, row-major.
  std::vector<value_type> to_host() const { return detail::as_vector(to_host_array("to_host")); }
  /// The same, one behind the other in memory where the values are bool as well.
  detail::HostArray<value_type> to_host_array(const char* user = "to_host_array") const {
    auto local = to_local(user);
    auto packed = contiguous();
    copy(packed, local);
    return host_copy(packed);
  }

  /// Overwrites the owned points, through all copies, from `count` row-major host values.
  void copy_from_host(const value_type* values, std::size_t count) {
    made("copy_from_host");
    auto packed = contiguous();
    if (count != packed.size())
      throw Error("this rank's piece has " + std::to_string(packed.size()) + " points, but " + std::to_string(count) +
                  " were given: pass the owned points, row-major");
    copy_to_view(packed, std::span(values, count));
    copy(to_local(), packed);
  }
  void copy_from_host(const std::vector<value_type>& values) {
    const auto& array = detail::as_array(values);
    copy_from_host(array.data(), array.size());
  }

  Sharded clone() const {
    Sharded result(shape("clone"), Start::unwritten);
    copy(result.to_local(), to_local());
    return result;
  }

  /// A field of the expression's shape and values.
  template <class E>
    requires requires { typename E::expression_tag; }
  Sharded(const E& expression) {  // NOLINT: implicit, as Field v = u + 1
    evaluate_into(*this, expression);
  }

  /// Rebinds to a buffer with the expression's values; older copies of this field keep theirs
  /// (array/evaluate/assign.hpp).
  template <class E>
    requires requires { typename E::expression_tag; }
  Sharded& operator=(const E& expression) {
    evaluate_into(*this, expression);
    return *this;
  }

  /// A buffer of this shape for new values, one that nobody holds any more where there is one: stepping allocates
  /// nothing.
  std::shared_ptr<Storage> take_buffer(const char* user = "take_buffer") const {
    if (std::shared_ptr<Storage> free = detail::StoragePool<Storage>::take(made(user))) {
      free->growths = 0;
      return free;
    }
    auto made = std::make_shared<Storage>();
    made->shape = shape_;
    made->view = allocate(made->margins);
    detail::StoragePool<Storage>::keep(made);
    return made;
  }

  /// This field's values are now `buffer`'s.
  void rebind(std::shared_ptr<Storage> buffer) { storage_ = std::move(buffer); }

  /// Global cuts, one per tensor dimension.
  const std::array<Cut, rank>& cuts(const char* user = "cuts") const { return made(user).cuts(); }
  bool empty() const { return storage_ == nullptr; }

  /// Makes room beside the owned points, once; copies follow. Values are kept, those in the margins too. Throws
  /// CollectiveError where the memory is the caller's (over).
  void reserve_margin(const Margins& needed) const {
    made("reserve_margin");
    std::array<detail::Margin, rank> margins = storage_->margins;
    bool grows = false;
    for (int d = 0; d < rank; ++d) {
      grows |= needed[d].lo > margins[d].lo || needed[d].hi > margins[d].hi;
      margins[d] = {std::max(needed[d].lo, margins[d].lo), std::max(needed[d].hi, margins[d].hi)};
    }
    if (!grows) return;
    if (storage_->is_callers) refuse_margin(needed);
    const auto old = storage_->view;
    const auto before = storage_->margins;
    storage_->view = allocate(margins);
    set_zero(storage_->view);
    storage_->margins = margins;
    ++storage_->growths;
    [&]<std::size_t... D>(std::index_sequence<D...>) {
      const auto kept = Kokkos::subview(
          storage_->view,
          std::pair<index_t, index_t>(margins[D].lo - before[D].lo, margins[D].lo + local_extent(D) + before[D].hi)...);
      copy(kept, old);
    }(std::make_index_sequence<rank>{});
  }
  /// Whether its values lie in an array of the caller's (over).
  bool is_over() const { return storage_ != nullptr && storage_->is_callers; }
  int margin_growths() const { return storage("margin_growths").growths; }

  Storage& storage(const char* user = "storage") const {
    made(user);
    return *storage_;
  }

 private:
  /// Where the pieces lie: what every use of a field asks for first.
  const Shape& made(const char* user) const {
    if (shape_ == nullptr) detail::refuse_unmade(user);
    return *shape_;
  }
  [[noreturn]] void refuse_margin(const Margins& needed) const {
    const auto text = [](const Margins& margins) {
      std::string list;
      for (const detail::Margin& one : margins)
        list += (list.empty() ? "" : " x ") + std::to_string(one.lo) + "+" + std::to_string(one.hi);
      return "(" + list + ")";
    };
    throw CollectiveError("a field over the caller's array has margins of " + text(storage_->margins) +
                          " points (before+behind, by dimension), but a reader needs " + text(needed) +
                          ": give the array that many ghost cells, or read field.clone()");
  }
  /// As Kokkos::deep_copy: whatever ran before is over, and so is this when it returns.
  template <class To, class From>
  static void copy(const To& to, const From& from) {
    Kokkos::fence("halogen::copy");
    const execution_space space;
    copy_points(space, to, from);
    space.fence("halogen::copy");
  }
  static void set_zero(const typename Storage::View& view) {
    Kokkos::deep_copy(Kokkos::View<value_type*, memory_space, Kokkos::MemoryUnmanaged>(view.data(), view.size()),
                      value_type(0));
  }

  static std::array<Cut, rank> chunked(const DeviceMesh<MeshType>& mesh, const Extents& extents) {
    const Decomposition pieces(mesh.extents(), placements, MeshType::names);
    detail::check_extents_of_field(extents, sizeof(value_type));
    std::array<Cut, rank> cuts;
    for (int d = 0; d < rank; ++d) cuts[d] = Cut::chunk(extents[d], pieces.parts(d));
    return cuts;
  }

  /// A buffer that nothing has touched yet.
  typename Storage::View allocate(const std::array<detail::Margin, rank>& margins) const {
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      const std::array<index_t, rank> extents{(margins[D].lo + local_extent(D) + margins[D].hi)...};
      const std::size_t bytes = (sizeof(value_type) * ... * static_cast<std::size_t>(extents[D]));
      auto view = allocated(bytes, "points of a field", "use more ranks or a smaller field", [&] {
        const auto properties = Kokkos::view_alloc("halogen::field", Kokkos::WithoutInitializing);
        return typename Storage::View(properties, extents[D]...);
      });
      advise_huge_pages(view.data(), bytes);
      return view;
    }(std::make_index_sequence<rank>{});
  }

  typename Storage::View contiguous() const {
    detail::require_environment();
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return
          typename Storage::View(Kokkos::view_alloc("halogen::owned", Kokkos::WithoutInitializing), local_extent(D)...);
    }(std::make_index_sequence<rank>{});
  }

  std::shared_ptr<const Shape> shape_;
  std::shared_ptr<Storage> storage_;
};

template <class X>
inline constexpr bool is_sharded = false;
template <class TensorType, class MeshType, class... Placements>
inline constexpr bool is_sharded<Sharded<TensorType, MeshType, Placements...>> = true;

namespace detail {
/// The first mesh dimension that holds summands; -1 for none, and for what is no field.
template <class Field>
constexpr int first_partial() {
  if constexpr (is_sharded<Field>)
    for (std::size_t i = 0; i < Field::placements.size(); ++i)
      if (Field::placements[i] == partial_code) return static_cast<int>(i);
  return -1;
}

/// Says so where a field has no values: summands that are still due are none.
template <class Field>
  requires(first_partial<Field>() < 0)
constexpr void require_values() {}
template <class Field, class Why = why::input_is_partial<first_partial<Field>()>>
  requires(first_partial<Field>() >= 0)
constexpr void require_values() = delete;  // write redistribute<...>(field)

/// An expression, which holds no values until it is assigned to a field.
template <class X>
concept Unstored = requires { typename X::expression_tag; };

/// Throws CollectiveError, naming the function, where one of its operands is a field that was never made.
template <class... X>
void require_made(const char* user, const X&... operands) {
  const auto look = [user]<class One>(const One& one) {
    if constexpr (is_sharded<One>) one.mesh(user);
  };
  (look(operands), ...);
}
}  // namespace detail

}  // namespace halogen
