// What of a training each rank writes to a checkpoint's folder, and reads from one of any other mesh.
#pragma once

#include <utility>

#include "halogen/io/checkpoint/checkpoint_contents.hpp"
#include "halogen/io/checkpoint/checkpoint_schedule.hpp"
#include "halogen/io/in_place.hpp"
#include "halogen/tensor/field_size.hpp"
#include "halogen/train/parameters/sharded_parameters.hpp"

namespace halogen::detail {

/// Calls f(prefix in the file, array) for an optimiser's moments, and the average of the parameters where it keeps one.
template <class State, class F>
void for_each_moment(const State& state, F f) {
  for (int i = 0; i < state.moments(); ++i)
    f("optimizer." + std::string(State::settings_type::moment_names[i]) + ".", state.moment(i));
  if (state.average() != nullptr) f(std::string("optimizer.average."), *state.average());
}

/// Calls f(array's name, parameters) for all that a checkpoint holds of a trainer.
template <class AnyTrainer, class F>
void for_each_array(const AnyTrainer& trainer, F f) {
  f(std::string("parameters"), trainer.parameters());
  for_each_moment(trainer.optimizer_state(),
                  [&](const std::string& prefix, const auto& array) { f(prefix.substr(0, prefix.size() - 1), array); });
}

/// What of a model's tensors an array holds: all, or as an optimiser's moments those without buffers.
inline bool has_buffers(const std::string& array) { return array == "parameters"; }

/// A model's tensors of an array, by their names in a file, and where they lie in the flat array.
template <class ModelType, class T>
std::vector<CheckpointTensor> checkpoint_tensors(const std::string& array = "parameters") {
  std::vector<CheckpointTensor> tensors;
  const std::vector<std::string> names = parameter_names<ModelType>();
  const Graph& graph = Parameters<ModelType, T>::graph();
  for (int i = 0; i < graph.parameters.size(); ++i) {
    const ParameterShape& shape = graph.parameters[i];
    if (!shape.buffer || has_buffers(array))
      tensors.push_back({prefix_of(array) + names[static_cast<std::size_t>(i)],
                         {shape.shape, shape.shape + shape.rank},
                         shape.offset,
                         shape.count});
  }
  return tensors;
}

/// The I-th of `parts` even parts of [begin, end).
inline std::pair<index_t, index_t> even_part(index_t begin, index_t end, int part, int parts) {
  return {begin + (end - begin) * part / parts, begin + (end - begin) * (part + 1) / parts};
}

/// Numbers of a view in host memory: a copy, or where they are, until the next step changes them.
template <class View>
std::shared_ptr<const typename View::non_const_value_type> numbers_on_host(const View& view, bool copied) {
  using T = typename View::non_const_value_type;
  if constexpr (runs_on_host)
    if (!copied && host_in_place()) {
      Kokkos::fence("halogen::checkpoint");
      return {std::shared_ptr<void>(), view.data()};
    }
  const auto own = std::make_shared<const HostArray<T>>(host_copy(view));
  return {own, own->data()};
}

/// Numbers [begin, end) of an array, which begin at `values`.
template <class T>
CheckpointPiece checkpoint_piece(const std::string& array, index_t begin, index_t end, const T* values,
                                 std::shared_ptr<const void> owner) {
  return {array, begin, end, std::as_bytes(std::span(values, static_cast<std::size_t>(end - begin))), std::move(owner)};
}

/// Adds what this rank writes, copied or not: of parameters that all ranks hold each one its part.
template <class ModelType, class T>
void add_pieces(std::vector<CheckpointPiece>& pieces, const std::string& array, const Parameters<ModelType, T>& values,
                const Communicator& world, bool copied) {
  const auto [begin, end] = even_part(0, values.size(), world.rank(), world.size());
  if (begin == end) return;
  const auto own =
      numbers_on_host(Kokkos::subview(values.view(), std::pair<std::size_t, std::size_t>(begin, end)), copied);
  pieces.push_back(checkpoint_piece(array, begin, end, own.get(), own));
}

/// Of sharded ones its pieces, of which groups that hold the same write each a part, and a part of the buffers.
template <class ModelType, class T>
void add_pieces(std::vector<CheckpointPiece>& pieces, const std::string& array,
                const Parameters<ModelType, T, Shard<0>>& values, const Communicator& world, bool copied) {
  const ParameterSharding& sharding = *values.sharding();
  const auto own = numbers_on_host(values.view(), copied);
  const auto add = [&](const ParameterBuckets::Bucket& bucket, index_t first, const Communicator& holders) {
    const auto [begin, end] =
        even_part(first, std::max(first, std::min(first + bucket.piece, bucket.end)), holders.rank(), holders.size());
    if (begin < end)
      pieces.push_back(checkpoint_piece(array, begin, end, own.get() + bucket.offset + (begin - first), own));
  };
  for (const ParameterBuckets::Bucket& bucket : sharding.buckets)
    add(bucket, bucket.begin + bucket.piece * sharding.group.rank(), sharding.replicas);
  if (values.has_buffers()) add(sharding.buckets.buffers(), sharding.buckets.buffers().begin, world);
}

/// What of an array this rank reads from the files: its part of parameters that all hold, its pieces of sharded ones.
template <class ModelType, class T>
std::vector<T> own_numbers(const Parameters<ModelType, T>& values, CheckpointReader& reader,
                           const std::vector<CheckpointRun>& runs, const Communicator& world) {
  const auto [begin, end] = even_part(0, values.size(), world.rank(), world.size());
  return numbers_of<T>(reader, runs, begin, end);
}
template <class ModelType, class T>
std::vector<T> own_numbers(const Parameters<ModelType, T, Shard<0>>& values, CheckpointReader& reader,
                           const std::vector<CheckpointRun>& runs, const Communicator&) {
  std::vector<T> all;
  const auto read = [&](index_t begin, index_t end) {
    const auto piece = numbers_of<T>(reader, runs, begin, std::max(begin, end));
    all.insert(all.end(), piece.begin(), piece.end());
  };
  for (const ParameterBuckets::Bucket& bucket : values.sharding()->buckets) {
    const index_t first = bucket.begin + bucket.piece * values.sharding()->group.rank();
    read(first, std::min(first + bucket.piece, bucket.end));
  }
  const ParameterBuckets::Bucket buffers = values.sharding()->buckets.buffers();
  if (values.has_buffers()) read(buffers.begin, buffers.end);
  return all;
}

/// Collective: sets an array from what each rank has read. Those that all hold are sent by a broadcast of each part.
template <class ModelType, class T>
void set_from_own(Parameters<ModelType, T> values, const std::vector<T>& own, const Communicator& world) {
  std::vector<T> all(static_cast<std::size_t>(values.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto [begin, end] = even_part(0, values.size(), rank, world.size());
    if (rank == world.rank()) std::copy(own.begin(), own.end(), all.begin() + begin);
    world.broadcast(all.data() + begin, static_cast<std::size_t>(end - begin) * sizeof(T), rank);
  }
  values.copy_from_host(all);
}
template <class ModelType, class T>
void set_from_own(Parameters<ModelType, T, Shard<0>> values, const std::vector<T>& own, const Communicator&) {
  std::size_t next = 0;
  values.fill([&](const ParameterBuckets::Bucket&) { return [&](index_t) { return own[next++]; }; });
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

/// Collective: the manifest of a checkpoint whose shares are all there as they were written; each rank looks at some.
/// Throws CollectiveError on all ranks.
inline CheckpointManifest whole_manifest(const fs::path& folder, const Communicator& world) {
  const std::string text = text_of_root(
      agree(world,
            [&] { return world.rank() == 0 ? text_in(folder / manifest_file, longest_manifest) : std::string(); }),
      world);
  return agree(world, [&] {
    CheckpointManifest manifest;
    try {
      manifest = parse_manifest(text);
    } catch (const std::exception& error) {
      throw Error("'" + (folder / manifest_file).string() + "': " + error.what());
    }
    for (std::size_t i = 0; i < manifest.shares.size(); ++i)
      if (i % static_cast<std::size_t>(world.size()) == static_cast<std::size_t>(world.rank()))
        check_share(folder, manifest.shares[i]);
    return manifest;
  });
}

/// Collective: sets a trainer's parameters, moments, average and number of steps; nothing has changed where it throws
/// CollectiveError, on all ranks. Of a folder each rank reads what it needs; a file is read by rank 0, which alone has
/// its contents, and sends it.
template <class AnyTrainer>
void set_from_checkpoint(AnyTrainer& trainer, const CheckpointContents& contents, const Communicator& world,
                         const LoadOptions& options) {
  using Held = std::remove_cvref_t<decltype(trainer.parameters())>;
  using ModelType = typename Held::model_type;
  using T = typename Held::value_type;
  const CheckpointManifest& manifest = contents.manifest;
  const Graph& graph = Held::graph();
  std::int64_t steps = manifest.step;
  const auto own = agree(world, [&] {
    std::vector<std::vector<T>> numbers;
    if (contents.is_file && world.rank() != 0) return numbers;
    refuse_other_schedule(contents.path.string(), manifest.schedule, trainer.optimizer_state().settings().schedule,
                          options);
    if (!contents.is_file && manifest.dtype != dtype_name<T>())
      contents.refuse(" holds " + manifest.dtype + ", but the trainer " + dtype_name<T>() +
                      ": give it a trainer of that value type");
    CheckpointReader reader(contents);
    const std::vector<std::string> unexpected = unexpected_in(contents, parameter_names<ModelType>());
    for_each_array(trainer, [&](const std::string& array, const auto& values) {
      const auto runs = runs_in<T>(contents, checkpoint_tensors<ModelType, T>(array), unexpected);
      numbers.push_back(contents.is_file ? numbers_of<T>(reader, runs, 0, graph.parameter_count + graph.buffer_count)
                                         : own_numbers(values, reader, runs, world));
    });
    return numbers;
  });
  std::size_t next = 0;
  for_each_array(trainer, [&](const std::string&, const auto& values) {
    if (contents.is_file)
      set_from_root(values, world.rank() == 0 ? own[next++] : std::vector<T>(), world);
    else
      set_from_own(values, own[next++], world);
  });
  if (contents.is_file) world.broadcast(&steps, sizeof steps, 0);
  trainer.optimizer_state().set_steps(steps);
}

}  // namespace halogen::detail
