// The time axis of a series by CF: numbers with units such as "hours since 1900-01-01" as dates, and the number of a
// date's step. https://cfconventions.org, section 4.4.
//
//   const hg::TimeAxis time(hg::NetcdfVariable("era5.nc", "time"));
//   options.last = time.index_of("2018-01-01");                          // trains on what is before 2018
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"

namespace halogen {

/// Calendars: standard, gregorian, proleptic_gregorian (the same here: dates from 1582-10-15 on), noleap, 365_day,
/// 360_day. Units: milliseconds, seconds, minutes, hours, days. Error: others, a date that is none, times that do not
/// increase.
class TimeAxis {
 public:
  TimeAxis(std::vector<double> times, const std::string& units, std::string calendar = "standard")
      : calendar_(std::move(calendar)) {
    const std::size_t since = units.find(" since ");
    const double second = since == std::string::npos ? 0 : seconds_of(units.substr(0, since));
    if (second == 0)
      refuse("units of '" + units + "': give them as 'hours since 1900-01-01 00:00:00', or seconds, days");
    const std::string origin = units.substr(since + 7);
    const double begin = seconds_since_zero(origin);
    double most = std::abs(begin);
    if (calendar_ != "proleptic_gregorian" && is_real() && begin < seconds_since_zero("1582-10-15"))
      refuse("'" + units + "' begins before 1582-10-15, where the calendar '" + calendar_ +
             "' changes: give proleptic_gregorian if that is meant");
    for (const double time : times) {
      seconds_.push_back(begin + time * second);
      rounding_ = std::max(rounding_, spacing(time) * second);
      most = std::max(most, std::abs(seconds_.back()));
    }
    if (std::ranges::any_of(seconds_, [](double at) { return !std::isfinite(at); }))
      refuse("one of its times is no number");
    rounding_ = 1e-6 + 2 * (rounding_ + spacing(most));
    if (std::ranges::adjacent_find(seconds_, std::greater_equal<>()) != seconds_.end())
      refuse("its times do not increase");
    const auto is_close = [](double a, double b) { return b - a <= 1; };
    steps_over_seconds_ = std::ranges::adjacent_find(seconds_, is_close) == seconds_.end();
  }

  /// Local: reads a variable of one dimension, with its attributes `units` and `calendar`.
  template <class Variable>
  explicit TimeAxis(const Variable& variable)
      : TimeAxis(numbers_of(variable), variable.attributes().value("units", std::string()),
                 variable.attributes().value("calendar", std::string("standard"))) {}

  index_t size() const { return static_cast<index_t>(seconds_.size()); }

  /// "2018-01-01T06:00:00", to the nearest second.
  std::string date(index_t i) const {
    const double rounded = std::floor(seconds_.at(static_cast<std::size_t>(i)) + 0.5);
    const double day = std::floor(rounded / 86400);
    const int second = static_cast<int>(rounded - 86400 * day);
    const std::array<int, 3> of_day = date_of(static_cast<long long>(day));
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d", of_day[0], of_day[1], of_day[2], second / 3600,
                  second / 60 % 60, second % 60);
    return text;
  }

  /// The first step at that date or after it; size() where all are before: "2018-01-01", "2018-01-01T06:00:00". Times
  /// count as rounded as their file's numbers are; those that are more than a second apart count to the nearest second,
  /// as date() has them, if the date has no fraction: index_of(date(i)) is i.
  index_t index_of(const std::string& date) const {
    const double wanted = seconds_since_zero(date);
    const double rounding = steps_over_seconds_ && std::floor(wanted) == wanted ? 0.5 : rounding_;
    return std::ranges::lower_bound(seconds_, wanted - rounding) - seconds_.begin();
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) { throw Error("TimeAxis: " + what); }

  template <class Variable>
  static std::vector<double> numbers_of(const Variable& variable) {
    if (variable.shape().size() != 1)
      refuse("'" + variable.name() + "' has not one dimension: name the time's variable");
    std::vector<double> numbers(static_cast<std::size_t>(variable.shape()[0]));
    if (!numbers.empty()) variable.read({0}, variable.shape(), numbers.data());
    return numbers;
  }

  /// Of a unit; 0: there is none of that name.
  static double seconds_of(const std::string& unit) {
    constexpr std::pair<const char*, double> units[] = {{"milliseconds", 1e-3},
                                                        {"millisecond", 1e-3},
                                                        {"msec", 1e-3},
                                                        {"ms", 1e-3},
                                                        {"seconds", 1},
                                                        {"second", 1},
                                                        {"sec", 1},
                                                        {"secs", 1},
                                                        {"s", 1},
                                                        {"minutes", 60},
                                                        {"minute", 60},
                                                        {"min", 60},
                                                        {"mins", 60},
                                                        {"hours", 3600},
                                                        {"hour", 3600},
                                                        {"hr", 3600},
                                                        {"hrs", 3600},
                                                        {"h", 3600},
                                                        {"days", 86400},
                                                        {"day", 86400},
                                                        {"d", 86400}};
    for (const auto& [name, seconds] : units)
      if (unit == name) return seconds;
    return 0;
  }

  bool is_real() const {
    return calendar_ == "standard" || calendar_ == "gregorian" || calendar_ == "proleptic_gregorian";
  }
  bool has_360_days() const { return calendar_ == "360_day"; }

  static constexpr std::array<int, 13> before_month{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};

  long long days_of(int year, int month, int day) const {
    using namespace std::chrono;
    if (is_real()) return sys_days(std::chrono::year(year) / month / day).time_since_epoch().count();
    if (has_360_days()) return 360LL * year + 30 * (month - 1) + day - 1;
    return 365LL * year + before_month[static_cast<std::size_t>(month - 1)] + day - 1;
  }
  /// Year, month, day.
  std::array<int, 3> date_of(long long days) const {
    if (is_real()) {
      const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
      return {static_cast<int>(date.year()), static_cast<int>(static_cast<unsigned>(date.month())),
              static_cast<int>(static_cast<unsigned>(date.day()))};
    }
    const long long length = has_360_days() ? 360 : 365;
    const long long year = days >= 0 ? days / length : -((length - 1 - days) / length);
    const int rest = static_cast<int>(days - year * length);
    if (has_360_days()) return {static_cast<int>(year), rest / 30 + 1, rest % 30 + 1};
    const auto month = std::ranges::upper_bound(before_month, rest) - before_month.begin();
    return {static_cast<int>(year), static_cast<int>(month),
            rest - before_month[static_cast<std::size_t>(month - 1)] + 1};
  }

  double seconds_since_zero(const std::string& text) const {
    if (!is_real() && !has_360_days() && calendar_ != "noleap" && calendar_ != "365_day")
      refuse("there is no calendar '" + calendar_ + "' here: standard, proleptic_gregorian, noleap, 360_day are read");
    int year = 0, month = 0, day = 0, hour = 0, minute = 0;
    double second = 0;
    std::string_view rest = text;
    bool is_date = take(rest, year) && take(rest, '-', month) && take(rest, '-', day) && std::abs(year) <= 32767;
    if (is_date && !rest.empty() && (rest[0] == ' ' || rest[0] == 'T'))
      if (take(rest, rest[0], hour) && take(rest, ':', minute)) take(rest, ':', second);
    for (const char* zone : {" UTC", "UTC", "Z", " +00:00", "+00:00", " 0:00", " GMT"})
      if (rest == zone) rest = {};
    const auto length_of = [&] {
      if (has_360_days()) return 30;
      const int days =
          before_month[static_cast<std::size_t>(month)] - before_month[static_cast<std::size_t>(month - 1)];
      return days + (is_real() && month == 2 && std::chrono::year(year).is_leap() ? 1 : 0);
    };
    if (!is_date || !rest.empty() || month < 1 || month > 12 || day < 1 || day > length_of() || hour < 0 || hour > 24 ||
        minute < 0 || minute > 59 || !(second >= 0 && second < 61))
      refuse("'" + text + "' is no date of the calendar '" + calendar_ + "': give one as 2018-01-01T06:00:00");
    return 86400.0 * static_cast<double>(days_of(year, month, day)) + 3600.0 * hour + 60.0 * minute + second;
  }

  /// Takes a number from the beginning of a text, by the same rules whatever the locale is. The text stays as it is if
  /// there is none.
  template <class Number>
  static bool take(std::string_view& text, Number& number) {
    std::size_t begin = 0;
    while (begin < text.size() && text[begin] == ' ') ++begin;
    const auto [end, fault] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
    if (fault != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  }
  /// The same of a number that follows a character.
  template <class Number>
  static bool take(std::string_view& text, char before, Number& number) {
    if (text.empty() || text[0] != before) return false;
    std::string_view rest = text.substr(1);
    if (!take(rest, number)) return false;
    text = rest;
    return true;
  }
  /// Between a number and the next larger one.
  static double spacing(double number) { return std::nextafter(std::abs(number), HUGE_VAL) - std::abs(number); }

  std::string calendar_;
  std::vector<double> seconds_;
  double rounding_ = 0;              ///< seconds by which they may differ from what is meant
  bool steps_over_seconds_ = false;  ///< each is more than a second after the one before
};

}  // namespace halogen
