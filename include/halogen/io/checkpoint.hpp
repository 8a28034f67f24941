// Parameters to and from a safetensors file, under PyTorch's names: torch's load_state_dict reads it.
#pragma once

#include "halogen/comm/agree.hpp"
#include "halogen/io/safetensors.hpp"
#include "halogen/train/sharded_parameters.hpp"

namespace halogen {

namespace detail {

/// All parameters of a model by name and shape; values(i) are those of parameter i.
template <class ModelType, class T, class Values>
std::vector<NamedTensor> named_parameters(Values values) {
  const Graph& graph = Parameters<ModelType, T>::graph();
  const std::vector<std::string> names = parameter_names<ModelType>();
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < graph.parameters.size(); ++i) {
    const ParameterShape& shape = graph.parameters[i];
    tensors.push_back(named_tensor<T>(names[static_cast<std::size_t>(i)],
                                      std::vector<std::int64_t>(shape.shape, shape.shape + shape.rank), values(i)));
  }
  return tensors;
}

/// The flat array from a file's tensors, which have the model's names and shapes.
template <class ModelType, class T>
std::vector<T> read_parameters(const std::filesystem::path& file) {
  const std::vector<NamedTensor> tensors = read_safetensors(file);
  const std::vector<std::string> names = parameter_names<ModelType>();
  const Graph& graph = Parameters<ModelType, T>::graph();
  std::vector<T> all;
  for (int i = 0; i < graph.parameters.size(); ++i) {
    const ParameterShape& shape = graph.parameters[i];
    const NamedTensor& tensor = find(tensors, names[static_cast<std::size_t>(i)]);
    if (tensor.shape != std::vector<std::int64_t>(shape.shape, shape.shape + shape.rank))
      throw Error("'" + file.string() + "': tensor '" + tensor.name + "' has another shape than the model's");
    const std::vector<T> values = tensor.template as<T>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace detail

/// Collective: parameters are Replicate, so rank 0 writes them whole. Fails on all ranks alike, with one sentence.
template <class ModelType, class T>
void save_parameters(const std::filesystem::path& file, const Parameters<ModelType, T>& parameters,
                     const Communicator& world) {
  agree(world, [&] {
    if (world.rank() != 0) return;
    write_safetensors(file, detail::named_parameters<ModelType, T>([&](int i) { return parameters.to_host(i); }));
  });
}

/// Collective: every rank reads the file. Fails on all ranks alike where a tensor is missing or has another shape.
template <class ModelType, class T>
void load_parameters(const std::filesystem::path& file, Parameters<ModelType, T>& parameters,
                     const Communicator& world) {
  parameters.copy_from_host(agree(world, [&] { return detail::read_parameters<ModelType, T>(file); }));
}

/// Collective over the mesh of the shards: bucket by bucket to rank 0, which alone holds all for a while, on the host,
/// and writes the same file as above.
template <class ModelType, class T>
void save_parameters(const std::filesystem::path& file, const Parameters<ModelType, T, Shard<0>>& parameters,
                     const Communicator& world) {
  std::vector<T> all;
  if (parameters.sharding()->replicas.rank() == 0)  // the group of rank 0; others hold the same
    parameters.for_each_bucket([&](const ParameterBuckets::Bucket& bucket, const T* values) {
      if (world.rank() == 0) all.insert(all.end(), values, values + (bucket.end - bucket.begin));
    });
  agree(world, [&] {
    if (world.rank() != 0) return;
    write_safetensors(file, detail::named_parameters<ModelType, T>([&](int i) {
                        const ParameterShape& shape = parameters.graph().parameters[i];
                        return std::vector<T>(all.begin() + shape.offset, all.begin() + shape.offset + shape.count);
                      }));
  });
}

/// Collective: rank 0 reads the file and sends it bucket by bucket, of which each rank keeps its piece.
template <class ModelType, class T>
void load_parameters(const std::filesystem::path& file, Parameters<ModelType, T, Shard<0>>& parameters,
                     const Communicator& world) {
  std::vector<T> all;
  agree(world, [&] {
    if (world.rank() == 0) all = detail::read_parameters<ModelType, T>(file);
  });
  std::vector<T> whole;
  parameters.fill([&](const ParameterBuckets::Bucket& bucket) {
    const auto count = static_cast<std::size_t>(bucket.end - bucket.begin);
    if (world.rank() == 0)
      whole.assign(all.begin() + bucket.begin, all.begin() + bucket.end);
    else
      whole.resize(count);
    world.broadcast(whole.data(), count * sizeof(T), 0);
    return [&](index_t i) { return whole[static_cast<std::size_t>(i - bucket.begin)]; };
  });
}

}  // namespace halogen
