// Parameters, and the state of a training that goes on, to and from a safetensors file. Parameters stand there under
// PyTorch's names: torch's load_state_dict reads those of save_parameters.
#pragma once

#include <functional>
#include <iterator>
#include <optional>
#include <sstream>

#include "halogen/io/checkpoint/checkpoint_shares.hpp"
#include "halogen/train/parameters/chosen_parameters.hpp"

namespace halogen {

namespace detail {

/// Adds the tensors of one of a training's arrays, by their names in a file, from the flat array.
template <class ModelType, class T>
void add_tensors(std::vector<NamedTensor>& tensors, const std::string& array, const std::vector<T>& all) {
  for (const CheckpointTensor& tensor : checkpoint_tensors<ModelType, T>(array)) {
    const auto first = all.begin() + tensor.offset;
    tensors.push_back(named_tensor<T>(tensor.name, tensor.shape, std::vector<T>(first, first + tensor.count)));
  }
}

/// Collective: the whole flat array on rank 0, on the host, nothing elsewhere; bucket by bucket where they are sharded.
/// That all ranks agree tells rank 0 that none has failed, before it writes over an older file.
template <class ModelType, class T>
std::vector<T> whole_on_root(const Parameters<ModelType, T>& parameters, const Communicator& world) {
  return agree(world, [&] { return world.rank() == 0 ? parameters.to_host() : std::vector<T>(); });
}
template <class ModelType, class T>
std::vector<T> whole_on_root(const Parameters<ModelType, T, Shard<0>>& parameters, const Communicator& world) {
  std::vector<T> all;
  if (parameters.sharding()->replicas.rank() == 0)  // the group of rank 0; others hold the same
    parameters.for_each_bucket([&](const ParameterBuckets::Bucket& bucket, const T* values) {
      if (world.rank() == 0) all.insert(all.end(), values, values + (bucket.end - bucket.begin));
    });
  agree(world, [&] {
    const index_t needed = parameters.has_buffers() ? parameters.count : Parameters<ModelType, T>::trained;
    if (world.rank() == 0 && static_cast<index_t>(all.size()) != needed)
      throw Error("rank 0 of \"" + std::string(world.label()) +
                  "\" is not rank 0 of the mesh of these parameters: give the communicator of their mesh");
  });
  return all;
}

inline constexpr const char* steps_name = "optimizer.step";

}  // namespace detail

/// Collective over the parameters' ranks: rank 0 writes them, whole. Fails on all ranks alike, with one sentence.
template <class ModelType, class T, Placement P>
void save_parameters(const std::filesystem::path& file, const Parameters<ModelType, T, P>& parameters,
                     const Communicator& world) {
  const std::vector<T> all = detail::whole_on_root(parameters, world);
  agree(world, [&] {
    if (world.rank() != 0) return;
    std::vector<NamedTensor> tensors;
    detail::add_tensors<ModelType>(tensors, "parameters", all);
    write_safetensors(file, tensors);
  });
}

/// Collective: rank 0 reads the file and sends each rank what it holds. Types that T holds exactly are widened. Fails
/// on all ranks alike, with nothing changed, where tensors are missing or have another shape or type: one sentence
/// names them. Returns, on rank 0, the names of what else the file holds. name_in_file: what the file calls a parameter
/// of the model; by default the same.
template <class ModelType, class T, Placement P>
std::vector<std::string> load_parameters(const std::filesystem::path& file, Parameters<ModelType, T, P>& parameters,
                                         const Communicator& world,
                                         const std::function<std::string(std::string)>& name_in_file = {}) {
  std::vector<T> all;
  std::vector<std::string> unexpected;
  agree(world, [&] {
    if (world.rank() != 0) return;
    const detail::CheckpointContents contents = detail::contents_of_file(file);
    std::vector<detail::CheckpointTensor> tensors = detail::checkpoint_tensors<ModelType, T>();
    std::vector<std::string> names;
    for (detail::CheckpointTensor& tensor : tensors) {
      if (name_in_file) tensor.name = name_in_file(tensor.name);
      names.push_back(tensor.name);
    }
    unexpected = detail::unexpected_in(contents, names);
    const auto runs = detail::runs_in<T>(contents, tensors, unexpected);
    detail::CheckpointReader reader(contents);
    const Graph& graph = Parameters<ModelType, T>::graph();
    all = detail::numbers_of<T>(reader, runs, 0, graph.parameter_count + graph.buffer_count);
  });
  detail::set_from_root(parameters, all, world);
  return unexpected;
}

/// The same of parameters that are chosen by name (train/parameters/chosen_parameters.hpp): what others had stays.
/// Fails as above where a chosen one is missing or does not fit, unless {.fitting = true}. Returns which were taken, on
/// all ranks.
///
///   hg::load_parameters("resnet.safetensors", trainer.parameters(), world, {.skip = {"fc.*"}});
template <class ModelType, class T, Placement P>
TakenParameters load_parameters(const std::filesystem::path& file, const Parameters<ModelType, T, P>& parameters,
                                const Communicator& world, const ChosenParameters& choice) {
  std::vector<T> all = detail::whole_on_root(parameters, world);
  const std::string taken = agree(world, [&] {
    std::string text;
    if (world.rank() != 0) return text;
    const detail::CheckpointContents contents = detail::contents_of_file(file);
    const std::vector<char> chosen = detail::chosen_of(parameter_names<ModelType>(), choice);
    std::vector<detail::CheckpointTensor> tensors = detail::checkpoint_tensors<ModelType, T>();
    std::vector<detail::CheckpointTensor> wanted;
    for (std::size_t i = 0; detail::CheckpointTensor & tensor : tensors) {
      const std::string name =
          std::exchange(tensor.name, choice.name_in_source ? choice.name_in_source(tensor.name) : tensor.name);
      if (chosen[i++] == 0 || (choice.fitting && !detail::fits<T>(contents.find(tensor.name), tensor))) continue;
      wanted.push_back(tensor);
      text += name + "\n";
    }
    const auto runs = detail::runs_in<T>(contents, wanted, {});
    detail::CheckpointReader reader(contents);
    detail::read_numbers(reader, runs, 0, static_cast<index_t>(all.size()), all.data());
    return text;
  });
  detail::set_from_root(parameters, all, world);
  TakenParameters result;
  std::istringstream lines(detail::text_of_root(taken, world));
  for (std::string name; std::getline(lines, name);) result.taken.push_back(name);
  for (const std::string& name : parameter_names<ModelType>())
    if (std::ranges::find(result.taken, name) == result.taken.end()) result.left.push_back(name);
  return result;
}

/// Collective over the mesh of a Trainer: its parameters, the optimiser's moments ("optimizer.exp_avg.<name>", ...),
/// the average of the parameters where it keeps one ("optimizer.average.<name>"), and the number of steps
/// ("optimizer.step"), by which schedules and dropout go on, and the schedule ("optimizer.schedule"); written by rank
/// 0. No other settings: the learning rate is the loading trainer's. load_parameters reads the parameters alone. Fails
/// on all ranks alike, with one sentence.
template <class AnyTrainer>
void save_checkpoint(const std::filesystem::path& file, const AnyTrainer& trainer, const Communicator& world) {
  using ModelType = typename std::remove_cvref_t<decltype(trainer.parameters())>::model_type;
  const auto& state = trainer.optimizer_state();
  std::vector<NamedTensor> tensors;
  detail::for_each_array(trainer, [&](const std::string& array, const auto& values) {
    const auto all = detail::whole_on_root(values, world);
    if (world.rank() == 0) detail::add_tensors<ModelType>(tensors, array, all);
  });
  agree(world, [&] {
    if (world.rank() != 0) return;
    tensors.push_back(named_tensor<std::int64_t>(detail::steps_name, {}, {state.steps()}));
    const std::vector<double> schedule = detail::schedule_numbers(RateSchedule(state.settings().schedule));
    tensors.push_back(
        named_tensor<double>(detail::schedule_name, {static_cast<std::int64_t>(schedule.size())}, schedule));
    write_safetensors(file, tensors);
  });
}

namespace detail {
/// A file that save_checkpoint wrote. Error: another one.
inline CheckpointContents contents_of_training(const fs::path& file) {
  CheckpointContents contents = contents_of_file(file);
  CheckpointReader reader(contents);
  const auto steps = tensor_of<std::int64_t>(contents, reader, steps_name);
  if (!steps)
    contents.refuse(std::string(" is no checkpoint, it has no tensor '") + steps_name +
                    "': load_parameters reads parameters alone");
  if (steps->size() != 1 || steps->front() < 0)
    contents.refuse(std::string(": tensor '") + steps_name + "' is no number of steps");
  contents.manifest.step = steps->front();
  if (const auto numbers = tensor_of<double>(contents, reader, schedule_name)) {
    const auto schedule = schedule_of(*numbers);
    if (!schedule) contents.refuse(std::string(": tensor '") + schedule_name + "' is no schedule");
    contents.manifest.schedule = json_of(*schedule);
  }
  return contents;
}
}  // namespace detail

/// Collective: sets parameters, moments, average and number of steps from such a file, or from a folder that
/// hg::Checkpoints wrote, of the same model and value type. Any mesh may have written it, sharded or not. Fails on all
/// ranks alike, with nothing changed, where a tensor is missing or has another shape or type, or the schedule is
/// another than the trainer's and options do not say that it is meant.
template <class AnyTrainer>
void load_checkpoint(const std::filesystem::path& file, AnyTrainer& trainer, const Communicator& world,
                     const LoadOptions& options = {}) {
  std::error_code none;
  int is_folder = world.rank() == 0 && std::filesystem::is_directory(file, none) ? 1 : 0;
  world.broadcast(&is_folder, sizeof is_folder, 0);
  const detail::CheckpointContents contents =
      is_folder != 0 ? detail::contents_of_folder(file, detail::whole_manifest(file, world)) : agree(world, [&] {
        return world.rank() == 0 ? detail::contents_of_training(file) : detail::CheckpointContents{file, true};
      });
  detail::set_from_checkpoint(trainer, contents, world, options);
}

}  // namespace halogen
