// What netCDF and HDF5 have in common: a variable of a file that a library reads, and how stored numbers become values.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>

#include "halogen/io/cf.hpp"
#include "halogen/io/hdf5_lock.hpp"
#include "halogen/io/variable.hpp"

namespace halogen::detail::types {

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

  /// What f throws names file and variable.
  template <class F>
  void said(F f) const {
    try {
      f();
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("cannot read '" + name_ + "' of '" + file_.string() + "': " + error.what());
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
      if (wide.empty() && numbers_.is_plain() && unsigned_span_ == 0) return;
      for (std::size_t i = 0; i < points; ++i) {
        double stored = wide.empty() ? static_cast<double>(to[i]) : wide[i];
        if (stored < 0) stored += unsigned_span_;
        to[i] = static_cast<T>(numbers_.value_of(stored));
      }
    });
  }

  /// Takes CF's attributes; numbers(name): an attribute's, none where it has none.
  template <class Numbers>
  void take_cf(Numbers numbers) {
    if (const std::vector<double> scale = numbers("scale_factor"); !scale.empty()) numbers_.scale = scale[0];
    if (const std::vector<double> offset = numbers("add_offset"); !offset.empty()) numbers_.offset = offset[0];
    for (const char* name : {"missing_value", "_FillValue"})
      for (double missing : numbers(name)) {
        if (missing < 0) missing += unsigned_span_;
        if (!std::isnan(missing)) numbers_.missing.push_back(missing);
      }
  }

  std::filesystem::path file_;
  std::string name_;
  std::size_t width_ = 0;  ///< bytes of a stored number
  bool fits_float_ = false;
  double unsigned_span_ = 0;  ///< `_Unsigned`: what is added to numbers below 0
  std::vector<index_t> shape_, chunks_;
  std::vector<std::string> dimension_names_;
  nlohmann::ordered_json attributes_ = nlohmann::ordered_json::object();
  CfNumbers numbers_;

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace halogen::detail::types
