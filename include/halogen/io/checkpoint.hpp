// Parameters to and from a safetensors file, under PyTorch's names: torch's load_state_dict reads it.
#pragma once

#include "halogen/comm/agree.hpp"
#include "halogen/io/safetensors.hpp"
#include "halogen/train/parameters.hpp"

namespace halogen {

/// Collective: parameters are Replicate, so rank 0 writes them whole. Fails on all ranks alike, with one sentence.
template <class ModelType, class T>
void save_parameters(const std::filesystem::path& file, const Parameters<ModelType, T>& parameters,
                     const Communicator& world) {
  agree(world, [&] {
    if (world.rank() != 0) return;
    const std::vector<std::string> names = parameter_names<ModelType>();
    std::vector<NamedTensor> tensors;
    for (int i = 0; i < parameters.graph().parameters.size(); ++i) {
      const ParameterShape& shape = parameters.graph().parameters[i];
      tensors.push_back(named_tensor<T>(names[static_cast<std::size_t>(i)],
                                        std::vector<std::int64_t>(shape.shape, shape.shape + shape.rank),
                                        parameters.to_host(i)));
    }
    write_safetensors(file, tensors);
  });
}

/// Collective: every rank reads the file. Fails on all ranks alike where a tensor is missing or has another shape.
template <class ModelType, class T>
void load_parameters(const std::filesystem::path& file, Parameters<ModelType, T>& parameters,
                     const Communicator& world) {
  agree(world, [&] {
    const std::vector<NamedTensor> tensors = read_safetensors(file);
    const std::vector<std::string> names = parameter_names<ModelType>();
    std::vector<T> all;
    for (int i = 0; i < parameters.graph().parameters.size(); ++i) {
      const ParameterShape& shape = parameters.graph().parameters[i];
      const NamedTensor& tensor = find(tensors, names[static_cast<std::size_t>(i)]);
      if (tensor.shape != std::vector<std::int64_t>(shape.shape, shape.shape + shape.rank))
        throw Error("'" + file.string() + "': tensor '" + tensor.name + "' has another shape than the model's");
      const std::vector<T> values = tensor.template as<T>();
      all.insert(all.end(), values.begin(), values.end());
    }
    parameters.copy_from_host(all);
  });
}

}  // namespace halogen
