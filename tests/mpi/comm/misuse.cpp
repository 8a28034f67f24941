// ranks: 1 3
// program: sharded_parameters
// reads: convolutions
// What a mistaken program does with fields ends with one sentence on all ranks alike: fields that were never made,
// extents beyond what can be counted, extents that differ between ranks.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <halogen/io/checkpoint.hpp>
#include <halogen/io/fields.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/convolutions.hpp"
#include "support/ran.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_misuse {

namespace hg = halogen;

namespace {

using Line = hg::Mesh<"x">;
using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Whole = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Replicate>;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
struct Beside : hg::Module<Beside> {
  using inputs = std::tuple<hg::FieldInput<1>, hg::FieldInput<1>>;
  hg::Conv2d<2, 1, hg::Kernel<1>> mix;
  template <class X>
  constexpr X forward(X x, X more) const {
    return mix(hg::concat(x, more));
  }
};
using Net = hg::Conv2d<1, 1, hg::Kernel<3>, hg::Padding<1>>;

hg::DeviceMesh<Line> line() { return hg::device_mesh<Line>(hg::Environment().world(), {-1}); }

/// f() names the function that got a field which was never made.
template <class F>
void names(const std::string& function, F f) {
  CHECK(support::refusal<hg::CollectiveError>(f) ==
        function +
            " is given a field that was never made: give the field a mesh and extents, or assign an expression or "
            "another field to it, before it is used");
}

}  // namespace

TEST_CASE("a field that was never made: its own functions") {
  const auto mesh = line();
  Rows unmade;
  CHECK(unmade.empty());
  names("mesh", [&] { unmade.mesh(); });
  names("decomposition", [&] { unmade.decomposition(); });
  names("shape", [&] { unmade.shape(); });
  names("cut", [&] { unmade.cut(0); });
  names("cuts", [&] { unmade.cuts(); });
  names("extent", [&] { unmade.extent(0); });
  names("owned", [&] { unmade.owned(0); });
  names("offset", [&] { unmade.offset(0); });
  names("local_extent", [&] { unmade.local_extent(0); });
  names("local_shape", [&] { unmade.local_shape(); });
  names("to_local", [&] { unmade.to_local(); });
  names("to_host", [&] { unmade.to_host(); });
  names("copy_from_host", [&] { unmade.copy_from_host({1}); });
  names("clone", [&] { unmade.clone(); });
  names("take_buffer", [&] { unmade.take_buffer(); });
  names("reserve_margin", [&] { unmade.reserve_margin({}); });
  names("margin_growths", [&] { unmade.margin_growths(); });
  names("storage", [&] { unmade.storage(); });
  names("Sharded", [] { Rows made{std::shared_ptr<const Rows::Shape>()}; });
  Rows moved(mesh, {6, 2});
  const Rows taken = std::move(moved);
  names("to_host", [&] { moved.to_host(); });  // NOLINT: what is left has no points
}

TEST_CASE("a field that was never made: the functions of fields") {
  const auto mesh = line();
  const Rows unmade, field(mesh, {6, 2});
  Rows target = unmade, other(mesh, {6, 2});
  const Whole nowhere, whole(mesh, {6, 2});
  names("full_tensor", [&] { hg::full_tensor(unmade); });
  names("require_finite", [&] { hg::require_finite(unmade, "unmade"); });
  names("halo_exchange", [&] { hg::halo_exchange(hg::execution_space{}, unmade, hg::Reach<2>{}); });
  names("halo_needs", [&] { hg::halo_needs(unmade, hg::Reach<2>{}); });
  names("redistribute", [&] { hg::redistribute<Whole>(unmade); });
  names("redistribute_to", [&] { hg::redistribute_to(unmade, whole); });
  names("redistribute_to", [&] { hg::redistribute_to(field, nowhere); });
  names("redistribute_vjp", [&] { hg::redistribute_vjp(field, unmade); });
  names("Redistribution", [&] { hg::Redistribution<Whole, Rows> move(unmade, whole); });
  names("Redistribution", [&] { hg::Redistribution<Whole, Rows> move(field, nowhere); });
  hg::Redistribution<Whole, Rows> move(field, whole);
  names("Redistribution", [&] { move.move(unmade, whole); });
  names("Redistribution", [&] { move.start(unmade); });
  names("Redistribution", [&] { move.move(field, nowhere); });
  names("copy_block", [&] { hg::copy_block(unmade, field, {0, 0}, {0, 0}, {1, 1}); });
  names("copy_block", [&] { hg::copy_block(field, unmade, {0, 0}, {0, 0}, {1, 1}); });
  names("iterate", [&] { hg::iterate<2>([](const auto& u) { return u + 1.0f; }, unmade); });
  names("assign", [&] { hg::assign(target, field); });
  names("an expression", [&] { other = unmade + 1.0f; });
  names("an expression", [&] { other = hg::where(field > 0.0f, hg::exp(unmade), field); });
  names("an expression", [&] { other = hg::shift<0, 1>(unmade); });
  names("an expression", [&] { other += unmade; });
  names("an expression", [&] { hg::assign(other, unmade); });
  names("an expression", [&] { hg::mean(unmade).item(); });
  names("an expression", [&] { hg::sum<0>(unmade); });
  names("an expression", [&] { hg::explain(unmade + 1.0f); });
  names("with_boundary", [&] { other = hg::with_boundary<hg::Zero, hg::Periodic>(unmade); });
  names("value_and_grad", [&] { hg::value_and_grad([](auto u) { return hg::mean(u); })(unmade); });
  names("vjp", [&] { hg::vjp([](auto u) { return 2.0f * u; }, unmade); });
  const Whole square(mesh, {2, 2});
  names("matmul", [&] { Whole y = hg::matmul(whole, nowhere); });
  names("einsum", [&] { other = hg::einsum<"ij,jk->ik">(unmade, square); });
  names("rand_like", [&] { other = hg::rand_like(unmade, hg::Generator{1}); });
  names("randn_like", [&] { other = hg::randn_like(unmade, hg::Generator{1}); });
  const Image image(mesh, {1, 1, 6, 4}), unmade_image;
  names("scaled_dot_product_attention", [&] { hg::scaled_dot_product_attention(image, unmade_image, image); });
  names("scaled_dot_product_attention", [&] { hg::scaled_dot_product_attention(image, image, image, unmade_image); });
  names("score_ensemble", [&] { hg::score_ensemble(unmade_image, image); });
  names("score_ensemble", [&] { hg::score_ensemble(image, unmade_image); });
  names("noised", [&] { hg::noised(hg::EDM{}, unmade_image, hg::Generator{1}); });
  names("sample_heun", [&] {
    hg::sample_heun(hg::EDM{}, unmade_image, hg::Generator{1}, 2, [](const auto& x, const auto&) { return x; });
  });
  names("evaluate", [&] { hg::evaluate(hg::mse, unmade_image, image); });
  names("evaluate", [&] { hg::evaluate(hg::mse, image, unmade_image); });
  names("evaluate", [&] { hg::evaluate(hg::mse, image, image, unmade_image); });
  names("save_fields", [&] { hg::save_fields("never.safetensors", hg::NamedField{"u", unmade}); });
  names("load_field", [&] {
    Rows u;
    hg::load_field("never.safetensors", "u", u);
  });
  CHECK(other.to_host() == field.to_host());
  target = field + 1.0f;  // takes the field's mesh and extents
  CHECK(target.extent(0) == 6);
}

TEST_CASE("a field that was never made: networks") {
  const auto mesh = line();
  const Image unmade, image(mesh, {1, 1, 6, 4});
  const auto parameters = hg::initial_parameters<Net, float>(1);
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh);
  names("infer", [&] { hg::infer(parameters, unmade); });
  names("infer", [&] { trainer.predict(unmade); });
  names("step", [&] { trainer.step(hg::mse, unmade, image); });
  hg::Trainer two(Beside{}, hg::AdamW{}, mesh);
  names("step", [&] { two.step(hg::mse, hg::Inputs{unmade, image}, image); });
  names("input 1", [&] { two.step(hg::mse, hg::Inputs{image, unmade}, image); });
  names("input 1", [&] { two.predict(hg::Inputs{image, unmade}); });
  names("label", [&] { trainer.step(hg::mse, image, unmade); });
  names("weight", [&] { trainer.step(hg::mse, image, image, unmade); });
  names("explain", [&] { hg::explain(Net{}, unmade); });
  names("an expression",  // net(unmade) is one
        [&] { hg::value_and_grad([&](auto net) { return hg::mse(net(unmade), image); })(parameters); });
  names("value_and_grad",
        [&] { hg::value_and_grad([&](auto u) { return hg::mean(hg::infer(parameters, u)); })(unmade); });
}

TEST_CASE("a field of more bytes than can be counted is refused with its numbers, however it is made") {
  using Bytes = hg::Sharded<hg::Tensor<signed char, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
  using Cube = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
  using Numbers = hg::Sharded<hg::Tensor<double, hg::dyn>, Line, hg::Shard<0>>;
  const auto mesh = line();
  constexpr hg::index_t one = 1;
  const auto refused = [](const std::string& extents, const std::string& bytes, auto make) {
    CHECK(support::refusal<hg::CollectiveError>(make) ==
          "a field of " + extents + " points of " + bytes +
              " has more than 2^60 bytes, the most that can be counted: give smaller extents");
  };
  const Rows::Extents square{one << 32, one << 32}, half{one << 31, one << 31};
  refused("(4294967296 x 4294967296)", "4 bytes", [&] { Rows field(mesh, square); });
  refused("(4294967296 x 4294967296)", "1 byte", [&] { Bytes field(mesh, square); });
  refused("(2147483648 x 2147483648)", "4 bytes", [&] { Rows field(mesh, half); });
  refused("(2147483648 x 2147483648)", "4 bytes", [&] { hg::from_local<Rows>(mesh, half, {}); });
  refused("(2147483648 x 2147483648)", "4 bytes", [&] { hg::distribute_tensor<Rows>(mesh, half, {}); });
  refused("(9223372036854775807)", "8 bytes", [&] { Numbers field(mesh, {INT64_MAX}); });
  refused("(3037000500 x 3037000500 x 2)", "8 bytes", [&] { Cube field(mesh, {3037000500, 3037000500, 2}); });
  const int parts = mesh.size();
  refused("(4294967296 x 4294967296)", "4 bytes", [&] {
    Rows field(mesh, {hg::Cut::balanced(square[0], parts), hg::Cut::chunk(square[1], 1)});
  });
  const std::vector<hg::index_t> sizes(static_cast<std::size_t>(parts), INT64_MAX);
  refused("(9223372036854775807)", "8 bytes", [&] { Numbers field(mesh, {hg::Cut::of_sizes(sizes)}); });
  refused("(9223372036854775807)", "8 bytes", [&] { hg::from_local_inferred<Numbers>(mesh, {INT64_MAX}, {}); });
  refused("(2147483648 x 2147483648)", "4 bytes", [&] {
    const auto bytes = Bytes::make_shape(mesh, {hg::Cut::balanced(one << 31, parts), hg::Cut::chunk(one << 28, 1)});
    CHECK(bytes->extent(1) == one << 28);
    Rows::make_shape(mesh, {hg::Cut::balanced(one << 31, parts), hg::Cut::chunk(one << 31, 1)});
  });
  refused("(1 x 1 x 2147483648 x 2147483648)", "4 bytes", [&] {
    hg::explain<Image>(Net{}, hg::dry_mesh<Line>({64}), {1, 1, one << 31, one << 31});
  });
}

TEST_CASE("fewer extents than the field has dimensions") {
  const auto mesh = line();
  const auto said = [](auto f) { return support::refusal<hg::CollectiveError>(f); };
  const std::string few =
      "extent 0 of dimension 3 is not positive: a field of 4 dimensions takes as many extents, of "
      "which only 3 were given, or the others are 0";
  CHECK(said([&] { Image field(mesh, {1, 8, 8}); }) == few);
  CHECK(said([&] { hg::from_local<Image>(mesh, {1, 8, 8}, {}); }) == few);
  CHECK(said([&] { hg::distribute_tensor<Image>(mesh, {1, 8, 8}, {}); }) == few);
  CHECK(said([&] { hg::explain<Image>(Net{}, hg::dry_mesh<Line>({2}), {1, 8, 8}); }) == few);
  CHECK(said([&] { Image field(mesh, {1, 1, 0, 8}); }) == "extent 0 of dimension 2 is not positive");
}

TEST_CASE("a pad of more points than can be counted") {
  const auto mesh = line();
  const Rows u(mesh, {6, 2});
  for (const auto& points : {std::pair{INT64_MAX, std::int64_t{0}}, std::pair{std::int64_t{1}, INT64_MAX}})
    CHECK(support::refusal<hg::CollectiveError>([&] {
            hg::pad<0>(u, points.first, points.second);
          }).ends_with("give 0 or more, at most 2^60; slice takes points away"));
}

TEST_CASE("extents that differ between ranks end alike on all of them, whatever comes first") {
  FROM_RANKS(2);
  const auto mesh = line();
  const hg::index_t last = mesh.rank() == mesh.size() - 1 ? 1 : 0;
  const std::string rows =
      "dimension 0 of a field has 6 points on one rank and 7 on another: give all ranks the same "
      "extents, those of the whole field and not of a piece";
  const auto said = [](auto f) { return support::refusal<hg::CollectiveError>(f); };
  const auto made = [&] { return Rows(mesh, {6 + last, 2}); };
  Rows other;
  CHECK(said([&] { hg::full_tensor(made()); }) == rows);
  CHECK(said([&] { hg::distribute_tensor<Rows>(mesh, {6 + last, 2}, std::vector<float>(12)); }) == rows);
  CHECK(said([&] { other = hg::shift<0, 1>(made()) + 1.0f; }) == rows);
  CHECK(said([&] { hg::mean(made()).item(); }) == rows);
  CHECK(said([&] { hg::sum(made() * 2.0f).item(); }) == rows);
  CHECK(said([&] {
          const auto sums = hg::sum<0>(made());
          hg::Sharded<hg::Tensor<double, hg::dyn>, Line, hg::Replicate> stored = sums;
        }) == rows);
  CHECK(said([&] { other = hg::cumulative_sum<0>(made()); }) == rows);
  CHECK(said([&] { hg::redistribute<Whole>(made()); }) == rows);
  CHECK(said([&] { hg::require_finite(made(), "u"); }) == rows);
  CHECK(said([&] { hg::halo_exchange(hg::execution_space{}, made(), hg::Reach<2>{{1, 0}, {1, 0}}); }) == rows);
  const std::string height = "dimension 2 of a field has 8 points on one rank and 9 on another: ";
  const auto parameters = hg::initial_parameters<Net, float>(1);
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh);
  const Image same(mesh, {1, 1, 8, 4});
  const auto image = [&] { return Image(mesh, {1, 1, 8 + last, 4}); };
  const auto refused = [&] {
    CHECK(said([&] { hg::infer(parameters, image()); }).starts_with(height));
    CHECK(said([&] { trainer.step(hg::mse, image(), image()); }).starts_with(height));
  };
  refused();
  trainer.step(hg::mse, same, same);
  refused();  // later images too, new to some ranks alone
  CHECK(said([&] { trainer.step(hg::mse, same, image()); }).starts_with(height));
  CHECK(std::isfinite(trainer.step(hg::mse, same, same).item()));
  // the same extents, cut otherwise
  hg::Cut cut = hg::Cut::balanced(12, mesh.size());
  if (mesh.rank() == 0) ++cut.bounds[1];
  const Rows uneven(mesh, {cut, hg::Cut::chunk(2, 1)});
  CHECK(said([&] { hg::full_tensor(uneven); }) ==
        "a field is cut otherwise on one rank than on another: give all ranks the same cuts");
}

TEST_CASE("extents are compared once for a field that the program makes, and never for one that follows from others") {
  const auto mesh = line();
  const auto checks = [&](auto f) {
    const hg::CommStatistics before = hg::comm_stats();
    f();
    return (hg::comm_stats() - before).checks.count;
  };
  const int once = mesh.size() > 1 ? 1 : 0;
  Rows u(mesh, {12, 2});
  Whole whole;
  CHECK(checks([&] { u = u + 1.0f; }) == 0);  // nothing is sent
  CHECK(checks([&] { u = hg::shift<0, 1>(u); }) == once);
  CHECK(checks([&] {
          for (int i = 0; i < 3; ++i) u = hg::shift<0, 1>(u) / hg::norm(u);
          hg::full_tensor(u);
          whole = hg::redistribute<Whole>(u);
          hg::full_tensor(whole);
          const Rows v = hg::shift<0, -1>(u);
          hg::full_tensor(v);
        }) == 0);
  const Rows distributed = hg::distribute_tensor<Rows>(mesh, {12, 2}, std::vector<float>(24));
  CHECK(checks([&] { hg::full_tensor(distributed); }) == 0);
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh);
  const Image image(mesh, {1, 1, 8, 4}), label(mesh, {1, 1, 8, 4});
  CHECK(checks([&] { trainer.step(hg::mse, image, label); }) == 2 * once);
  CHECK(checks([&] { trainer.step(hg::mse, image, label); }) == 0);
  const Image next(mesh, {1, 1, 8, 4});
  CHECK(checks([&] { trainer.step(hg::mse, next, label); }) == once);
}

TEST_CASE("a file of another model is refused with its name, the tensor, and both types and shapes") {
  using Wide = hg::Conv2d<1, 4, hg::Kernel<3>, hg::Padding<1>>;
  const auto mesh = line();
  const auto file =
      std::filesystem::temp_directory_path() / ("misuse_" + support::run_name(mesh.size()) + ".safetensors");
  hg::save_parameters(file, hg::initial_parameters<Net, float>(1), mesh.world());
  auto wide = hg::initial_parameters<Wide, float>(2);
  auto exact = hg::initial_parameters<Net, double>(2);
  const auto kept = wide.to_host();
  const auto said = [&](auto& parameters) {
    return support::refusal<hg::CollectiveError>([&] { hg::load_parameters(file, parameters, mesh.world()); });
  };
  const std::string tensor = "'" + file.string() + "': tensor 'weight' is F32 (1 x 1 x 3 x 3), but the model's is ";
  CHECK(said(wide) == tensor +
                          "F32 (4 x 1 x 3 x 3); tensor 'bias' is F32 (1), but the model's is F32 (4): give a file "
                          "of this model and value type");
  CHECK(hg::load_parameters(file, exact, mesh.world()).empty());  // double holds floats exactly
  const std::filesystem::path flat = file.string() + ".flat";     // shapes that differ by extents of 1
  if (mesh.rank() == 0)
    hg::write_safetensors(flat, {hg::named_tensor<float>("weight", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
                                 hg::named_tensor<float>("bias", {}, {10})});
  CHECK(hg::load_parameters(flat, exact, mesh.world()).empty());
  CHECK(exact.to_host() == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  if (mesh.rank() == 0) std::filesystem::remove(flat);
  using Two = hg::Sequential<Net, Wide>;
  auto two = hg::initial_parameters<Two, float>(2);
  CHECK(said(two) == "'" + file.string() +
                         "': there is no tensor '0.weight', '0.bias', '1.weight', '1.bias'; the model has no tensor "
                         "'weight', 'bias': give a file of this model and value type");
  auto one = hg::initial_parameters<hg::Conv2d<1, 1, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>>, float>(2);
  const auto unexpected = hg::load_parameters(file, one, mesh.world());
  CHECK(unexpected == (mesh.rank() == 0 ? std::vector<std::string>{"bias"} : std::vector<std::string>{}));
  CHECK(wide.to_host() == kept);
  mesh.world().barrier();
  if (mesh.rank() == 0) std::filesystem::remove(file);
}

}  // namespace test_misuse
