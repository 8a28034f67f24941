// The cache of prepared things: what it keeps, what it makes anew, and what goes first.
#include <doctest/doctest.h>

#include "halogen/core/prepared.hpp"

namespace {

namespace hg = halogen;

struct Counted {
  explicit Counted(int n) : number(n) { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int number;
  static inline int alive = 0;
};

}  // namespace

TEST_CASE("an object is made once for a key") {
  int made = 0;
  {
    hg::detail::Prepared<int> kept;
    const auto get = [&](int key) {
      return kept.get<Counted>(key, [&] { return std::make_unique<Counted>(++made); })->number;
    };
    CHECK(get(7) == 1);
    CHECK(get(8) == 2);
    CHECK(get(7) == 1);
    kept.drop(7);
    kept.drop(9);
    CHECK(Counted::alive == 1);
    CHECK(get(7) == 3);
    CHECK(get(8) == 2);
    CHECK(Counted::alive == 2);
  }
  CHECK(Counted::alive == 0);
}

TEST_CASE("an object of another type replaces that of the same key, before it is made") {
  hg::detail::Prepared<int> kept;
  kept.get<Counted>(1, [] { return std::make_unique<Counted>(1); });
  const auto other = [&] {
    return kept.get<double>(1, [] {
      CHECK(Counted::alive == 0);
      return std::make_unique<double>(2.5);
    });
  };
  CHECK(*other() == 2.5);
  CHECK(kept.get<Counted>(1, [] { return std::make_unique<Counted>(3); })->number == 3);
}

TEST_CASE("with a limit the oldest goes, before the new one is made") {
  hg::detail::Prepared<int, 2> kept;
  const auto get = [&](int key) {
    return kept
        .get<Counted>(key,
                      [&] {
                        CHECK(Counted::alive < 2);
                        return std::make_unique<Counted>(key);
                      })
        ->number;
  };
  for (const int key : {1, 2, 1, 3, 2, 1}) CHECK(get(key) == key);
  CHECK(Counted::alive == 2);
  kept.clear();
  CHECK(Counted::alive == 0);
}

TEST_CASE("what is in use stays with its user") {
  hg::detail::Prepared<int> kept;
  const auto one = kept.get<Counted>(1, [] { return std::make_shared<Counted>(5); });
  kept.clear();
  CHECK(one->number == 5);
}
