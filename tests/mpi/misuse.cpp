// ranks: 1 3
// program: sharded_parameters
// What a mistaken program does with fields ends with one sentence on all ranks alike: fields that were never made,
// extents beyond what can be counted, extents that differ between ranks.
#include <doctest/doctest.h>

#include <halogen/halogen.hpp>
#include <string>
#include <utility>

#include "support/refusal.hpp"

namespace test_misuse {

namespace hg = halogen;

namespace {

using Line = hg::Mesh<"x">;
using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Whole = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Replicate>;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
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
  names("label", [&] { trainer.step(hg::mse, image, unmade); });
  names("weight", [&] { trainer.step(hg::mse, image, image, unmade); });
  names("explain", [&] { hg::explain(Net{}, unmade); });
  names("value_and_grad",
        [&] { hg::value_and_grad([&](auto net) { return hg::mse(net(unmade), image); })(parameters); });
  names("value_and_grad",
        [&] { hg::value_and_grad([&](auto u) { return hg::mean(hg::infer(parameters, u)); })(unmade); });
}

}  // namespace test_misuse
