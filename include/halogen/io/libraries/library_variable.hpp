// What netCDF and HDF5 have in common: a variable of a file that a library reads, and how stored numbers become values.
#pragma once

#include <atomic>

#include "halogen/io/data/cf.hpp"
#include "halogen/io/data/file_variable.hpp"
#include "halogen/io/libraries/hdf5_lock.hpp"
#include "halogen/io/libraries/tried_file.hpp"

namespace halogen::detail::types {

/// What a library refuses. The sentence is ours, but the cause may be another: the library need not know it.
struct LibraryFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Both libraries crash on a few damaged files. Before one is opened a child process opens it and reads what is known
/// of the variable, once for a file and a variable, until the file changes; where that child does not end well the file
/// is refused. HALOGEN_TRY_FILES=0 in the environment spares the child.
class LibraryVariable {
 public:
  const std::vector<index_t>& shape() const { return shape_; }
  /// Of a chunk; empty where the variable lies in one piece.
  const std::vector<index_t>& chunks() const { return chunks_; }
  const std::vector<index_t>& decoded_chunks() const { return chunks_; }
  /// Empty where the file names none.
  const std::vector<std::string>& dimension_names() const { return dimension_names_; }
  const nlohmann::ordered_json& attributes() const { return attributes_; }
  const std::string& name() const { return name_; }
  /// Of numbers as the file's type has them, without compression, by this process so far.
  std::uint64_t bytes_read() const { return bytes_read_->load(); }

 protected:
  LibraryVariable(std::filesystem::path file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  /// Collective: the first rank tries the file, the others trust it.
  template <class V>
  static V opened_by_all(const Communicator& world, const std::filesystem::path& file, const std::string& name) {
    agree(world, [&] {
      if (world.rank() == 0) V(file, name);
    });
    return agree(world, [&] {
      if (std::error_code none; std::filesystem::exists(file, none)) {
        const std::lock_guard lock(hdf5_mutex());
        TriedFiles::all().add(V::library, file, name);
      }
      return V(file, name);
    });
  }

  /// In a child process: reads of the first and the last chunk of V's variable what a child may hold, or as much where
  /// it lies in one piece, after what is known of it has been found out.
  template <class V>
  static void look_at(const V& variable, const Child::Limits& limits) {
    const std::vector<index_t>& shape = variable.shape();
    if (std::ranges::any_of(shape, [](index_t length) { return length < 1; })) return;
    const auto cut = [](std::vector<index_t> extents, index_t most) {
      for (std::size_t d = extents.size(); d-- > 0;) {
        extents[d] = std::clamp<index_t>(extents[d], 1, most);
        most /= extents[d];
      }
      return extents;
    };
    const std::vector<index_t> chunk = variable.chunks().empty() ? cut(shape, 1 << 14) : variable.chunks();
    double decoded = static_cast<double>(variable.width_);
    std::vector<index_t> first(shape.size(), 0), last(shape.size()), extent(shape.size()), rest(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const index_t length = std::clamp<index_t>(chunk[d], 1, shape[d]);
      decoded *= static_cast<double>(length);
      last[d] = (shape[d] - 1) / length * length;
      extent[d] = length;
      rest[d] = shape[d] - last[d];
    }
    Child::expect_bytes(limits, 2 * decoded);
    for (const PointBox& box : {PointBox{first, cut(extent, 1 << 22)}, PointBox{last, cut(rest, 1 << 22)}}) {
      std::vector<double> numbers(static_cast<std::size_t>(box.points()));
      variable.get_box(box.begin, box.extent, numbers.data());
    }
  }

  /// As before anything was known of the variable.
  void forget() {
    shape_.clear(), chunks_.clear(), dimension_names_.clear();
    attributes_ = nlohmann::ordered_json::object();
    numbers_ = {};
  }

  /// What f throws names file and variable.
  template <class F>
  void said(F f) const {
    try {
      f();
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("cannot read '" + name_ + "' of '" + file_.string() +
                               "': " + words_of_fault(error, file_));
    }
  }

  /// The values of a box. get(numbers): the box as the library converts it, to floats or doubles.
  template <class T, class Get>
  void read_values(const PointBox& box, T* to, Get get) const {
    said([&] {
      require_inside(box, shape_);
      if (box.points() == 0) return;
      const auto points = static_cast<std::size_t>(box.points());
      std::vector<double> wide;  // where T cannot hold the stored numbers
      if (std::is_same_v<T, float> && !fits_float_) {
        wide.resize(points);
        get(wide.data());
      } else {
        get(to);
      }
      bytes_read_->fetch_add(points * width_);
      if (wide.empty() && numbers_.is_plain()) return;
      for (std::size_t i = 0; i < points; ++i)
        to[i] = static_cast<T>(numbers_.value_of(wide.empty() ? static_cast<double>(to[i]) : wide[i]));
    });
  }

  std::filesystem::path file_;
  std::string name_;
  std::size_t width_ = 0;  ///< bytes of a stored number
  bool fits_float_ = false;
  std::vector<index_t> shape_, chunks_;
  std::vector<std::string> dimension_names_;
  nlohmann::ordered_json attributes_ = nlohmann::ordered_json::object();
  CfNumbers numbers_;

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace halogen::detail::types
