// FieldDataset: samples of a time series, each rank its own piece, for hg::fit. The format is the store's: ZarrStore
// (zarr.hpp), NetcdfFile (netcdf.hpp), Hdf5File (hdf5.hpp), several of them (ConcatenatedStore), or one's own.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <mutex>

#include "halogen/io/data/channel_statistics.hpp"
#include "halogen/io/data/field_dataset_options.hpp"
#include "halogen/io/fit.hpp"

namespace halogen {

/// Samples of a store as batches: data[i] is hg::Batch{image, label}, or {image, label, mask} where Mask is a field of
/// one channel: 1 where all targets are there, 0 elsewhere. Missing numbers (NaN) are 0 after normalisation; without a
/// mask missing targets are refused. Each rank reads the box of its own piece: samples too, where a mesh dimension cuts
/// them. Which samples a batch has depends on the seed alone, not on the mesh. prefetch(i), which hg::fit calls, reads
/// a batch by a thread while the one before it is trained on.
///
/// Statistics are of the times [statistics_first, statistics_last), computed once over all ranks and kept in a file,
/// which later runs and other meshes read: samples are then the same to the bit on every mesh. The file says of which
/// data they are (channel_statistics.hpp). Beside a store that holds other data now they are computed again; where the
/// file is named by the options they are refused. hg::fit keeps them in its checkpoints.
///
///   hg::FieldDataset<Image, Label> data(hg::ZarrStore("series.zarr"), mesh,
///                                       {.inputs = {"h", "u", "v"}, .targets = {"h", "u", "v"}, .samples = 4});
///   hg::fit(trainer, hg::mse, data, {.epochs = 10});
///
/// Collective over the mesh: the constructor and data[i]. CollectiveError with one sentence: what no store has, shapes
/// that differ, channels that do not make the fields', a damaged chunk.
template <class Image, class Label, class Mask = NoWeight>
class FieldDataset {
  static constexpr int spatial = Image::rank - 2;
  static constexpr bool has_mask = !std::is_same_v<Mask, NoWeight>;
  using T = typename Label::value_type;

 public:
  template <VariableStore Store>
  FieldDataset(const Store& store, const DeviceMesh<typename Image::mesh_type>& mesh, FieldDatasetOptions options)
      : mesh_(mesh), options_(std::move(options)) {
    const Communicator& world = mesh.world();
    const auto open = [&](const std::vector<std::string>& names, bool has_time) {
      for (const std::string& name : names)
        if (!arrays_.contains(name))
          arrays_.emplace(name, detail::SeriesVariable(AnyVariable(store.variable(world, name)), spatial, has_time));
    };
    open(options_.inputs, true);
    open(options_.targets, true);
    open(options_.statics, false);
    agree(world, [&] { check(); });
    std::vector<index_t> in{options_.samples, Image::tensor_type::extents[1]},
        out{options_.samples, Label::tensor_type::extents[1]};
    in.insert(in.end(), space_.begin(), space_.end());
    out.insert(out.end(), space_.begin(), space_.end());
    std::copy(in.begin(), in.end(), image_extents_.begin());
    std::copy(out.begin(), out.end(), label_extents_.begin());
    const detail::PointBox own = detail::piece_box(Image(mesh, image_extents_), mesh.rank());
    own_samples_ = {own.begin[0], own.begin[0] + own.extent[0]};
    own_ = {{own.begin.begin() + 2, own.begin.end()}, {own.extent.begin() + 2, own.extent.end()}};
    if (options_.normalise) {
      detail::StatisticsFile file{options_.statistics, !options_.statistics.empty(), options_.statistics_as_they_are,
                                  detail::statistics_of_checkpoint};
      if (!file.is_named)
        file.path = store.path().parent_path() / (store.path().filename().string() + ".statistics.json");
      detail::find_statistics(world, file, {options_.statistics_first, options_.statistics_last}, arrays_, statistics_,
                              [&](const std::string& name, Interval times) {
                                return detail::computed_statistics(world, arrays_.at(name), times, own_, turn_of());
                              });
    }
    statics_ = agree(world, [&] {
      std::vector<T> all;
      for (const std::string& name : options_.statics) append(all, name, 0);
      return all;
    });
  }

  FieldDataset(const FieldDataset&) = delete;
  FieldDataset& operator=(const FieldDataset&) = delete;

  index_t size() const { return static_cast<index_t>(order_.size()) / options_.samples; }

  auto operator[](std::size_t i) const {
    auto values = agree(mesh_.world(), [&] { return taken(i); });
    Image image(mesh_, image_extents_);
    Label label(mesh_, label_extents_);
    image.copy_from_host(values.image.data(), values.image.size());
    label.copy_from_host(values.label.data(), values.label.size());
    if constexpr (has_mask) {
      auto extents = label_extents_;
      extents[1] = 1;
      Mask mask(mesh_, extents);
      mask.copy_from_host(values.mask.data(), values.mask.size());
      return Batch(image, label, mask);
    } else {
      return Batch(image, label);
    }
  }

  /// Local: begins to read a batch.
  void prefetch(std::size_t i) const {
    if (static_cast<index_t>(i) < size() && !ahead_.contains(i))
      ahead_.emplace(i, std::async(std::launch::async, [this, i] { return read(i); }));
  }

  /// The image one step later, for a rollout: of the times the oldest is gone, and the last has the prediction's
  /// channels, by the names of their variables; statics stay. Points where the variable is missing at the first, the
  /// middle and the last time, as over land, are 0 as in the data. CollectiveError where an input is no target, or the
  /// targets are not one step after the last of consecutive input times.
  Image next(const Image& image, const Label& prediction) const {
    detail::require_next(options_);
    Image later = image.clone();
    index_t added = 0;
    for (const std::string& name : options_.inputs) added += arrays_.at(name).channels();
    const index_t kept = added * (static_cast<index_t>(options_.input_times.size()) - 1);
    const auto copy = [](const auto& to, const auto& from) { Kokkos::deep_copy(to, from); };
    copy(channels_in(later, 0, kept), channels_in(image, added, kept));
    const Label whole = at_missing(prediction, T(0));
    index_t at = kept;
    for (const std::string& name : options_.inputs) {
      const index_t count = arrays_.at(name).channels();
      copy(channels_in(later, at, count), channels_in(whole, first_channel_of(name), count));
      at += count;
    }
    return later;
  }

  /// Targets in their variables' own units: value * deviation + mean, by channel; NaN at the points that next() leaves
  /// 0.
  Label denormalised(const Label& label) const {
    std::vector<double> mean, deviation;
    for (std::size_t time = 0; time < options_.target_times.size(); ++time)
      for (const std::string& name : options_.targets) {
        const detail::ChannelStatistics& of = statistics_.at(name);
        mean.insert(mean.end(), of.mean.begin(), of.mean.end());
        deviation.insert(deviation.end(), of.deviation.begin(), of.deviation.end());
      }
    std::vector<T> values = label.to_host();
    const auto points = static_cast<std::size_t>(own_.points());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i / points % mean.size();
      values[i] = static_cast<T>(static_cast<double>(values[i]) * deviation[c] + mean[c]);
    }
    Label result = label.clone();
    result.copy_from_host(values.data(), values.size());
    return at_missing(result, std::numeric_limits<T>::quiet_NaN());
  }

  /// The channels of a label, in their order: "h" of a variable without channels, "z[0]", "z[1]" of one with them.
  std::vector<std::string> target_channels() const {
    std::vector<std::string> names;
    for (std::size_t time = 0; time < options_.target_times.size(); ++time)
      for (const std::string& name : options_.targets)
        for (index_t c = 0; c < arrays_.at(name).channels(); ++c)
          names.push_back(arrays_.at(name).has_channels() ? name + "[" + std::to_string(c) + "]" : name);
    return names;
  }

  /// The time of a batch's samples, in the order of their numbers.
  std::vector<index_t> times(std::size_t i) const {
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(i) * options_.samples;
    return {first, first + options_.samples};
  }
  /// Of a variable, by channel; of mean 0 and deviation 1 where the dataset does not normalise.
  const detail::ChannelStatistics& statistics(const std::string& name) const { return statistics_.at(name); }
  /// Of all variables, by name; null where the dataset does not normalise. hg::fit keeps it in its checkpoints; by
  /// hand: checkpoints.save(trainer, {{"statistics", data.all_statistics()}}).
  nlohmann::ordered_json all_statistics() const {
    return options_.normalise ? detail::json_of(statistics_) : nlohmann::ordered_json();
  }
  /// Of files, by this rank so far.
  std::uint64_t bytes_read() const {
    std::uint64_t bytes = 0;
    for (const auto& [name, array] : arrays_) bytes += array.bytes_read();
    return bytes;
  }
  /// Seconds in which batches were read, and of these what data[i] waited for.
  std::array<double, 2> seconds() const { return {read_seconds_, waited_}; }

 private:
  struct Values {
    std::vector<typename Image::value_type> image;
    std::vector<T> label, mask;
    double seconds = 0;
  };
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  /// Channels [first, first + count) of this rank's points.
  template <class Field>
  static auto channels_in(const Field& field, index_t first, index_t count) {
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      return Kokkos::subview(field.to_local(), Kokkos::ALL, std::pair<index_t, index_t>(first, first + count),
                             (static_cast<void>(D), Kokkos::ALL)...);
    }(std::make_index_sequence<static_cast<std::size_t>(spatial)>{});
  }

  [[noreturn]] static void refuse(const std::string& what) { throw Error("FieldDataset: " + what); }

  /// The channels of these variables, whose shapes must fit; `times` is the least number of times so far.
  index_t channels_of(const std::vector<std::string>& names, bool has_time, index_t& times) {
    index_t channels = 0;
    for (const std::string& name : names) {
      const detail::SeriesVariable& variable = arrays_.at(name);
      if (variable.has_time() != has_time) refuse("'" + name + "' is named as a static and as an input or target");
      if (!variable.fits())
        refuse("'" + name + "' is " + detail::text_of(variable.shape()) + ", but fields of " + std::to_string(spatial) +
               " dimensions want " + std::to_string(variable.least_rank()) + " or, with channels, " +
               std::to_string(variable.least_rank() + 1));
      const std::vector<index_t> space = variable.space();
      if (space_.empty()) space_ = space;
      if (space != space_)
        refuse("'" + name + "' has " + detail::text_of(space) + " points, but the variables before it " +
               detail::text_of(space_));
      if (has_time) times = times < 0 ? variable.times() : std::min(times, variable.times());
      channels += variable.channels();
      const auto count = static_cast<std::size_t>(variable.channels());
      statistics_[name] = {std::vector<double>(count, 0), std::vector<double>(count, 1)};
    }
    return channels;
  }

  /// Shapes, channels and times; makes the order of samples.
  void check() {
    if (options_.inputs.empty() || options_.targets.empty() || options_.input_times.empty() ||
        options_.target_times.empty())
      refuse("no inputs, targets, or times of them: name at least one each");
    index_t times = -1;
    const index_t in = channels_of(options_.inputs, true, times) * static_cast<index_t>(options_.input_times.size()) +
                       channels_of(options_.statics, false, times) + (options_.input_mask ? 1 : 0);
    const index_t out = channels_of(options_.targets, true, times) * static_cast<index_t>(options_.target_times.size());
    if (in != Image::tensor_type::extents[1] || out != Label::tensor_type::extents[1])
      refuse("inputs make " + std::to_string(in) + " channels and targets " + std::to_string(out) +
             ", but the fields have " + std::to_string(Image::tensor_type::extents[1]) + " and " +
             std::to_string(Label::tensor_type::extents[1]));
    if (options_.last < 0) options_.last = times;
    if (options_.statistics_first < 0) options_.statistics_first = options_.first;
    if (options_.statistics_last < 0) options_.statistics_last = options_.last;
    if (options_.statistics_first < 0 || options_.statistics_first >= options_.statistics_last ||
        options_.statistics_last > times)
      refuse("statistics of times " + std::to_string(options_.statistics_first) + " to " +
             std::to_string(options_.statistics_last) + " of " + std::to_string(times) + ": give one or more of them");
    index_t before = 0, after = 0;
    for (const auto& list : {options_.input_times, options_.target_times})
      for (const index_t time : list)  // held to what cannot be, which is refused below
        before = std::max(-times, std::min(before, time)), after = std::min(times, std::max(after, time));
    for (index_t t = options_.first - before; t + after < options_.last; ++t) order_.push_back(t);
    if (options_.first < 0 || options_.last > times || options_.samples < 1 ||
        static_cast<index_t>(order_.size()) < options_.samples)
      refuse("times " + std::to_string(options_.first) + " to " + std::to_string(options_.last) + " of " +
             std::to_string(times) + " make no batch of " + std::to_string(options_.samples) + " samples");
    if (options_.shuffle) detail::shuffle(order_, options_.seed, 0, RandomPurpose::samples);
  }

  /// Adds this rank's box of a variable, normalised, missing numbers as NaN.
  void append(std::vector<T>& all, const std::string& name, index_t time) const {
    const detail::SeriesVariable& variable = arrays_.at(name);
    const index_t channels = variable.channels(), points = own_.points();
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(channels * points));
    if (points == 0) return;
    variable.read(time, own_, all.data() + at);
    const detail::ChannelStatistics& of = statistics_.at(name);
    for (index_t c = 0; c < channels; ++c)
      for (index_t i = 0; i < points; ++i) {
        T& value = all[at + static_cast<std::size_t>(c * points + i)];
        value =
            static_cast<T>((value - of.mean[static_cast<std::size_t>(c)]) / of.deviation[static_cast<std::size_t>(c)]);
      }
  }

  Values read(std::size_t i) const {
    const auto begin = Clock::now();
    Values values;
    const std::vector<index_t> times = this->times(i);
    std::vector<T> image;
    for (index_t s = own_samples_.begin; s < own_samples_.end; ++s) {
      const index_t time = times[static_cast<std::size_t>(s)];
      const std::size_t begin_of_sample = image.size();
      for (const index_t step : options_.input_times)
        for (const std::string& name : options_.inputs) append(image, name, time + step);
      image.insert(image.end(), statics_.begin(), statics_.end());
      const auto points = static_cast<std::size_t>(own_.points());
      if (options_.input_mask) {
        std::vector<T> mask(points, T(1));
        for (std::size_t j = begin_of_sample; j < image.size(); ++j)
          if (std::isnan(image[j])) mask[(j - begin_of_sample) % points] = 0;
        image.insert(image.end(), mask.begin(), mask.end());
      }
      const std::size_t at = values.label.size();
      for (const index_t step : options_.target_times)
        for (const std::string& name : options_.targets) append(values.label, name, time + step);
      if constexpr (has_mask) values.mask.resize(values.mask.size() + points, T(1));
      for (std::size_t j = at; j < values.label.size(); ++j) {
        if (!std::isnan(values.label[j])) continue;
        if constexpr (has_mask)
          values.mask[values.mask.size() - points + (j - at) % points] = 0;
        else
          throw Error("FieldDataset: a target misses numbers at time " + std::to_string(time) +
                      ": name a third field, the mask, FieldDataset<Image, Label, Mask>");
        values.label[j] = 0;
      }
    }
    for (T& value : image)
      if (std::isnan(value)) value = 0;
    values.image.assign(image.begin(), image.end());
    values.seconds = since(begin);
    return values;
  }

  /// What a thread has read, or is read now.
  Values taken(std::size_t i) const {
    if (static_cast<index_t>(i) >= size())
      throw Error("FieldDataset: batch " + std::to_string(i) + " of " + std::to_string(size()) + " is asked for");
    const auto begin = Clock::now();
    auto ahead = ahead_.extract(i);
    Values values = ahead.empty() ? read(i) : ahead.mapped().get();
    read_seconds_ += values.seconds;
    waited_ += since(begin);
    return values;
  }

  /// Where a target's channels begin in a label.
  index_t first_channel_of(const std::string& target) const {
    index_t channel = 0;
    for (const std::string& name : options_.targets) {
      if (name == target) break;
      channel += arrays_.at(name).channels();
    }
    return channel;
  }

  /// Collective at its first call: for each target's channels and this rank's points whether they are always missing;
  /// empty where none is.
  const std::vector<char>& missing_points() const {
    if (missing_) return *missing_;
    std::vector<char> all = agree(mesh_.world(), [&] {
      std::vector<char> all;
      for (const std::string& name : options_.targets) {
        const std::vector<char> of = detail::always_missing(arrays_.at(name), own_, {options_.first, options_.last});
        all.insert(all.end(), of.begin(), of.end());
      }
      return all;
    });
    int any = std::ranges::find(all, 1) != all.end() ? 1 : 0;
    mesh_.world().all_reduce(&any, 1, ReduceOp::max);
    if (any == 0) all.clear();
    return missing_.emplace(std::move(all));
  }

  /// The label, with `value` at points that are always missing.
  Label at_missing(const Label& label, T value) const {
    const std::vector<char>& missing = missing_points();
    if (missing.empty()) return label;
    std::vector<T> values = label.to_host();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (missing[i % missing.size()] != 0) values[i] = value;
    Label result = label.clone();
    result.copy_from_host(values.data(), values.size());
    return result;
  }

  /// This rank's number among the ranks whose box is the same, and how many they are.
  std::pair<index_t, index_t> turn_of() const {
    index_t turn = 0, turns = 1;
    for (int d = 0; d < Image::mesh_type::rank; ++d)
      if (Image::placements[static_cast<std::size_t>(d)] < 2) {  // cuts samples, or nothing
        turn = turn * mesh_.extent(d) + mesh_.coordinate(d);
        turns *= mesh_.extent(d);
      }
    return {turn, turns};
  }

  DeviceMesh<typename Image::mesh_type> mesh_;
  FieldDatasetOptions options_;
  std::map<std::string, detail::SeriesVariable> arrays_;
  std::vector<index_t> space_, order_;
  typename Image::Extents image_extents_;
  typename Label::Extents label_extents_;
  Interval own_samples_;
  detail::PointBox own_;
  std::map<std::string, detail::ChannelStatistics> statistics_;
  std::vector<T> statics_;
  mutable std::optional<std::vector<char>> missing_;
  mutable std::map<std::size_t, std::future<Values>> ahead_;
  mutable double read_seconds_ = 0, waited_ = 0;
};

}  // namespace halogen
