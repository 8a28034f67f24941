// program: training
// ranks: 1 2 4 6
// Datasets over a store in memory: statistics that know of which data they are, in files and in checkpoints; rollouts
// by the names of variables, with points that are always missing. Beside values of plain loops.
#include <halogen/files.hpp>
#include <halogen/io/field_dataset.hpp>

#include <fstream>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_field_datasets {

namespace {

using hg::index_t;
namespace fs = std::filesystem;
constexpr index_t times = 9, height = 12, width = 11;

/// A variable that is computed: value(time, channel, y, x).
struct Computed {
  std::string called;
  std::vector<index_t> extents;
  std::function<double(index_t, index_t, index_t, index_t)> value;

  std::string name() const { return called; }
  const std::vector<index_t>& shape() const { return extents; }
  std::vector<std::string> dimension_names() const { return {}; }
  std::uint64_t bytes_read() const { return 0; }
  template <class T>
  void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, T* to) const {
    const std::size_t rank = extents.size();
    hg::detail::PointBox box{begin, extent};
    hg::detail::for_each_chunk(box, std::vector<index_t>(rank, 1), [&](const std::vector<index_t>& at) {
      *to++ = static_cast<T>(value(at[0], rank > 3 ? at[1] : 0, at[rank - 2], at[rank - 1]));
    });
  }
};
struct Store {
  fs::path file;
  std::map<std::string, Computed> variables;
  fs::path path() const { return file; }
  Computed variable(const hg::Communicator&, const std::string& name) const { return variables.at(name); }
};

double height_of(index_t t, index_t, index_t y, index_t x) {
  return y < 2 ? std::nan("") : std::sin(0.7 * static_cast<double>(t)) + 0.1 * static_cast<double>(y * x % 17);
}
double speed_of(index_t t, index_t level, index_t y, index_t x) {
  if (t == 3 && y == 5) return std::nan("");  // not always
  return static_cast<double>(50 * level) + static_cast<double>((t * 5 + y * 3 + x) % 19);
}
Store store_of(const std::string& name, double more = 0) {
  return {fs::temp_directory_path() / ("halogen_data_" + name + support::run_name(support::world().size())),
          {{"h", {"h", {times, height, width}, [more](auto... at) { return height_of(at...) + more; }}},
           {"v", {"v", {times, 2, height, width}, speed_of}}}};
}

using Image = support::Field<double, 6>;  // two times of h and two levels of v
using Label = support::Field<double, 3>;
using Mask = support::Field<double, 1>;
using Data = hg::FieldDataset<Image, Label, Mask>;

hg::FieldDatasetOptions options_of() {
  hg::FieldDatasetOptions options;  // in another order than that of their declaration
  options.samples = 2;
  options.target_times = {1};
  options.input_times = {-1, 0};
  options.targets = {"v", "h"};
  options.inputs = {"h", "v"};
  return options;
}

/// Mean and deviation of h, plus `more`.
std::array<double, 2> of_heights(double more = 0) {
  double sum = 0, squares = 0, count = 0;
  const auto each = [&](auto use) {
    for (index_t t = 0; t < times; ++t)
      for (index_t y = 2; y < height; ++y)
        for (index_t x = 0; x < width; ++x) use(height_of(t, 0, y, x) + more);
  };
  each([&](double value) { sum += value, ++count; });
  each([&](double value) { squares += (value - sum / count) * (value - sum / count); });
  return {sum / count, std::sqrt(squares / count)};
}
void check_heights(const Data& data, double more = 0) {
  const auto [mean, deviation] = of_heights(more);
  CHECK(data.statistics("h").mean[0] == doctest::Approx(mean).epsilon(1e-12));
  CHECK(data.statistics("h").deviation[0] == doctest::Approx(deviation).epsilon(1e-12));
}

/// Removes what a test has written.
struct Removed {
  std::vector<fs::path> paths;
  void now() const {
    support::world().barrier();
    if (support::world().rank() == 0)
      for (const fs::path& path : paths) fs::remove_all(path);
    support::world().barrier();
  }
  explicit Removed(std::vector<fs::path> all) : paths(std::move(all)) { now(); }
  ~Removed() { now(); }
};

}  // namespace

TEST_CASE(
    "statistics know of which data they are: of others they are computed again, or refused where they are named") {
  const Store store = store_of("known"), other = store_of("known", 3);
  Store one_number = store;
  one_number.variables.at("h").value = [](auto t, auto c, auto y, auto x) {
    return height_of(t, c, y, x) + (t == 4 && y == 7 && x == 3 ? 1e3 : 0);
  };
  const fs::path kept = store.file.string() + ".statistics.json", named = store.file.string() + ".named.json";
  const Removed removed({kept, named});
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    removed.now();
    check_heights(Data(store, mesh, options_of()));
    const auto text = [&] {
      support::world().barrier();
      std::ifstream file(kept);
      return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    const std::string first = text();
    const Data again(store, mesh, options_of());
    CHECK(text() == first);
    check_heights(Data(other, mesh, options_of()), 3);  // the store was written over: the same shape, other numbers
    CHECK(text() != first);
    check_heights(Data(store, mesh, options_of()));
    CHECK(text() == first);
    CHECK(Data(one_number, mesh, options_of()).statistics("h").mean[0] > of_heights()[0] + 0.5);

    hg::FieldDatasetOptions options = options_of();
    options.statistics = named;
    check_heights(Data(store, mesh, options));
    check_heights(Data(store, mesh, options));
    CHECK(support::refusal<hg::CollectiveError>([&] { Data(other, mesh, options); }) ==
          "FieldDataset: the statistics of 'h' in '" + named.string() +
              "' are not of this data (other values, or a file that does not say of which): remove the file, name "
              "another, or set statistics_as_they_are if they are meant");
    options.statistics_as_they_are = true;
    const Data foreign(other, mesh, options);
    check_heights(foreign);
    const auto values = hg::full_tensor(foreign[0].x);
    const double raw = height_of(foreign.times(0)[0] - 1, 0, 4, 5) + 3;
    const auto [mean, deviation] = of_heights();
    CHECK(values[4 * width + 5] == doctest::Approx((raw - mean) / deviation).epsilon(1e-12));
    options.statistics = kept.string() + ".none";
    CHECK(support::refusal<hg::CollectiveError>([&] { Data(store, mesh, options); }) ==
          "FieldDataset: '" + options.statistics.string() +
              "' has no statistics of 'h' with 1 channels, but those in it are to be taken as they are: name a file or "
              "a checkpoint that has them");
    options.statistics_as_they_are = false;
    options.statistics = "/proc/none/statistics.json";
    const std::string sentence = support::refusal<hg::CollectiveError>([&] { Data(store, mesh, options); });
    CHECK(sentence.find("FieldDataset: the statistics of this data cannot be kept in '/proc/none/statistics.json' (") ==
          0);
    CHECK(sentence.find("): name a file that can be written, {.statistics = ...}") != std::string::npos);
  }
}

TEST_CASE("a constant channel has the deviation 1, so that it is normalised to 0") {
  Store store = store_of("constant");
  store.variables.at("h").value = [](auto...) { return 7.5; };
  const Removed removed({store.file.string() + ".statistics.json"});
  removed.now();
  const auto mesh = support::meshes(2).back();
  const Data data(store, mesh, options_of());
  CHECK(data.statistics("h").mean[0] == 7.5);
  CHECK(data.statistics("h").deviation[0] == 1);
  const auto values = hg::full_tensor(data[0].x);
  for (const int channel : {0, 3}) {  // h at the times -1 and 0
    const auto of = values.begin() + channel * height * width;
    CHECK(std::count(of, of + height * width, 0.0) == height * width);
  }
}

TEST_CASE("a constant channel whose first points are missing has the deviation 1 as well") {
  Store store = store_of("constant_sea");
  store.variables.at("h").value = [](auto, auto, auto y, auto) { return y < 2 ? std::nan("") : 0.1; };
  const Removed removed({store.file.string() + ".statistics.json"});
  removed.now();
  const Data data(store, support::meshes(2).back(), options_of());
  CHECK(data.statistics("h").mean[0] == 0.1);
  CHECK(data.statistics("h").deviation[0] == 1);
}

TEST_CASE("a large variable is looked at in 64 boxes from its first to its last number") {
  const hg::detail::SeriesVariable large(
      hg::AnyVariable(Computed{"large", {1000, 3, 700, 900}, [](auto...) { return 0.0; }}), 2, true);
  const auto boxes = hg::detail::looked_at(large, {10, 1000});
  REQUIRE(boxes.size() == 64);
  index_t points = 0;
  bool first = false, last = false;
  for (const auto& [time, box] : boxes) {
    points += box.points();
    first = first || box.begin == std::vector<index_t>{0, 0, 0};
    last = last || (box.begin[0] + box.extent[0] == 3 && box.begin[1] + box.extent[1] == 700 &&
                    box.begin[2] + box.extent[2] == 900);
    for (std::size_t d = 0; d < 3; ++d) CHECK(box.begin[d] + box.extent[d] <= large.shape()[d + 1]);
  }
  CHECK(boxes.front().first == 10);
  CHECK(boxes.back().first == 999);
  CHECK(points <= index_t{1} << 22);
  CHECK(points > index_t{1} << 21);
  CHECK(first);
  CHECK(last);
}

TEST_CASE("statistics travel with the checkpoints of fit, which goes on with the same ones alone") {
  using Net = hg::Sequential<hg::Conv2d<6, 3>>;
  const Store store = store_of("fit"), other = store_of("fit", 3);
  const fs::path kept = store.file.string() + ".statistics.json", run = store.file.string() + ".run";
  const Removed removed({kept, run});
  const auto mesh = support::meshes(2).back();
  const auto train = [&](const auto& data, index_t epochs) {
    hg::Trainer<Net, hg::SGD, support::Mesh, double> trainer(Net{}, hg::SGD{.lr = 1e-3}, mesh);
    return hg::fit(trainer, hg::mse, data,
                   {.epochs = epochs, .progress = hg::Progress::none, .checkpoints = {.folder = run}});
  };
  train(Data(store, mesh, options_of()), 1);
  CHECK(train(Data(store, mesh, options_of()), 2).size() == 2);
  const std::string sentence =
      support::refusal<hg::CollectiveError>([&] { train(Data(other, mesh, options_of()), 3); });
  CHECK(sentence.find("' was trained on data with other statistics ('h' had mean ") != std::string::npos);
  CHECK(sentence.find("\"}, or this run a folder of its own") != std::string::npos);
  hg::FieldDatasetOptions options = options_of();
  options.statistics = run;
  const Data as_trained(other, mesh, options);
  check_heights(as_trained);
  CHECK(train(as_trained, 3).size() == 3);
  options.normalise = false;
  CHECK(support::refusal<hg::CollectiveError>([&] {
          train(Data(store, mesh, options), 4);
        }).find("' was trained on data with statistics, but this run's data has none") != std::string::npos);
}

TEST_CASE("the next image goes by names; what is always missing stays so, what is missing at times does not") {
  const Store store = store_of("next");
  const Removed removed({store.file.string() + ".statistics.json"});
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data data(store, mesh, options_of());
    CHECK(data.target_channels() == std::vector<std::string>{"v[0]", "v[1]", "h"});
    const auto batch = data[0];
    Label prediction = batch.y.clone();
    prediction = 0.0 * batch.y + 0.5;
    const auto before = hg::full_tensor(batch.x), later = hg::full_tensor(data.next(batch.x, prediction));
    const auto units = hg::full_tensor(data.denormalised(prediction));
    constexpr std::size_t points = height * width;
    bool right = true;
    for (std::size_t sample = 0; sample < 2; ++sample)
      for (std::size_t p = 0; p < points; ++p) {
        const bool is_land = p / width < 2;
        for (std::size_t c = 0; c < 3; ++c) {
          const std::size_t x = (sample * 6 + c) * points + p, y = (sample * 3 + c) * points + p;
          right = right && later[x] == before[x + 3 * points];                        // the older time
          right = right && later[x + 3 * points] == (c == 0 && is_land ? 0.0 : 0.5);  // h, v[0], v[1]
          const auto& of = data.statistics(c < 2 ? "v" : "h");
          const double expected = 0.5 * of.deviation[c % 2] + of.mean[c % 2];
          right = right && (c == 2 && is_land ? std::isnan(units[y]) : units[y] == expected);
        }
      }
    CHECK(right);
  }
  const auto mesh = support::meshes(2).back();
  hg::FieldDatasetOptions options = options_of();
  options.targets = {"v"};
  using Speeds = support::Field<double, 2>;
  const hg::FieldDataset<Image, Speeds, Mask> of_speeds(store, mesh, options);
  CHECK(
      support::refusal<hg::CollectiveError>([&] { of_speeds.next(of_speeds[0].x, of_speeds[0].y); }) ==
      "FieldDataset: there is no next image: the input 'h' is no target: name it as one, or as a static if it does not "
      "change");
  options = options_of();
  options.target_times = {2};
  const Data two_ahead(store, mesh, options);
  CHECK(support::refusal<hg::CollectiveError>([&] { two_ahead.next(two_ahead[0].x, two_ahead[0].y); }) ==
        "FieldDataset: there is no next image: the targets must be one step after the last of consecutive input times");
  options.target_times = {std::numeric_limits<index_t>::max()};
  CHECK(support::refusal<hg::CollectiveError>([&] { Data(store, mesh, options); }) ==
        "FieldDataset: times 0 to 9 of 9 make no batch of 2 samples");
  options = options_of();
  options.statics = {"h"};
  CHECK(support::refusal<hg::CollectiveError>([&] { Data(store, mesh, options); }) ==
        "FieldDataset: 'h' is named as a static and as an input or target");
}

}  // namespace test_field_datasets
