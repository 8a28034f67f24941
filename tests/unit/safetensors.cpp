// halogen/io/safetensors.hpp: what is written is read back, files of PyTorch are read, and every bad file is refused in
// one sentence that names it.
#include <doctest/doctest.h>

#if __has_include(<nlohmann/json.hpp>)
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <halogen/io/safetensors.hpp>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "support/refusal.hpp"

namespace {

namespace fs = std::filesystem;

/// A folder of this process, removed with what is in it.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("halogen_safetensors_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// A file with this header and so many bytes of data, as a program without any checks would write it.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + std::string(data_bytes, '\1');
}

void check_refused(const std::string& said, const std::vector<std::string>& words) {
  for (const auto& word : words) CHECK_MESSAGE(said.find(word) != said.npos, "no '", word, "' in: ", said);
  CHECK_MESSAGE(said.find('\n') == said.npos, said);
}

/// 242 bytes that safetensors.numpy.save of Python's safetensors 0.8.0 wrote for {"weight": float32 [[1.5, -2], [0.25,
/// 4]], "step": int64 7, "half": float16 [1]} with metadata {"format": "pt"}.
const std::string python_header =
    R"({"__metadata__":{"format":"pt"},"step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
    R"("weight":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},)"
    R"("half":{"dtype":"F16","shape":[1],"data_offsets":[24,26]}}  )";
const std::string python_file = std::string("\xd0\0\0\0\0\0\0\0", 8) + python_header +
                                std::string("\x07\0\0\0\0\0\0\0\0\0\xc0?\0\0\0\xc0\0\0\x80>\0\0\x80@\0<", 26);

}  // namespace

TEST_CASE("what is written is read back: names, order, dtypes, shapes, values") {
  const Folder folder;
  const auto path = folder.path / "weights.safetensors";
  const std::vector<halogen::NamedTensor> written{
      halogen::named_tensor<float>("enc1.0.weight", {2, 1, 1, 3}, {1.f, -2.f, .5f, 1e-30f, -0.f, 3.f}),
      halogen::named_tensor<std::uint8_t>("mask", {3}, {1, 0, 255}),
      halogen::named_tensor<double>("loss", {}, {0.1}),
      halogen::named_tensor<std::int64_t>("größe \"of\" it", {2}, {-1, std::int64_t{1} << 40}),
      halogen::named_tensor<float>("empty", {0, 7}, {}),
  };
  halogen::write_safetensors(path, written);
  const auto read = halogen::read_safetensors(path);
  REQUIRE(read.size() == written.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].name == written[i].name);
    CHECK(read[i].dtype == written[i].dtype);
    CHECK(read[i].shape == written[i].shape);
    CHECK(read[i].data == written[i].data);
  }
  CHECK(halogen::find(read, "loss").as<double>() == std::vector<double>{0.1});
  CHECK(halogen::find(read, "größe \"of\" it").as<std::int64_t>()[1] == std::int64_t{1} << 40);
  CHECK(halogen::find(read, "empty").as<float>().empty());
  CHECK_FALSE(fs::exists(path.string() + ".partial"));
  const auto half = halogen::named_tensor<halogen::bfloat16>("half", {1}, {halogen::bfloat16(-2.f)});
  CHECK(half.dtype == "BF16");
  CHECK(half.data == std::vector<std::byte>{std::byte{0}, std::byte{0xc0}});

  halogen::write_safetensors(path, {});
  CHECK(halogen::read_safetensors(path).empty());
}

TEST_CASE("all data is aligned to its elements, as torch needs it") {
  const Folder folder;
  const auto path = folder.path / "mixed.safetensors";
  halogen::write_safetensors(
      path, {halogen::named_tensor<std::uint8_t>("a", {1}, {7}), halogen::named_tensor<double>("b", {1}, {2.}),
             halogen::named_tensor<float>("c", {1}, {3.f})});
  const std::string bytes = bytes_of(path);
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0]));
  CHECK(length % 8 == 0);
  CHECK(bytes.substr(8, length).find(R"("a":{"dtype":"U8","shape":[1],"data_offsets":[12,13]})") != bytes.npos);
  CHECK(bytes.substr(8, length).find(R"("b":{"dtype":"F64","shape":[1],"data_offsets":[0,8]})") != bytes.npos);
  CHECK(bytes.substr(8, length).find(R"("c":{"dtype":"F32","shape":[1],"data_offsets":[8,12]})") != bytes.npos);
  CHECK(bytes.size() == 8 + length + 13);
}

TEST_CASE("a file of Python's safetensors is read") {
  const Folder folder;
  put(folder.path / "python.safetensors", python_file);
  const auto tensors = halogen::read_safetensors(folder.path / "python.safetensors");
  REQUIRE(tensors.size() == 3);  // without __metadata__
  CHECK(halogen::find(tensors, "weight").as<float>() == std::vector<float>{1.5f, -2.f, .25f, 4.f});
  CHECK(halogen::find(tensors, "weight").shape == std::vector<std::int64_t>{2, 2});
  CHECK(halogen::find(tensors, "step").as<std::int64_t>() == std::vector<std::int64_t>{7});
  CHECK(halogen::find(tensors, "step").shape.empty());
  CHECK(halogen::find(tensors, "half").dtype == "F16");
  CHECK(halogen::find(tensors, "half").data == std::vector<std::byte>{std::byte{0}, std::byte{0x3c}});
  CHECK(static_cast<float>(halogen::find(tensors, "half").as<halogen::float16>().front()) == 1.f);
}

TEST_CASE("every file cut short anywhere is refused") {
  const Folder folder;
  const auto path = folder.path / "short.safetensors";
  for (std::size_t bytes = 0; bytes < python_file.size(); ++bytes) {
    put(path, python_file.substr(0, bytes));
    check_refused(support::refusal([&] { halogen::read_safetensors(path); }),
                  {"cannot read '" + path.string() + "': "});
  }
}

TEST_CASE("a header that does not fit its file is refused with what is wrong") {
  struct Bad {
    std::string file, words;
  };
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const auto one = [](const std::string& entry) { return file_of("{\"a\":" + entry + "}", 8); };
  const Bad cases[] = {
      {"", "it ends too early"},
      {"\1\0\0", "it ends too early"},
      {std::string("\x09\0\0\0\0\0\0\0{}", 10), "header of 9 bytes is longer than the file"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "header of 18446744073709551615 bytes is longer"},
      {file_of("", 0), "its header is not the JSON"},
      {file_of("{\"a\":", 0), "its header is not the JSON"},
      {file_of("[1,2]", 0), "its header is not the JSON"},
      {file_of("null", 0), "its header is not the JSON"},
      {file_of(std::string(100'000, '['), 0),
       "its header is not the JSON of a safetensors file: it is nested deeper than"},
      {file_of("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0),
       "nested deeper than the 100"},
      {file_of("{\"\xff\":1}", 0), "its header is not the JSON"},
      {one("7"), "its header is not the JSON"},
      {one(R"({"dtype":"F32","shape":[2]})"), "its header is not the JSON"},
      {one(R"({"dtype":32,"shape":[2],"data_offsets":[0,8]})"), "its header is not the JSON"},
      {one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "its header is not the JSON"},
      {one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "a number that is no count"},
      {one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "a number that is no count"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,1e300]})"), "a number that is no count"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})"), "'a' has bad data_offsets"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "'a' has bad data_offsets"},
      {one(R"({"dtype":"F64","shape":[2],"data_offsets":[0,8]})"), "'a' has 8 bytes, which dtype 'F64' and its shape"},
      {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "'a' has 8 bytes, which dtype 'F32' and its shape"},
      {one(R"({"dtype":"U8","shape":[4294967296,4294967296,8],"data_offsets":[0,8]})"), "'a' has 8 bytes, which dtype"},
      {one(R"({"dtype":"U8","shape":[18446744073709551608],"data_offsets":[0,8]})"), "'a' has 8 bytes, which dtype"},
      {one(R"({"dtype":"U8","shape":[8,2305843009213693953],"data_offsets":[0,8]})"),  // 2^64 + 8
       "'a' has 8 bytes, which dtype"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
       "'a' has data bytes 0 to 16, but the one before it ends at 0 and the file at 8"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})"),
       "'a' has data bytes 4 to 12, but the one before it ends at 0 and the file at 8"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "'a' has data bytes 4 to 8, but"},
      {file_of("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
       "'b' has data bytes 4 to 12, but the one before it ends at 8 and the file at 12"},
      {file_of("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "has data bytes 0 to 8, but"},
      {file_of("{" + a + "}", 9), "1 data bytes after the last tensor belong to none"},
      {file_of("{}", 3), "3 data bytes after the last tensor belong to none"},
      {file_of("{" + a + "," + a + "}", 8), "it names \"a\" twice"},
  };
  const Folder folder;
  const auto path = folder.path / "bad.safetensors";
  for (const auto& bad : cases) {
    put(path, bad.file);
    check_refused(support::refusal([&] { halogen::read_safetensors(path); }),
                  {"cannot read '" + path.string() + "': ", bad.words});
  }
  put(path, file_of("{" + a + "}", 8));  // the control
  CHECK(halogen::read_safetensors(path).size() == 1);
}

TEST_CASE("a tensor of an unknown dtype is bytes, and the others are read") {
  const Folder folder;
  const auto path = folder.path / "new.safetensors";
  put(path, file_of(R"({"a":{"dtype":"F4","shape":[16],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}})",
                    10));
  const auto tensors = halogen::read_safetensors(path);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].dtype == "F4");
  CHECK(tensors[0].data == std::vector<std::byte>(8, std::byte{1}));
  CHECK(halogen::find(tensors, "b").as<std::uint8_t>() == std::vector<std::uint8_t>{1, 1});
  check_refused(support::refusal([&] { tensors[0].as<float>(); }), {"tensor 'a' holds F4, not F32"});
  check_refused(support::refusal([&] { halogen::write_safetensors(path, tensors); }), {"which dtype 'F4'"});
}

TEST_CASE("a header of many tensors is read and written in the time of its length") {
  const Folder folder;
  const auto path = folder.path / "many.safetensors";
  std::vector<halogen::NamedTensor> tensors;
  for (int i = 0; i < 200'000; ++i)  // by a look at each name before: 20,000,000,000 comparisons
    tensors.push_back(halogen::named_tensor<std::uint8_t>("t" + std::to_string(i), {1}, {7}));
  halogen::write_safetensors(path, tensors);
  const auto places = halogen::read_safetensors_header(path);
  REQUIRE(places.size() == tensors.size());
  CHECK(places.back().tensor.name == "t199999");
}

TEST_CASE("JSON: numbers that are not finite stay, deep and doubled names are refused") {
  using namespace halogen::detail;
  const double inf = std::numeric_limits<double>::infinity();
  const Json json{{"a", {1, std::nan(""), inf, -inf, 0.5}}, {"NaN", "NaN, \"Infinity\""}, {"b", Json::object()}};
  const std::string text = R"({"a":[1,NaN,Infinity,-Infinity,0.5],"NaN":"NaN, \"Infinity\"","b":{}})";
  CHECK(json_text(json) == text);
  CHECK(json_text({{"x", {1, "y"}}, {"z", nullptr}}, 2) == Json({{"x", {1, "y"}}, {"z", nullptr}}).dump(2));
  for (const std::string& written : {text, json_text(json, 1)}) {
    const Json read = parse_json(written);
    CHECK(read["a"][0] == 1);
    CHECK(std::isnan(read["a"][1].get<double>()));
    CHECK(read["a"][2] == inf);
    CHECK(read["a"][3] == -inf);
    CHECK(read["a"][4] == 0.5);
    CHECK(read["NaN"] == "NaN, \"Infinity\"");
    CHECK(read["b"].empty());
  }
  CHECK(parse_json("-12").get<int>() == -12);
  CHECK(std::isnan(number_of(parse_json("null"))));
  CHECK(number_of(parse_json("0.25")) == 0.25);
  for (const char* bad : {"", "[1NaN]", "[NaN5]", "[nan]", "[Infinityx]", "[--Infinity]", "[1,]", "1 2", "[1e400]"})
    CHECK(support::refusal<JsonFault>([&] { parse_json(bad); }) == "it is no JSON");
  CHECK(support::refusal<JsonFault>([] { parse_json(R"({"a":{"b":1,"c":2,"b":3}})"); }) == "it names \"b\" twice");
  const auto deep = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  CHECK(json_text(parse_json(deep(100))) == deep(100));
  const std::string said = "it is nested deeper than the 100 levels allowed";
  CHECK(support::refusal<JsonFault>([&] { parse_json(deep(1'000'000)); }) == said);
  Json own = Json::array();
  for (int level = 1; level < 101; ++level) own = Json::array({std::move(own)});
  CHECK(support::refusal<JsonFault>([&] { json_text(own); }) == said);
}

TEST_CASE("what is no file is refused") {
  const Folder folder;
  const auto none = folder.path / "none.safetensors";
  check_refused(support::refusal([&] { halogen::read_safetensors(none); }),
                {none.string(), "there is no such file or folder: give the path of one that is there"});
  check_refused(support::refusal([&] { halogen::read_safetensors(folder.path); }),
                {folder.path.string(), "it is a folder: give the path of a file"});
}

TEST_CASE("a tensor gives its values only as what they are") {
  const auto tensor = halogen::named_tensor<float>("weight", {2}, {1.f, 2.f});
  check_refused(support::refusal([&] { tensor.as<double>(); }), {"tensor 'weight' holds F32, not F64"});
  check_refused(support::refusal([&] { tensor.as<std::int32_t>(); }), {"tensor 'weight' holds F32, not I32"});
  auto damaged = tensor;
  damaged.data.pop_back();
  check_refused(support::refusal([&] { damaged.as<float>(); }), {"tensor 'weight' has 7 bytes", "'F32'"});
  check_refused(support::refusal([&] { halogen::find({tensor}, "bias"); }), {"there is no tensor 'bias'"});
}

TEST_CASE("what cannot be written is refused and leaves the older file as it was") {
  const Folder folder;
  const auto path = folder.path / "weights.safetensors";
  const auto good = halogen::named_tensor<float>("a", {2}, {1.f, 2.f});
  halogen::write_safetensors(path, {good});
  const std::string before = bytes_of(path);

  auto misshaped = good, unknown = good, negative = good, reserved = good, garbled = good;
  misshaped.shape = {3};
  unknown.dtype = "F31";
  negative.shape = {-1, -2};
  reserved.name = "__metadata__";
  garbled.name = "\xff";
  const auto refuses = [&](const std::vector<halogen::NamedTensor>& tensors, const std::string& words) {
    check_refused(support::refusal([&] { halogen::write_safetensors(path, tensors); }),
                  {"cannot write '" + path.string(), words});
    CHECK(bytes_of(path) == before);
    CHECK_FALSE(fs::exists(path.string() + ".partial"));
  };
  refuses({misshaped}, "'a' has 8 bytes, which dtype 'F32' and its shape do not make");
  refuses({unknown}, "'F31'");
  refuses({negative}, "'a' has 8 bytes");
  refuses({reserved}, "the name '__metadata__' is taken");
  refuses({good, good}, "the name 'a' is taken");
  refuses({garbled}, "not UTF-8");

  rlimit limit{};  // a full disk, as far as a process can have one of its own
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto large = halogen::named_tensor("large", {100'000}, std::vector<float>(100'000, 1.f));
  const std::string said = support::refusal([&] { halogen::write_safetensors(path, {large}); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  check_refused(said, {"cannot write '" + path.string(), "may not be so large", "ulimit -f, 4096 bytes"});
  CHECK(bytes_of(path) == before);
  CHECK_FALSE(fs::exists(path.string() + ".partial"));

  const auto nowhere = folder.path / "none" / "weights.safetensors";
  check_refused(support::refusal([&] { halogen::write_safetensors(nowhere, {good}); }),
                {nowhere.string(), "there is no folder '" + nowhere.parent_path().string() + "': make it"});
  const auto taken = folder.path / "taken";
  fs::create_directories(taken / "inside");
  check_refused(support::refusal([&] { halogen::write_safetensors(taken, {good}); }),
                {taken.string(), "it is a folder"});
  CHECK_FALSE(fs::exists(taken.string() + ".partial"));
}

TEST_CASE("a symbolic link stays, and what it means is replaced") {
  const Folder folder;
  const auto a = halogen::named_tensor<float>("a", {1}, {1.f}), b = halogen::named_tensor<float>("b", {1}, {2.f});
  fs::create_directories(folder.path / "run");
  const auto target = folder.path / "run" / "step_1.safetensors", link = folder.path / "latest",
             second = folder.path / "l";
  fs::create_symlink("run/step_1.safetensors", link);  // relative, and of what is not there yet
  fs::create_symlink(link, second);
  halogen::write_safetensors(link, {a});
  CHECK(fs::is_symlink(link));
  CHECK(fs::is_regular_file(fs::symlink_status(target)));
  halogen::write_safetensors(second, {b});
  CHECK(fs::is_symlink(second));
  CHECK(fs::is_symlink(link));
  CHECK(halogen::read_safetensors(target)[0].name == "b");
  CHECK(std::distance(fs::directory_iterator(target.parent_path()), {}) == 1);  // no partial file
  fs::create_symlink("loop", folder.path / "loop");
  check_refused(support::refusal([&] { halogen::write_safetensors(folder.path / "loop", {a}); }),
                {"loop", "symbolic links"});
}

TEST_CASE("who may read and write a file stays; another name of the older file keeps that") {
  const Folder folder;
  const auto a = halogen::named_tensor<float>("a", {1}, {1.f}), b = halogen::named_tensor<float>("b", {1}, {2.f});
  const auto file = folder.path / "state", other = folder.path / "other", fresh = folder.path / "fresh";
  halogen::write_safetensors(file, {a});
  fs::create_hard_link(file, other);
  for (const unsigned mode : {0640u, 0400u, 0666u, 0755u}) {
    fs::permissions(file, static_cast<fs::perms>(mode));
    halogen::write_safetensors(file, {b});
    CHECK(fs::status(file).permissions() == static_cast<fs::perms>(mode));
  }
  CHECK(halogen::read_safetensors(file)[0].name == "b");
  CHECK(halogen::read_safetensors(other)[0].name == "a");
  CHECK(fs::hard_link_count(file) == 1);
  const mode_t mask = ::umask(027);  // a new file has what the process gives
  halogen::write_safetensors(fresh, {a});
  ::umask(mask);
  CHECK(fs::status(fresh).permissions() == static_cast<fs::perms>(0640));
  if (::geteuid() == 0) {  // only root may give files away
    REQUIRE(::chown(fresh.c_str(), 1234, 1235) == 0);
    halogen::write_safetensors(fresh, {b});
    struct stat status {};
    REQUIRE(::stat(fresh.c_str(), &status) == 0);
    CHECK(status.st_uid == 1234);
    CHECK(status.st_gid == 1235);
  }
}

TEST_CASE("what is no regular file is not replaced, also behind a link") {
  const Folder folder;
  const auto a = halogen::named_tensor<float>("a", {1}, {1.f});
  const auto pipe = folder.path / "pipe", link = folder.path / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink(pipe, link);
  for (const auto& path : {pipe, link}) {
    check_refused(support::refusal([&] { halogen::write_safetensors(path, {a}); }),
                  {"cannot write '" + path.string(), "it is a pipe, which a file must not replace"});
    CHECK(fs::is_fifo(path));
    CHECK_FALSE(fs::exists(path.string() + ".partial"));
  }
  CHECK(support::refusal([] { halogen::detail::target_of("/dev/null"); }) ==
        "it is a device, which a file must not replace: give the path of a regular file");
}

TEST_CASE("what a killed save left goes at the next read or save, but not what a live one writes") {
  const Folder folder;
  const auto a = halogen::named_tensor<float>("a", {1}, {1.f});
  const auto path = folder.path / "run.safetensors", link = folder.path / "link";
  const fs::path partial = path.string() + ".partial";
  fs::create_symlink(path, link);
  put(partial, std::string(1000, 'x'));  // killed at its first save
  CHECK_THROWS_AS(halogen::read_safetensors(path), std::runtime_error);
  CHECK_FALSE(fs::exists(partial));
  halogen::write_safetensors(path, {a});
  for (const auto& read : {path, link}) {
    put(partial, std::string(1000, 'x'));
    CHECK(halogen::read_safetensors_header(read).size() == 1);
    CHECK_FALSE(fs::exists(partial));
  }
  put(partial, std::string(1000, 'x'));
  halogen::write_safetensors(path, {a});
  CHECK_FALSE(fs::exists(partial));
  CHECK(halogen::read_safetensors(path).size() == 1);
  {
    halogen::detail::Replacement live(path);
    live.file().write("abc", 3, 0);
    CHECK(halogen::read_safetensors(path).size() == 1);
    CHECK(bytes_of(partial) == "abc");
  }
  CHECK_FALSE(fs::exists(partial));  // it ended early
  CHECK(halogen::read_safetensors(path).size() == 1);
}

#ifdef HALOGEN_TEST_DATA
TEST_CASE("the references of PyTorch are there and sound") {
  for (const auto* name : {"adamw", "conv2d", "groupnorm", "maxpool", "mse", "unet", "unet_training", "upsample"}) {
    const auto tensors = halogen::read_safetensors(fs::path(HALOGEN_TEST_DATA) / (std::string(name) + ".safetensors"));
    CHECK_MESSAGE(tensors.size() >= 5, name);
  }
}
#endif
#endif
