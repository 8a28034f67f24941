// What can be read of a checkpoint, by the names of its tensors. A file is read as a folder of one share. Nothing here
// is collective or knows a model's type. Opt-in: needs nlohmann-json and zlib.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/half.hpp"
#include "halogen/io/checkpoint/checkpoint_folder.hpp"
#include "halogen/tensor/field_size.hpp"

namespace halogen::detail {

/// A tensor by the name that it has in a file ("weight", "optimizer.exp_avg.weight"). Its numbers begin at `offset` of
/// one of the arrays that the shares hold.
struct CheckpointEntry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string array;
  index_t offset = 0;
};

struct CheckpointContents {
  fs::path path;  ///< of the folder or of the file
  bool is_file = false;
  CheckpointManifest manifest{};
  std::vector<CheckpointEntry> tensors{};

  fs::path folder() const { return is_file ? path.parent_path() : path; }
  const CheckpointEntry* find(std::string_view name) const {
    const auto found = std::ranges::find(tensors, name, &CheckpointEntry::name);
    return found == tensors.end() ? nullptr : &*found;
  }
  [[noreturn]] void refuse(const std::string& what) const { throw Error("'" + path.string() + "'" + what); }
};

/// What the tensors of a training's array begin with in a file: nothing for "parameters", "optimizer.exp_avg." for
/// "optimizer.exp_avg".
inline std::string prefix_of(const std::string& array) { return array == "parameters" ? "" : array + "."; }

inline CheckpointContents contents_of_folder(const fs::path& folder, CheckpointManifest manifest) {
  CheckpointContents contents{folder, false};
  std::set<std::string> arrays;
  for (const CheckpointPlace& place : manifest.places) arrays.insert(place.array);
  for (const std::string& array : arrays)
    for (const CheckpointTensor& tensor : manifest.tensors)
      contents.tensors.push_back({prefix_of(array) + tensor.name, manifest.dtype, tensor.shape, array, tensor.offset});
  contents.manifest = std::move(manifest);
  return contents;
}

/// Each tensor of the file is an array of its own.
inline CheckpointContents contents_of_file(const fs::path& file) {
  CheckpointContents contents{file, true};
  contents.manifest.shares.push_back({file.filename().string()});
  for (const TensorPlace& place : read_safetensors_header(file)) {
    const NamedTensor& tensor = place.tensor;
    const std::uint64_t width = std::max<std::uint64_t>(1, dtype_bytes(tensor.dtype));
    contents.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.name, 0});
    contents.manifest.places.push_back({tensor.name, 0, static_cast<index_t>(place.bytes / width), 0, place.begin});
  }
  return contents;
}

/// Whether T holds all numbers of that type exactly.
template <class T>
bool holds_exactly(const std::string& dtype) {
  if (dtype == dtype_name<T>()) return true;
  constexpr bool is_single = std::is_same_v<T, float>, is_double = std::is_same_v<T, double>;
  return ((is_single || is_double) && (dtype == "BF16" || dtype == "F16")) || (is_double && dtype == "F32");
}

/// Numbers of a checkpoint's arrays, wherever their pieces lie.
class CheckpointReader {
 public:
  explicit CheckpointReader(const CheckpointContents& contents) : contents_(contents) {
    for (const CheckpointPlace& place : contents.manifest.places) places_[place.array].push_back(&place);
  }

  /// [begin, end) of an array, stored as `dtype`, which T holds exactly. std::runtime_error where a number is in no
  /// share, or a share cannot be read.
  template <class T>
  void read(const std::string& array, const std::string& dtype, index_t begin, index_t end, T* to) {
    const auto converted = [&]<class S>(S) {
      std::vector<S> values(static_cast<std::size_t>(end - begin));
      read_bytes(array, sizeof(S), begin, end, values.data());
      std::ranges::transform(values, to, [](const S& value) { return static_cast<T>(value); });
    };
    if (dtype == dtype_name<T>())
      read_bytes(array, sizeof(T), begin, end, to);
    else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      if (dtype == "BF16") converted(bfloat16());
      if (dtype == "F16") converted(float16());
      if (dtype == "F32") converted(float());
    }
  }

  /// The same without a look at what the bytes are: `width` of each number.
  void read_bytes(const std::string& array, std::uint64_t width, index_t begin, index_t end, void* to) {
    index_t found = 0;
    for (const CheckpointPlace* const place : places_[array]) {
      const index_t first = std::max(begin, place->begin), last = std::min(end, place->end);
      if (first >= last) continue;
      file(place->share)
          .read(static_cast<std::byte*>(to) + static_cast<std::uint64_t>(first - begin) * width,
                static_cast<std::uint64_t>(last - first) * width,
                place->at + static_cast<std::uint64_t>(first - place->begin) * width);
      found += last - first;
    }
    if (found != end - begin)
      contents_.refuse(" holds " + std::to_string(found) + " of numbers " + std::to_string(begin) + " to " +
                       std::to_string(end) + " of '" + array + "': give a checkpoint of a trainer with these settings");
  }

 private:
  const PlacedFile& file(std::size_t share) {
    auto& opened = files_[share];
    if (!opened)
      opened = std::make_unique<PlacedFile>(contents_.folder() / contents_.manifest.shares[share].file, O_RDONLY);
    return *opened;
  }

  const CheckpointContents& contents_;
  std::map<std::string, std::vector<const CheckpointPlace*>> places_;
  std::map<std::size_t, std::unique_ptr<PlacedFile>> files_;
};

/// All numbers of one tensor, of exactly that type, or nothing where there is none.
template <class T>
std::optional<std::vector<T>> tensor_of(const CheckpointContents& contents, CheckpointReader& reader,
                                        const std::string& name) {
  const CheckpointEntry* const found = contents.find(name);
  if (found == nullptr) return std::nullopt;
  if (found->dtype != dtype_name<T>())
    contents.refuse(": tensor '" + name + "' holds " + found->dtype + ", not " + dtype_name<T>());
  std::size_t count = 1;
  for (const std::int64_t extent : found->shape) count *= static_cast<std::size_t>(extent);
  std::vector<T> values(count);
  reader.read(found->array, found->dtype, found->offset, found->offset + static_cast<index_t>(count), values.data());
  return values;
}

/// A run of a model's flat array, and where it begins in one of a checkpoint's.
struct CheckpointRun {
  index_t begin = 0, end = 0;
  std::string array, dtype;
  index_t from = 0;
};

/// Whether a stored tensor can be a model's, of T.
template <class T>
bool fits(const CheckpointEntry* stored, const CheckpointTensor& needed) {
  return stored != nullptr && same_but_for_ones(stored->shape, needed.shape) && holds_exactly<T>(stored->dtype);
}

/// Names in the checkpoint that are none of these, but for an optimiser's and the batches that PyTorch's norms count.
inline std::vector<std::string> unexpected_in(const CheckpointContents& contents,
                                              const std::vector<std::string>& names) {
  std::vector<std::string> unexpected;
  for (const CheckpointEntry& tensor : contents.tensors)
    if (std::ranges::find(names, tensor.name) == names.end() && !tensor.name.starts_with("optimizer.") &&
        !tensor.name.ends_with("num_batches_tracked"))
      unexpected.push_back(tensor.name);
  return unexpected;
}

/// Where the numbers of a model's tensors, of T, lie in a checkpoint. One Error names all that are missing or do not
/// fit, and where some are missing what else there is: `unexpected`.
template <class T>
std::vector<CheckpointRun> runs_in(const CheckpointContents& contents, const std::vector<CheckpointTensor>& model,
                                   const std::vector<std::string>& unexpected) {
  std::map<std::string_view, const CheckpointEntry*> by_name;
  for (const CheckpointEntry& tensor : contents.tensors) by_name[tensor.name] = &tensor;
  std::vector<CheckpointRun> runs;
  std::vector<std::string> missing, wrong;
  for (const CheckpointTensor& needed : model) {
    const auto found = by_name.find(needed.name);
    if (found == by_name.end()) {
      missing.push_back(needed.name);
      continue;
    }
    const CheckpointEntry& stored = *found->second;
    if (!fits<T>(&stored, needed))
      wrong.push_back("tensor '" + needed.name + "' is " + stored.dtype + " " + text_of(stored.shape) +
                      ", but the model's is " + dtype_name<T>() + " " + text_of(needed.shape));
    else if (!runs.empty() && runs.back().end == needed.offset && runs.back().array == stored.array &&
             runs.back().from - runs.back().begin == stored.offset - needed.offset)
      runs.back().end += needed.count;
    else
      runs.push_back({needed.offset, needed.offset + needed.count, stored.array, stored.dtype, stored.offset});
  }
  if (missing.empty() && wrong.empty()) return runs;
  std::vector<std::string> faults;
  if (!missing.empty()) faults.push_back("there is no tensor " + listed(missing));
  if (!wrong.empty()) faults.push_back(in_one_line(wrong, "; "));
  const bool of_optimizer =
      std::ranges::any_of(missing, [](const auto& name) { return name.starts_with("optimizer."); });
  if (!missing.empty() && !of_optimizer && !unexpected.empty())
    faults.push_back("the model has no tensor " + listed(unexpected));
  contents.refuse(": " + in_one_line(faults, "; ") + ": give a " + (contents.is_file ? "file" : "checkpoint") +
                  " of this model and value type" +
                  (of_optimizer ? ", written by a trainer with this optimiser, or take its parameters alone by "
                                  "load_parameters"
                                : ""));
}

/// Numbers [begin, end) of a model's flat array, to where they belong; others stay.
template <class T>
void read_numbers(CheckpointReader& reader, const std::vector<CheckpointRun>& runs, index_t begin, index_t end, T* to) {
  for (const CheckpointRun& run : runs) {
    const index_t first = std::max(begin, run.begin), last = std::min(end, run.end);
    if (first < last)
      reader.read(run.array, run.dtype, run.from + first - run.begin, run.from + last - run.begin,
                  to + (first - begin));
  }
}
/// The same, with zeros between the model's tensors.
template <class T>
std::vector<T> numbers_of(CheckpointReader& reader, const std::vector<CheckpointRun>& runs, index_t begin,
                          index_t end) {
  std::vector<T> numbers(static_cast<std::size_t>(end - begin));
  read_numbers(reader, runs, begin, end, numbers.data());
  return numbers;
}

}  // namespace halogen::detail
