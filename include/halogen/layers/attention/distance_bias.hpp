// The biases of attention by the distance of two points: a table that a layer learns (RelativeBias), or one that a
// functor gives (DistanceBias). Entries are numbered as attention_numbers.hpp numbers points.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "halogen/array/attention/attention_operands.hpp"
#include "halogen/autograd/rearranged.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/layers/attention/attention_options.hpp"

namespace halogen::detail {

inline constexpr int token_entries = 3;  ///< of a token to points, of points to a token, of a token to a token

/// (1, Heads, 1, entries) of what the functor of a DistanceBias gives. A mesh keeps it.
template <AttentionLayerOptions Options, int Heads, class T>
struct DistanceTable {
  static constexpr index_t entries = index_t{Options.distances()} + token_entries;
  Lasting<Kokkos::View<T*, memory_space>> values{"halogen::distance_bias", static_cast<std::size_t>(Heads* entries)};

  DistanceTable() {
    std::vector<T> of_all(static_cast<std::size_t>(Heads * entries));
    for (int head = 0; head < Heads; ++head)
      for (index_t entry = 0; entry < Options.distances(); ++entry) {
        const float bias = type_of_address<Options.of_distance>{}(head, offset_of(entry));
        if (!(bias < std::numeric_limits<float>::infinity()))
          throw CollectiveError("DistanceBias: the functor gives " + std::to_string(bias) + " for head " +
                                std::to_string(head) + " and offset " + text_of(offset_of(entry)) +
                                ": give a finite number, or -infinity, which hides the pair");
        of_all[static_cast<std::size_t>(head * entries + entry)] = static_cast<T>(bias);
      }
    copy_to_view(values, of_all);
  }
  static std::string text_of(const std::array<int, Options.grid_dimensions>& offset) {
    std::string text;
    for (const int apart : offset) text += (text.empty() ? "(" : ", ") + std::to_string(apart);
    return text + ")";
  }
  static std::array<int, Options.grid_dimensions> offset_of(index_t entry) {
    std::array<int, Options.grid_dimensions> offset{};
    for (std::size_t d = offset.size(); d-- > 0;) {
      const index_t distances = 2 * Options.grid[d] - 1;
      offset[d] = static_cast<int>(entry % distances) - (Options.grid[d] - 1);
      entry /= distances;
    }
    return offset;
  }
};

template <class T, int Heads, class MeshType, int... I>
auto whole_table(const DeviceMesh<MeshType>& mesh, index_t entries, T* values, std::integer_sequence<int, I...>) {
  using Table = Sharded<Tensor<T, dyn, dyn, dyn, dyn>, MeshType, std::conditional_t<(I >= 0), Replicate, void>...>;
  const auto shape =
      Table::make_shape(mesh, {Cut::chunk(1, 1), Cut::chunk(Heads, 1), Cut::chunk(1, 1), Cut::chunk(entries, 1)});
  return Table::over_copied(shape, values, {});
}

/// The bias of each pair, as the table of its distances: a vector (N, entries Heads) that the layer learns, or no
/// argument. `like`: a field on the mesh.
template <AttentionLayerOptions Options, int Heads, class T, class Field, class... Table>
auto bias_of_distances(const Field& like, const Table&... table) {
  if constexpr (Options.of_distance != nullptr) {
    const auto& mesh = like.field.mesh();
    const DistanceTable<Options, Heads, T>& bias = mesh.template prepared<DistanceTable<Options, Heads, T>>();
    return mask_operand<T>(
        whole_table<T, Heads>(mesh, bias.entries, bias.values.data(),
                              std::make_integer_sequence<int, std::decay_t<decltype(mesh)>::dimensions>{}));
  } else {
    return (mask_operand<T>(unflatten<1>(transpose<1, 2>(unflatten<1>(table, -1, Heads)), Heads, 1)), ...);
  }
}

}  // namespace halogen::detail
