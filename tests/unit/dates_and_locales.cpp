// The time axis: each step is found again by its date, whatever the origin and the unit. Dates and pictures are read
// and written by the same rules where the locale has a decimal comma.
#include <halogen/comm/start.hpp>
#include <halogen/io/fit.hpp>
#include <halogen/io/time_axis.hpp>
#include <halogen/train/explain_training.hpp>

#include <doctest/doctest.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace hg = halogen;

namespace {

/// Times 0, step, 2 step, ... of so many seconds after `begin`, in a unit of so many seconds.
std::vector<double> steps(double begin, double step, double unit, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back((begin + step * i) / unit);
  return times;
}

/// The steps that index_of(date(i)) does not find.
int not_found(const hg::TimeAxis& axis) {
  int missed = 0;
  for (hg::index_t i = 0; i < axis.size(); ++i) missed += axis.index_of(axis.date(i)) != i;
  return missed;
}

/// The locale of a language with a decimal comma, which localedef makes where the machine has none.
class Comma {
 public:
  Comma() {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
      if (is_there_ = std::setlocale(LC_ALL, name) != nullptr; is_there_) return;
    const std::string command = "localedef -i de_DE -f UTF-8 '" + (folder_ / "de_DE.UTF-8").string() + "' 2>/dev/null";
    std::filesystem::create_directories(folder_);
    if (std::system(command.c_str()) != 0) return;
    ::setenv("LOCPATH", folder_.c_str(), 1);
    is_there_ = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  }
  ~Comma() {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
    std::filesystem::remove_all(folder_);
  }
  bool is_there() const { return is_there_; }

 private:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("halogen_locale_" + support::run_name(1));
  bool is_there_ = false;
};

}  // namespace

TEST_CASE("each step is found by its date: old origins, coarse units, rounded numbers") {
  const double year_2021 = 737790 * 86400.0;  // seconds from 0001-01-01 to 2021-01-01
  for (const double step : {60.0, 600.0, 1200.0, 3600.0 / 7, 21600.0}) {
    CAPTURE(step);
    CHECK(not_found({steps(year_2021, step, 86400, 2000), "days since 0001-01-01", "proleptic_gregorian"}) == 0);
    CHECK(not_found({steps(year_2021, step, 3600, 2000), "hours since 0001-01-01", "proleptic_gregorian"}) == 0);
    CHECK(not_found({steps(year_2021, step, 86400, 2000), "days since 0001-01-01", "noleap"}) == 0);
    CHECK(not_found({steps(0, step, 86400, 2000), "days since 1979-01-01"}) == 0);
  }
  std::vector<double> rounded = steps(40 * 86400.0, 1200, 86400, 500);  // as a float has them, to 0.2 s
  for (double& time : rounded) time = static_cast<float>(time);
  CHECK(not_found({rounded, "days since 2020-01-01"}) == 0);

  // each calendar names its own days, before year 0 too
  CHECK(hg::TimeAxis({0, 59}, "days since 2000-01-01", "360_day").date(1) == "2000-02-30T00:00:00");
  CHECK(hg::TimeAxis({-1, 0}, "days since 0000-01-01", "noleap").date(0) == "-001-12-31T00:00:00");

  const hg::TimeAxis axis(steps(year_2021, 1200, 86400, 2000), "days since 0001-01-01", "proleptic_gregorian");
  CHECK(axis.date(1) == "2021-01-01T00:20:00");
  CHECK(axis.index_of("2021-01-01T00:20:00") == 1);
  CHECK(axis.index_of("2021-01-01T00:20:01") == 2);
  CHECK(axis.index_of("2021-01-01T00:19:59") == 1);
  CHECK(axis.index_of("2021-01-01T00:20:00.01") == 2);
  CHECK(axis.index_of("2021-01-01T00:19:59.99") == 1);

  // a date is the nearest second, also before the origin and over the end of a day
  const hg::TimeAxis between({-0.7, 1.4, 2.6}, "seconds since 2018-01-01");
  CHECK(between.date(0) == "2017-12-31T23:59:59");
  CHECK(between.date(1) == "2018-01-01T00:00:01");
  CHECK(between.date(2) == "2018-01-01T00:00:03");
  CHECK(hg::TimeAxis({0.999999}, "days since 2018-01-01").date(0) == "2018-01-02T00:00:00");

  // fractions of a second stay apart
  const hg::TimeAxis fine({0, 250, 500, 750, 1000}, "milliseconds since 2020-01-01");
  for (hg::index_t i = 0; i < 5; ++i)
    CHECK(fine.index_of("2020-01-01T00:00:0" + std::to_string(i / 4) + "." + std::to_string(25 * (i % 4))) == i);
  CHECK(support::refusal<hg::Error>([] {
          hg::TimeAxis({0, std::nan("")}, "days since 2020-01-01");
        }) == "TimeAxis: one of its times is no number");
  for (const char* date : {"99999999-01-01", "40000-01-01", "2020-01-01T06:", "2020-01-01T06:00:nan", "2020-01-01T1e1",
                           "2020-01-01T06:00:00,5", "2020-1", ""})
    CHECK(support::refusal<hg::Error>([&] { axis.index_of(date); }) ==
          "TimeAxis: '" + std::string(date) +
              "' is no date of the calendar 'proleptic_gregorian': give one as 2018-01-01T06:00:00");
}

TEST_CASE("under a locale with a decimal comma dates are read, and numbers are written, as under any other") {
  const auto text_of = [](double number) { return hg::detail::number_text(number, std::chars_format::general, 3); };
  CHECK(text_of(0.0625) == "0.0625");
  {
    const Comma comma;
    if (!comma.is_there()) {
      MESSAGE("no locale with a decimal comma here, nor localedef with the sources of one");
    } else {
      char text[8];
      std::snprintf(text, sizeof text, "%.1f", 0.5);
      CHECK(text == std::string("0,5"));
      CHECK(text_of(0.0625) == "0.0625");
      const hg::TimeAxis axis({0, 500, 1000}, "milliseconds since 2020-01-01 00:00:0.5");
      CHECK(axis.index_of("2020-01-01T00:00:00.75") == 1);
      CHECK(axis.index_of("2020-01-01 00:00:1.5") == 2);
      ::setenv("HALOGEN_TEST_NUMBER", "2.5", 1);
      CHECK(hg::detail::number_of("HALOGEN_TEST_NUMBER", 1, 0, 9) == 2.5);
      ::setenv("HALOGEN_TEST_NUMBER", "2,5", 1);
      CHECK(support::refusal<hg::CollectiveError>([] {
              hg::detail::number_of("HALOGEN_TEST_NUMBER", 1, 0, 9);
            }).starts_with("HALOGEN_TEST_NUMBER=2,5 is no number from "));
      ::unsetenv("HALOGEN_TEST_NUMBER");
      CHECK(support::refusal<hg::CollectiveError>([] { hg::detail::within("beta", 0.25, 0.5, 1, "0.5 to 1"); }) ==
            "beta = 0.25: give 0.5 to 1");
      CHECK(hg::detail::mib(3 << 19) == "1.50");  // of explain
    }
  }
}
