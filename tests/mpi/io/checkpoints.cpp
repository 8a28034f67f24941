// program: sharded_parameters
// reads: convolutions
// Checkpoints in folders: what each rank writes, that a training goes on with the same bits, that what is not whole is
// passed over, and fit, ended and begun again.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <halogen/io/checkpoint.hpp>
#include <halogen/io/fit.hpp>
#include <set>

#include "halogen/layers/batch_norm.hpp"
#include "support/convolutions.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"
#include "support/train_once.hpp"

namespace test_checkpoints {

namespace {

namespace fs = std::filesystem;
/// With running statistics, which no rank shards.
template <int Base>
using NetOf = hg::Sequential<hg::BatchNorm2d<3>, hg::UNet<3, 1, Base, hg::Boundary<hg::Zero, hg::Zero>, 2>>;
using Net = NetOf<4>;
using Sharding = hg::ShardParameters<"data">;
constexpr hg::AdamW settings{.lr = 1e-2};

/// A folder of this number of ranks that is not there yet, and goes with the object.
struct Folder {
  fs::path path;
  explicit Folder(const std::string& name = "checkpoints")
      : path(fs::temp_directory_path() / ("halogen_" + name + "_" + support::run_name(support::world().size()))) {
    remove();
  }
  ~Folder() { remove(); }
  void remove() const {
    support::world().barrier();
    if (support::world().rank() == 0) fs::remove_all(path);
    support::world().barrier();
  }
};

/// f() by rank 0, seen by all.
template <class F>
void on_root(F f) {
  support::world().barrier();
  if (support::world().rank() == 0) f();
  support::world().barrier();
}

struct Batch {
  support::Field<float, 3> x;
  support::Field<float, 1> y;
  explicit Batch(const hg::DeviceMesh<support::Mesh>& mesh, unsigned seed)
      : x(hg::distribute_tensor<support::Field<float, 3>>(mesh, {12, 3, 24, 24},
                                                          support::numbers<float>(12 * 3 * 24 * 24, seed))),
        y(hg::distribute_tensor<support::Field<float, 1>>(mesh, {12, 1, 24, 24},
                                                          support::numbers<float>(12 * 24 * 24, seed + 100))) {}
  double step(auto& trainer) const { return trainer.step(hg::mse, x, y).item(); }
};

std::vector<float> whole(const auto& trainer) {
  if constexpr (requires { trainer.parameters().sharding(); })
    return hg::redistribute<hg::Replicate>(trainer.parameters()).to_host();
  else
    return trainer.parameters().to_host();
}

/// This rank alone. The first call is collective.
const hg::Communicator& itself() {
  static const hg::Communicator alone = support::world().split(support::world().rank(), 0, "alone");
  return alone;
}

/// One byte of a file becomes another.
void flip_bit(const fs::path& file, std::uint64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const char flipped = static_cast<char>(stream.get() ^ 4);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(flipped);
}

}  // namespace

TEST_CASE("a training goes on from a folder with the same bits, replicated and sharded in any combination") {
  const hg::Communicator world = support::world();
  itself();
  const auto meshes = support::meshes(6);
  for (const std::size_t m : std::set<std::size_t>{0, meshes.size() / 2, meshes.size() - 1}) {
    const auto& mesh = meshes[m];
    CAPTURE(support::text(mesh));
    const Folder folder;
    const Batch batch(mesh, 1);
    hg::Trainer one(Net{}, settings, mesh, {.seed = 5, .average = 0.9}),
        again(Net{}, settings, mesh, {.seed = 6, .average = 0.9});
    hg::Trainer sharded(Net{}, settings, mesh, {.seed = 7, .average = 0.9}, hg::shard_parameters<"data">);
    hg::Trainer other(Net{}, settings, mesh, {.seed = 8, .average = 0.9}, Sharding{.bucket_bytes = 5000});
    hg::Checkpoints checkpoints(folder.path);
    CHECK(!checkpoints.load_newest(again));
    for (int i = 0; i < 3; ++i) batch.step(one);
    checkpoints.save(one, {{"day", 17}, {"best", -HUGE_VAL}, {"losses", {0.25, std::nan("")}}});
    const auto found = checkpoints.load_newest(again);
    REQUIRE(found);
    CHECK(found->step == 3);
    CHECK(found->more["day"] == 17);
    CHECK(found->more["best"] == -HUGE_VAL);
    CHECK(found->more["losses"][0] == 0.25);
    CHECK(std::isnan(found->more["losses"][1].get<double>()));
    CHECK(found->folder == folder.path / "step-0000000003");
    CHECK(whole(again) == whole(one));
    CHECK(again.averaged_parameters().to_host() == one.averaged_parameters().to_host());
    checkpoints.load_newest(sharded);
    CHECK(whole(sharded) == whole(one));
    batch.step(sharded);
    checkpoints.save(sharded);  // by piece
    checkpoints.load_newest(other);
    CHECK(other.optimizer_state().steps() == 4);
    CHECK(whole(other) == whole(sharded));
    const double loss = batch.step(sharded);
    CHECK(batch.step(other) == doctest::Approx(loss).epsilon(1e-5));
    hg::load_checkpoint(folder.path / "step-0000000003", sharded, world);  // with the buckets that it was trained with
    batch.step(sharded);
    CHECK(batch.step(sharded) == loss);
    for (int i = 0; i < 2; ++i) CHECK(batch.step(one) == batch.step(again));
    CHECK(whole(one) == whole(again));

    // each number of parameters, two moments and an average once, replicated ones shared out evenly
    for (const int step : {3, 4}) {
      const fs::path path = folder.path / hg::detail::checkpoint_name(step, 1);
      const auto manifest = hg::detail::parse_manifest(hg::detail::text_in(path / "manifest.json", 1 << 20));
      std::vector<hg::index_t> of_share(manifest.shares.size());
      for (const auto& place : manifest.places) of_share[place.share] += place.end - place.begin;
      const hg::index_t all = hg::Parameters<Net, float>::count + 3 * hg::Parameters<Net, float>::trained;
      CHECK(std::accumulate(of_share.begin(), of_share.end(), hg::index_t{0}) == all);
      if (step == 3) {
        CHECK(of_share.size() == static_cast<std::size_t>(world.size()));
        for (const hg::index_t count : of_share) CHECK(std::abs(count - all / world.size()) <= 4);
      }
    }
    if (world.rank() == 0) {
      const fs::path file = folder.path / "exported.safetensors";
      hg::export_safetensors(folder.path / "step-0000000003", file);
      auto read = hg::initial_parameters<Net, float>(7);
      hg::load_parameters(file, read, itself());
      const auto all = read.to_host();
      const auto first = hg::read_safetensors_header(file).front().tensor;
      CHECK(first.name == hg::parameter_names<Net>().front());
      hg::Trainer alone(Net{}, settings, hg::device_mesh<support::Mesh>(itself(), {1, 1, 1}),
                        {.seed = 1, .average = 0.9});
      hg::load_checkpoint(folder.path / "step-0000000003", alone, itself());  // on one rank of many
      CHECK(alone.parameters().to_host() == all);
    }
    world.barrier();
  }
}

TEST_CASE("written by a thread, a checkpoint is of the state at the call; older ones go") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  itself();
  const Folder folder;
  const Batch batch(mesh, 1);
  hg::Trainer one(Net{}, settings, mesh, {.seed = 5, .average = 0.9}),
      again(Net{}, settings, mesh, {.seed = 6, .average = 0.9});
  std::vector<float> at_call;
  {
    hg::Checkpoints checkpoints(folder.path, {.keep_last = 2, .asynchronous = true});
    for (int i = 0; i < 4; ++i) {
      batch.step(one);
      at_call = whole(one);
      checkpoints.save(one);
    }
    for (int i = 0; i < 2; ++i) batch.step(one);
    checkpoints.wait();
    CHECK(checkpoints.poll());
    const auto found = checkpoints.load_newest(again);
    REQUIRE(found);
    CHECK(found->step == 4);
    CHECK(whole(again) == at_call);
    CHECK(whole(one) != at_call);
    on_root([&] {
      CHECK(hg::detail::checkpoints_in(folder.path) ==
            std::vector<fs::path>{folder.path / "step-0000000004", folder.path / "step-0000000003"});
      CHECK(support::refusal([&] {  // as another process would
              hg::Trainer alone(Net{}, settings, hg::device_mesh<support::Mesh>(itself(), {1, 1, 1}),
                                {.seed = 1, .average = 0.9});
              hg::Checkpoints(folder.path).save(alone);
            }) == "cannot write checkpoints to '" + folder.path.string() +
                      "': another process writes checkpoints to '" + folder.path.string() +
                      "': give this run a folder of its own");
    });
    checkpoints.save(again);  // step 4 a second time
    checkpoints.wait();
    on_root([&] { CHECK(hg::detail::checkpoints_in(folder.path)[0] == folder.path / "step-0000000004.2"); });
  }
}

TEST_CASE("what is not whole is passed over") {
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 1, -1});
  const Batch batch(mesh, 1);
  hg::Trainer one(Net{}, settings, mesh, {.seed = 5, .average = 0.9});
  const auto damaged = [&](auto damage, hg::index_t expected) {
    const Folder folder;
    hg::Checkpoints checkpoints(folder.path);
    for (int i = 0; i < 2; ++i) {
      one.optimizer_state().set_steps(i + 1);
      checkpoints.save(one);
    }
    on_root([&] { damage(folder.path / "step-0000000002"); });
    const auto found = checkpoints.load_newest(one);
    CHECK((found ? found->step : -1) == expected);
  };
  const auto last_share = [&](const fs::path& path) {
    return path / ("share-0000" + std::to_string(world.size() - 1) + ".safetensors");
  };
  damaged([](const fs::path&) {}, 2);
  damaged([&](const fs::path& path) { flip_bit(last_share(path), fs::file_size(last_share(path)) - 1); }, 1);
  damaged([&](const fs::path& path) { flip_bit(last_share(path), 12); }, 1);
  damaged([&](const fs::path& path) { fs::resize_file(last_share(path), fs::file_size(last_share(path)) - 1); }, 1);
  damaged([&](const fs::path& path) { fs::remove(last_share(path)); }, 1);
  damaged([&](const fs::path& path) { fs::remove(path / "manifest.json"); }, 1);
  damaged([&](const fs::path& path) { std::ofstream(path / "manifest.json") << "of somebody else"; }, 1);
  for (const std::uint64_t at : {3u, 20u, 70u, 150u, 400u, 900u})
    damaged([&](const fs::path& path) { flip_bit(path / "manifest.json", at); }, 1);
  damaged([&](const fs::path& path) { fs::create_directory(path.parent_path() / ".step-0000000003.partial"); }, 2);
  damaged([&](const fs::path& path) { fs::create_directory(path.parent_path() / "step-0000000003"); }, 2);
  damaged([&](const fs::path& path) { fs::create_directory(path.parent_path() / "step-3"); }, 2);
  damaged(
      [&](const fs::path& path) {
        fs::remove(last_share(path));
        fs::remove(path.parent_path() / "step-0000000001" / "manifest.json");
      },
      -1);
}

TEST_CASE("a checkpoint of another model or value type is refused, alike on all ranks, and changes nothing") {
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  const Folder folder;
  hg::Trainer one(Net{}, settings, mesh, {.seed = 5, .average = 0.9});
  hg::Checkpoints checkpoints(folder.path);
  checkpoints.save(one);
  const std::string path = "'" + (folder.path / "step-0000000000").string() + "'";
  hg::Trainer wider(NetOf<6>{}, settings, mesh, {.seed = 6});
  const auto before = whole(wider);
  const std::string sentence = support::refusal<hg::CollectiveError>([&] { checkpoints.load_newest(wider); });
  const std::string shapes =
      ": tensor '1.enc1.0.weight' is F32 (4 x 3 x 3 x 3), but the model's is F32 (6 x 3 x 3 x 3); tensor '";
  CHECK(sentence.substr(0, (path + shapes).size()) == path + shapes);
  CHECK(sentence.ends_with(" more: give a checkpoint of this model and value type"));
  CHECK(whole(wider) == before);
  const fs::path file = folder.path / "one.safetensors";
  hg::save_checkpoint(file, one, world);
  const std::string of_file = support::refusal<hg::CollectiveError>([&] { hg::load_checkpoint(file, wider, world); });
  CHECK(of_file.substr(0, of_file.find(shapes)) == "'" + file.string() + "'");
  CHECK(of_file.ends_with(": give a file of this model and value type"));
  CHECK(whole(wider) == before);
  hg::Trainer<Net, hg::AdamW, support::Mesh, double> fine(Net{}, settings, mesh, {.seed = 6});
  CHECK(support::refusal<hg::CollectiveError>([&] { checkpoints.load_newest(fine); }) ==
        path + " holds F32, but the trainer F64: give it a trainer of that value type");
  hg::Trainer plain(Net{}, settings, mesh, {.seed = 5});
  checkpoints.save(plain);  // the second of step 0
  const std::string lacks = support::refusal<hg::CollectiveError>([&] { checkpoints.load_newest(one); });
  CHECK(lacks.find(": there is no tensor 'optimizer.average.0.weight', ") != std::string::npos);
  const std::string way_out =
      ": give a checkpoint of this model and value type, written by a trainer with this "
      "optimiser, or take its parameters alone by load_parameters";
  CHECK(lacks.ends_with(way_out));
}

TEST_CASE("the first tensor with a number that is not finite is named, whole and sharded, buffers too") {
  using Whole = hg::Trainer<Net, hg::AdamW, support::Mesh, double>;
  using Cut = hg::Trainer<Net, hg::AdamW, support::Mesh, double, Sharding>;
  const auto& shapes = hg::Parameters<Net, double>::graph().parameters;
  const auto names = hg::parameter_names<Net>();
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {-1, 1, 1});
  Whole whole(Net{}, settings, mesh);
  Cut cut(Net{}, settings, mesh, {}, Sharding{.bucket_bytes = 2000});
  const std::vector<double> sound = whole.parameters().to_host();
  CHECK(hg::detail::words_about_parameters(whole) == "all parameters are finite after it");
  CHECK(hg::detail::words_about_parameters(cut) == "all parameters are finite after it");
  for (int p = 0; p < shapes.size(); ++p) {
    std::vector<double> broken = sound;
    broken[static_cast<std::size_t>(shapes[p].offset + shapes[p].count - 1)] = std::nan("");
    if (p + 1 < shapes.size()) broken[static_cast<std::size_t>(shapes[p + 1].offset)] = 1 / 0.0;
    hg::Parameters<Net, double>(whole.parameters()).copy_from_host(broken);
    auto shards = cut.parameters();
    shards.fill([&](const auto&) { return [&](hg::index_t i) { return broken[static_cast<std::size_t>(i)]; }; });
    const std::string words =
        "parameter '" + names[static_cast<std::size_t>(p)] + "' is the first that is not finite after it";
    CHECK(hg::detail::words_about_parameters(whole) == words);
    CHECK(hg::detail::words_about_parameters(cut) == words);
  }
}

TEST_CASE("fit, ended and begun again, does what it does in one go") {
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  const Folder folder;
  int stop_after = 0, made = 0;  // batches, of the last rank
  const auto data = hg::batches(3, [&](hg::index_t i) {
    if (++made == stop_after && world.rank() == world.size() - 1) std::raise(SIGTERM);
    const Batch batch(mesh, static_cast<unsigned>(i));
    return hg::Batch{batch.x, batch.y};
  });
  const auto run = [&](auto& trainer, const hg::FitCheckpoints& kept) {
    made = 0;
    return hg::fit(trainer, hg::mse, data,
                   {.epochs = 3,
                    .seed = 4,
                    .metrics = folder.path.string() + ".jsonl",
                    .progress = hg::Progress::none,
                    .checkpoints = kept});
  };
  const auto lines = [&] {
    std::ifstream file(folder.path.string() + ".jsonl");
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  };
  hg::Trainer one(Net{}, settings, mesh, {.seed = 5, .average = 0.9});
  const auto expected = run(one, {});
  CHECK(!expected.stopped);

  hg::FitHistory history;
  int starts = 0;
  for (history.stopped = true; history.stopped; ++starts) {
    hg::Trainer trainer(Net{}, settings, mesh, {.seed = 5, .average = 0.9});
    if (starts % 2 == 0) {  // by a signal that one rank gets in its second step, and by a time limit after one
      stop_after = 2;
      history = run(trainer, {.folder = folder.path, .every_steps = 100});
    } else {
      stop_after = 0;
      history = run(trainer, {.folder = folder.path, .time_limit = 1e-9, .asynchronous = false});
    }
    REQUIRE(starts < 10);
    if (!history.stopped || history.size() == 3) {
      CHECK(whole(trainer) == whole(one));
      CHECK(trainer.averaged_parameters().to_host() == one.averaged_parameters().to_host());
    }
  }
  CHECK(starts == 7);  // 2, 1, 2, 1, 2, 1 steps, and one start that finds all done
  REQUIRE(history.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(history[i].loss == expected[i].loss);
    CHECK(history[i].step == expected[i].step);
  }
  on_root([&] { CHECK(lines() == 3); });

  hg::Trainer again(Net{}, settings, mesh, {.seed = 5, .average = 0.9});
  const std::string other = support::refusal<hg::CollectiveError>(
      [&] { hg::fit(again, hg::mse, data, {.epochs = 3, .seed = 5, .checkpoints = {.folder = folder.path}}); });
  CHECK(other.find("is of a run with batches and order {\"batches\":3,\"seed\":4,\"shuffle\":true}, this one has") !=
        std::string::npos);

  const Folder elsewhere("other_checkpoints");
  const auto broken = hg::batches(2, [&](hg::index_t i) {
    Batch batch(mesh, 1);
    if (i == 1) batch.x = batch.x / 0.f;
    return hg::Batch{batch.x, batch.y};
  });
  const std::string sentence = support::refusal<hg::CollectiveError>([&] {
    hg::fit(again, hg::mse, broken,
            {.shuffle = false, .checkpoints = {.folder = elsewhere.path, .every_steps = 1, .asynchronous = false}});
  });
  CHECK(sentence.find("; the last checkpoint is '" + (elsewhere.path / "step-").string()) != std::string::npos);
  on_root([&] { fs::remove(folder.path.string() + ".jsonl"); });
}

TEST_CASE("a run whose held-out loss is not finite goes on") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const Folder folder;
  const auto data_of = [&](float scale) {
    return hg::batches(1, [&mesh, scale](hg::index_t) {
      Batch batch(mesh, 1);
      batch.y = batch.y * scale;
      return hg::Batch{batch.x, batch.y};
    });
  };
  for (const hg::index_t epochs : {1, 2}) {
    hg::Trainer trainer(Net{}, settings, mesh, {.seed = 5, .average = 0.9});
    const auto history = hg::fit(trainer, hg::mse, data_of(1),
                                 {.epochs = epochs,
                                  .metrics = folder.path.string() + ".jsonl",
                                  .progress = hg::Progress::none,
                                  .checkpoints = {.folder = folder.path}},
                                 data_of(std::nanf("")));
    REQUIRE(history.size() == static_cast<std::size_t>(epochs));
    CHECK(std::isnan(history[0].held_out.value()));
    CHECK(history[0].loss > 0);
  }
  on_root([&] {
    std::ifstream file(folder.path.string() + ".jsonl");
    std::string line;
    std::getline(file, line);
    CHECK(line.find("\"held_out\":NaN,") != std::string::npos);
    fs::remove(folder.path.string() + ".jsonl");
  });
}

TEST_CASE("a path that the system refuses is told on all ranks, with what to do") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const Folder folder;
  on_root([&] {
    fs::create_directories(folder.path);
    std::ofstream(folder.path / "file") << "x";
  });
  hg::Trainer trainer(Net{}, settings, mesh, {.seed = 5});
  const std::string in = folder.path.string(), long_name(300, 'n');
  const auto said = [&](auto f) { return support::refusal<hg::CollectiveError>(f); };
  const auto save_in = [&](const fs::path& path) { return said([&] { hg::Checkpoints(path).save(trainer); }); };
  CHECK(save_in(folder.path / "file") ==
        "cannot write checkpoints to '" + in + "/file': it is no folder: remove it, or give another path");
  CHECK(save_in(folder.path / "file" / "run") == "cannot write checkpoints to '" + in + "/file/run': '" + in +
                                                     "/file' is no folder: remove it, or give another path");
  const std::string is_long =
      "': a name in it has 300 characters, more than the 255 that the system takes: give a shorter path";
  CHECK(save_in(folder.path / long_name) == "cannot write checkpoints to '" + in + "/" + long_name + is_long);
  CHECK(said([&] { hg::Checkpoints(folder.path / long_name).load_newest(trainer); }) ==
        "'" + in + "/" + long_name + is_long);
  CHECK(said([&] { hg::save_checkpoint(folder.path / "none" / "file", trainer, support::world()); }) ==
        "cannot write '" + in + "/none/file': there is no folder '" + in + "/none': make it, or give another path");
  CHECK(said([&] { hg::load_checkpoint(folder.path / "none", trainer, support::world()); }) ==
        "cannot read '" + in + "/none': there is no such file or folder: give the path of one that is there");
  CHECK(said([&] {
          const Batch batch(mesh, 1);
          const auto data = hg::batches(1, [&](hg::index_t) { return hg::Batch{batch.x, batch.y}; });
          hg::fit(trainer, hg::mse, data, {.metrics = folder.path / "none" / "run.jsonl"});
        }) == "cannot write '" + in + "/none/run.jsonl': there is no folder '" + in +
                  "/none': make it, or give another path");
}

TEST_CASE("what cannot be written beside the numbers is refused before anything is") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const Folder folder;
  hg::Trainer trainer(Net{}, settings, mesh, {.seed = 5});
  hg::Checkpoints checkpoints(folder.path);
  nlohmann::ordered_json deep = nlohmann::ordered_json::array();
  for (int level = 0; level < 200; ++level) deep = nlohmann::ordered_json::array({std::move(deep)});
  CHECK(support::refusal<hg::CollectiveError>([&] {
          checkpoints.save(trainer, {{"deep", deep}});
        }) ==
        "cannot write checkpoints to '" + folder.path.string() + "': it is nested deeper than the 100 levels allowed");
  checkpoints.save(trainer);
  on_root([&] {  // as 50,000 levels did by the stack
    std::ofstream(folder.path / "step-0000000000" / "manifest.json")
        << R"({"crc32":1,"contents":)" << std::string(50'000, '[') << std::string(50'000, ']') << "}";
  });
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::load_checkpoint(folder.path / "step-0000000000", trainer, support::world());
        }).ends_with("it is no manifest of a checkpoint: it is nested deeper than the 100 levels allowed"));
}

}  // namespace test_checkpoints
