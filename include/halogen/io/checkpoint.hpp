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

/// What of a model's parameters a file holds: all, or as an optimiser's moments those without buffers.
enum class InFile { all, trained };

/// Adds the parameters of a model by name and shape, from their flat array.
template <class ModelType, class T>
void add_parameters(std::vector<NamedTensor>& tensors, const std::string& prefix, const std::vector<T>& all,
                    InFile what = InFile::all) {
  const Graph& graph = Parameters<ModelType, T>::graph();
  const std::vector<std::string> names = parameter_names<ModelType>();
  for (int i = 0; i < graph.parameters.size(); ++i) {
    const ParameterShape& shape = graph.parameters[i];
    if (what == InFile::trained && shape.buffer) continue;
    const auto first = all.begin() + shape.offset;
    tensors.push_back(named_tensor<T>(prefix + names[static_cast<std::size_t>(i)],
                                      std::vector<std::int64_t>(shape.shape, shape.shape + shape.rank),
                                      std::vector<T>(first, first + shape.count)));
  }
}

/// A tensor's values in T, where that holds them exactly; nothing where it does not.
template <class T>
std::optional<std::vector<T>> widened(const NamedTensor& tensor) {
  const auto from = [&]<class S>(S) {
    const std::vector<S> values = tensor.template as<S>();
    return std::vector<T>(values.begin(), values.end());
  };
  if (tensor.dtype == dtype_name<T>()) return tensor.template as<T>();
  if (tensor.dtype == "BF16") return from(bfloat16());
  if (tensor.dtype == "F16") return from(float16());
  if (tensor.dtype == "F32" && std::is_same_v<T, double>) return from(float());
  return std::nullopt;
}

/// Names in the file that are none of these, but for an optimiser's and the batches that PyTorch's norms count.
inline std::vector<std::string> unexpected_in(const std::vector<NamedTensor>& tensors,
                                              const std::vector<std::string>& names) {
  std::vector<std::string> unexpected;
  for (const NamedTensor& tensor : tensors)
    if (std::ranges::find(names, tensor.name) == names.end() && !tensor.name.starts_with("optimizer.") &&
        !tensor.name.ends_with("num_batches_tracked"))
      unexpected.push_back(tensor.name);
  return unexpected;
}

/// The flat array from a file's tensors, which have these names, after the prefix, and the model's shapes. One Error
/// names all that are missing or do not fit, and where some are missing what else the file has.
template <class ModelType, class T>
std::vector<T> parameters_in(const std::vector<NamedTensor>& tensors, const std::string& prefix,
                             const std::filesystem::path& file, InFile what = InFile::all,
                             const std::vector<std::string>& names = parameter_names<ModelType>()) {
  const Graph& graph = Parameters<ModelType, T>::graph();
  std::vector<T> all(static_cast<std::size_t>(graph.parameter_count + graph.buffer_count));
  std::vector<std::string> missing;
  std::string wrong;
  for (int i = 0; i < graph.parameters.size(); ++i) {
    const ParameterShape& shape = graph.parameters[i];
    if (what == InFile::trained && shape.buffer) continue;
    const std::string name = prefix + names[static_cast<std::size_t>(i)];
    const auto tensor = std::ranges::find(tensors, name, &NamedTensor::name);
    if (tensor == tensors.end()) {
      missing.push_back(name);
      continue;
    }
    const std::vector<std::int64_t> needed(shape.shape, shape.shape + shape.rank);
    const auto values = same_but_for_ones(tensor->shape, needed) ? widened<T>(*tensor) : std::nullopt;
    if (values)
      std::copy(values->begin(), values->end(), all.begin() + shape.offset);
    else
      wrong += (wrong.empty() ? "tensor '" : "; tensor '") + name + "' is " + tensor->dtype + " " +
               text_of(tensor->shape) + ", but the model's is " + dtype_name<T>() + " " + text_of(needed);
  }
  if (missing.empty() && wrong.empty()) return all;
  std::vector<std::string> faults;
  if (!missing.empty()) faults.push_back("there is no tensor " + listed(missing));
  if (!wrong.empty()) faults.push_back(wrong);
  if (!missing.empty() && prefix.empty())
    if (const auto unexpected = unexpected_in(tensors, names); !unexpected.empty())
      faults.push_back("the model has no tensor " + listed(unexpected));
  const bool of_optimizer =
      std::ranges::any_of(missing, [](const auto& name) { return name.starts_with("optimizer."); });
  throw Error("'" + file.string() + "': " + in_one_line(faults, "; ") + ": give a file of this model and value type" +
              (of_optimizer ? ", written by a trainer with this optimiser, or take its parameters alone by "
                              "load_parameters"
                            : ""));
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

/// Collective: sets them from rank 0's flat array, which it sends bucket by bucket where they are sharded.
template <class ModelType, class T>
void set_from_root(Parameters<ModelType, T> parameters, std::vector<T> all, const Communicator& world) {
  all.resize(static_cast<std::size_t>(parameters.size()));
  world.broadcast(all.data(), all.size() * sizeof(T), 0);
  parameters.copy_from_host(all);
}
template <class ModelType, class T>
void set_from_root(Parameters<ModelType, T, Shard<0>> parameters, const std::vector<T>& all,
                   const Communicator& world) {
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
    detail::add_parameters<ModelType>(tensors, "", all);
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
    const std::vector<NamedTensor> tensors = read_safetensors(file);
    std::vector<std::string> names = parameter_names<ModelType>();
    if (name_in_file) std::ranges::transform(names, names.begin(), name_in_file);
    all = detail::parameters_in<ModelType, T>(tensors, "", file, detail::InFile::all, names);
    unexpected = detail::unexpected_in(tensors, names);
  });
  detail::set_from_root(parameters, all, world);
  return unexpected;
}

namespace detail {
/// The tensors that make all parameters, and the names by which parameters_in finds them: of those that are chosen the
/// file's, of the others their present values. With `fitting` the others are also those that the file does not have or
/// has in another shape or type.
struct ChosenTensors {
  std::vector<NamedTensor> tensors;
  std::vector<std::string> names, taken;
};
template <class ModelType, class T>
ChosenTensors chosen_tensors(const std::vector<NamedTensor>& in_file, const std::vector<T>& present,
                             const ChosenParameters& choice) {
  const std::vector<std::string> names = parameter_names<ModelType>();
  const std::vector<char> chosen = chosen_of(names, choice);
  std::vector<NamedTensor> now;
  add_parameters<ModelType>(now, "present values of ", present);
  ChosenTensors all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = choice.name_in_source ? choice.name_in_source(names[i]) : names[i];
    const auto found = std::ranges::find(in_file, name, &NamedTensor::name);
    const bool fits = found != in_file.end() && same_but_for_ones(found->shape, now[i].shape) && widened<T>(*found);
    const bool is_taken = chosen[i] != 0 && (fits || !choice.fitting);
    all.names.push_back(is_taken ? name : now[i].name);
    if (is_taken) all.taken.push_back(names[i]);
    if (!is_taken)
      all.tensors.push_back(std::move(now[i]));
    else if (found != in_file.end())
      all.tensors.push_back(*found);
  }
  return all;
}
}  // namespace detail

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
    const auto chosen = detail::chosen_tensors<ModelType>(read_safetensors(file), all, choice);
    all = detail::parameters_in<ModelType, T>(chosen.tensors, "", file, detail::InFile::all, chosen.names);
    for (const std::string& name : chosen.taken) text += name + "\n";
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
  const auto parameters = detail::whole_on_root(trainer.parameters(), world);
  std::vector<NamedTensor> moments;
  detail::for_each_moment(state, [&](const std::string& prefix, const auto& moment) {
    const auto all = detail::whole_on_root(moment, world);
    if (world.rank() == 0) detail::add_parameters<ModelType>(moments, prefix, all, detail::InFile::trained);
  });
  const std::int64_t steps = state.steps();
  agree(world, [&] {
    if (world.rank() != 0) return;
    std::vector<NamedTensor> tensors;
    detail::add_parameters<ModelType>(tensors, "", parameters);
    std::move(moments.begin(), moments.end(), std::back_inserter(tensors));
    tensors.push_back(named_tensor<std::int64_t>(detail::steps_name, {}, {steps}));
    const std::vector<double> schedule = detail::schedule_numbers(RateSchedule(state.settings().schedule));
    tensors.push_back(
        named_tensor<double>(detail::schedule_name, {static_cast<std::int64_t>(schedule.size())}, schedule));
    write_safetensors(file, tensors);
  });
}

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
  if (is_folder != 0)
    return detail::set_from_checkpoint(trainer, file, detail::whole_manifest(file, world), world, options);
  using Held = std::remove_cvref_t<decltype(trainer.parameters())>;
  using ModelType = typename Held::model_type;
  using T = typename Held::value_type;
  std::vector<T> parameters;
  std::vector<std::vector<T>> moments;
  std::int64_t steps = 0;
  auto& state = trainer.optimizer_state();
  agree(world, [&] {
    if (world.rank() != 0) return;
    const std::vector<NamedTensor> tensors = read_safetensors(file);
    const auto counted = std::ranges::find(tensors, detail::steps_name, &NamedTensor::name);
    if (counted == tensors.end())
      throw Error("'" + file.string() + "' is no checkpoint, it has no tensor '" + detail::steps_name +
                  "': load_parameters reads parameters alone");
    parameters = detail::parameters_in<ModelType, T>(tensors, "", file);
    detail::for_each_moment(state, [&](const std::string& prefix, const auto&) {
      moments.push_back(detail::parameters_in<ModelType, T>(tensors, prefix, file, detail::InFile::trained));
    });
    const std::vector<std::int64_t> read = counted->as<std::int64_t>();
    if (read.size() != 1 || read[0] < 0)
      throw Error("'" + file.string() + "': tensor '" + detail::steps_name + "' is no number of steps");
    steps = read[0];
    if (const auto found = std::ranges::find(tensors, detail::schedule_name, &NamedTensor::name);
        found != tensors.end()) {
      const auto schedule = detail::schedule_of(found->as<double>());
      if (!schedule) throw Error("'" + file.string() + "': tensor '" + detail::schedule_name + "' is no schedule");
      detail::refuse_other_schedule(file.string(), detail::json_of(*schedule), state.settings().schedule, options);
    }
  });
  detail::set_from_root(trainer.parameters(), parameters, world);
  std::size_t next = 0;
  detail::for_each_moment(state, [&](const std::string&, const auto& moment) {
    detail::set_from_root(moment, world.rank() == 0 ? moments[next++] : std::vector<T>(), world);
  });
  world.broadcast(&steps, sizeof steps, 0);
  state.set_steps(steps);
}

}  // namespace halogen
