// Layers and networks against PyTorch's stored tensors, on every mesh.
#pragma once

#include <doctest/doctest.h>

#include "support/reference.hpp"
#include "support/train_once.hpp"

namespace support {

/// Passes its input on and says how many channels it takes, which a pool or an upsampling alone leaves open.
template <int Channels>
struct Takes : hg::Module<Takes<Channels>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    if ((*x).channels != Channels) x.graph->refuse<hg::why::channels_differ>(0, Channels, (*x).channels);
    return x;
  }
};

/// Calls check(mesh) on every mesh on which no piece of Model is empty. extents: (N, H, W), or
/// (N, D, H, W) on volumes' meshes.
template <class Model, int In, std::size_t Rank, class Check>
void on_meshes(const std::array<hg::index_t, Rank>& extents, Check check) {
  using MeshType = std::conditional_t<Rank == 4, VolumeMesh, std::conditional_t<Rank == 2, SignalMesh, Mesh>>;
  for (const auto& mesh : meshes_of<MeshType>(static_cast<int>(extents[0]))) {
    CAPTURE(text(mesh));
    if (leaves_a_piece_empty<Model, FieldOn<MeshType, double, In>>(mesh, with_channels(extents, In))) continue;
    check(mesh);
  }
}

/// Gradients of sum(output * y), of which train_once's InnerProduct takes the mean.
inline Result<double> unscaled(Result<double> result) {
  for (double& g : result.input_gradient) g *= static_cast<double>(result.output.size());
  for (double& g : result.parameter_gradient) g *= static_cast<double>(result.output.size());
  return result;
}

/// The tensors "caseK.input", "caseK.output" and so on of one stored layer.
template <std::size_t Rank>
class StoredCase {
 public:
  using Extents = std::array<hg::index_t, Rank>;

  StoredCase(const std::string& file, int number) : StoredCase(file, "case" + std::to_string(number)) {}
  StoredCase(const std::string& file, const std::string& name) : reference_(file), name_(name + ".") {}

  std::vector<double> operator[](const std::string& tensor) const { return reference_.values(name_ + tensor); }
  template <class T>
  std::vector<T> as(const std::string& tensor) const {
    return reference_.values<T>(name_ + tensor);
  }
  hg::index_t channels(const std::string& tensor) const { return reference_.shape(name_ + tensor)[1]; }

  /// (N, space...), without the channels.
  Extents extents(const std::string& tensor) const {
    const auto shape = reference_.shape(name_ + tensor);
    REQUIRE(shape.size() == Rank + 1);
    Extents extents{shape[0]};
    std::copy(shape.begin() + 2, shape.end(), extents.begin() + 1);
    return extents;
  }

  /// Output and gradients for the stored cotangent.
  template <class Model, int In, int Out, class MeshType>
  Result<double> run(const hg::DeviceMesh<MeshType>& mesh, const std::vector<double>& parameters = {}) const {
    const Extents out = extents("output");
    std::array<hg::index_t, Rank - 1> space;
    std::copy(out.begin() + 1, out.end(), space.begin());
    return unscaled(train_once<Model, In, Out, InnerProduct>(mesh, extents("input"), parameters, (*this)["input"],
                                                             space, (*this)["grad_output"]));
  }

 private:
  Reference reference_;
  std::string name_;
};

/// A layer without parameters that keeps its channels: calls check(stored, mesh, result) on every mesh.
template <class Layer, int Channels, std::size_t Rank, class Check>
void check_stored(const std::string& file, int number, Check check) {
  using Model = hg::Sequential<Takes<Channels>, Layer>;
  const StoredCase<Rank> stored(file, number);
  REQUIRE(stored.channels("input") == Channels);
  CAPTURE(number);
  on_meshes<Model, Channels>(stored.extents("input"), [&](const auto& mesh) {
    check(stored, mesh, stored.template run<Model, Channels, Channels>(mesh));
  });
}

/// The same for one whose output and input gradient agree to rounding.
template <class Layer, int Channels, std::size_t Rank = 3>
void check_stored(const std::string& file, int number) {
  check_stored<Layer, Channels, Rank>(file, number, [](const auto& stored, const auto&, const auto& result) {
    CHECK(relative_error(result.output, stored["output"]) < 1e-14);
    CHECK(relative_error(result.input_gradient, stored["grad_input"]) < 1e-14);
  });
}

/// A layer by the name of its case: output and gradients on every mesh, to a relative error below `tolerance`.
template <class Layer, int In, int Out, std::size_t Rank = 3>
void check_named(const std::string& file, const std::string& name, double tolerance = 1e-12,
                 const std::vector<double>& parameters = {}, const std::vector<double>& gradient = {}) {
  using Model = hg::Sequential<Takes<In>, Layer>;
  const StoredCase<Rank> stored(file, name);
  CAPTURE(name);
  REQUIRE(stored.channels("input") == In);
  on_meshes<Model, In>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.template run<Model, In, Out>(mesh, parameters);
    CHECK(relative_error(result.output, stored["output"]) < tolerance);
    CHECK(relative_error(result.input_gradient, stored["grad_input"]) < tolerance);
    if (!parameters.empty()) CHECK(relative_error(result.parameter_gradient, gradient) < tolerance);
  });
}

/// Maxima: their bits, in float too, since the stored inputs are multiples of 1/64.
template <class Pool, int Channels, std::size_t Rank = 3>
void check_stored_maxima(const std::string& file, int number) {
  using Model = hg::Sequential<Takes<Channels>, Pool>;
  check_stored<Pool, Channels, Rank>(file, number, [](const auto& stored, const auto& mesh, const auto& result) {
    CHECK(infer<Model, Channels>(mesh, stored.extents("input"), {}, stored.template as<float>("input")) ==
          stored.template as<float>("output"));
    CHECK(result.output == stored["output"]);
    CHECK(relative_error(result.input_gradient, stored["grad_input"]) < 1e-14);
  });
}

/// A stored network's tensors of all parameters, in the model's order.
template <class Net>
std::vector<double> all_parameters(const Reference& reference, const std::string& prefix) {
  std::vector<double> all;
  for (const std::string& name : hg::parameter_names<Net>()) {
    const std::vector<double> one = reference.values(prefix + name);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// A layer with parameters, which have these names in the file too.
template <class Layer, int In, int Out, std::size_t Rank = 3>
void check_with_parameters(const std::string& file, const std::string& name, const std::vector<std::string>& names) {
  CHECK(hg::parameter_names<Layer>() == names);
  const Reference reference(file);
  check_named<Layer, In, Out, Rank>(file, name, 1e-12, all_parameters<Layer>(reference, name + "."),
                                    all_parameters<Layer>(reference, name + ".grad."));
}

}  // namespace support
