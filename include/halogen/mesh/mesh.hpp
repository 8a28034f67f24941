// The type of a device mesh: how many dimensions, and their names.
#pragma once

#include <array>
#include <string_view>

#include "halogen/core/fixed_string.hpp"

namespace halogen {

/// Mesh<"data", "height", "width">. Extents are the run's (see comm/device_mesh.hpp); names are the program's.
template <fixed_string... Names>
struct Mesh {
  static constexpr int rank = sizeof...(Names);
  static constexpr std::array<std::string_view, rank> names{Names.view()...};

  static_assert(rank > 0, "a mesh has at least one dimension");
  static_assert(
      [] {
        for (int i = 0; i < rank; ++i)
          for (int j = 0; j < i; ++j)
            if (names[i] == names[j]) return false;
        return true;
      }(),
      "the names of a mesh's dimensions differ from each other");

  /// Position of the dimension called Name; does not compile where there is none.
  template <fixed_string Name>
  static constexpr int index_of = [] {
    constexpr int found = [] {
      for (int i = 0; i < rank; ++i)
        if (names[i] == Name.view()) return i;
      return -1;
    }();
    static_assert(found >= 0, "no dimension of this mesh has that name");
    return found;
  }();
};

}  // namespace halogen
