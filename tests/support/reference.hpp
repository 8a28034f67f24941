// Stored PyTorch tensors (tests/reference/make_references.py), widened to double.
#pragma once

#include <cstdlib>
#include <halogen/io/safetensors.hpp>
#include <string>
#include <vector>

namespace support {

class Reference {
 public:
  explicit Reference(const std::string& name)
      : tensors_(halogen::read_safetensors(folder() + "/" + name + ".safetensors")) {}

  /// Where the tests were built, or $HALOGEN_TEST_DATA on another machine (docs/gpu.md).
  static std::string folder() {
    const char* elsewhere = std::getenv("HALOGEN_TEST_DATA");
    return elsewhere != nullptr ? elsewhere : HALOGEN_TEST_DATA;
  }

  const halogen::NamedTensor& tensor(const std::string& name) const { return halogen::find(tensors_, name); }

  template <class T = double>
  std::vector<T> values(const std::string& name) const {
    const halogen::NamedTensor& tensor = this->tensor(name);
    if (tensor.dtype == "F32") return widened<T>(tensor.as<float>());
    if (tensor.dtype == "I64") return widened<T>(tensor.as<std::int64_t>());
    return widened<T>(tensor.as<double>());
  }
  std::vector<std::int64_t> shape(const std::string& name) const { return tensor(name).shape; }
  const std::vector<halogen::NamedTensor>& all() const { return tensors_; }

 private:
  template <class T, class V>
  static std::vector<T> widened(const V& values) {
    return std::vector<T>(values.begin(), values.end());
  }

  std::vector<halogen::NamedTensor> tensors_;
};

}  // namespace support
