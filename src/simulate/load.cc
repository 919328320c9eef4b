#include "simulate/load.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>

#include "config/tables.h"
#include "simulate/random.h"

namespace gradus::simulate {
namespace {

using config::Faults;
using config::Field;
using config::Fields;
using config::Reader;
using config::Value;
using namespace std::chrono_literals;

constexpr double kWeek = 7 * 86'400;   // s
constexpr double kHour = 3'600'000;    // ms
constexpr std::size_t kMaxLevels = 8;  // of a ladder
constexpr double kMostRequests = 1e9;  // in a scenario, about

/// A time as a number of `unit`, into a Duration or an optional one.
template <class S, class Time>
Field<S> time(std::string key, Time S::*member, Duration unit, config::Range range,
              std::string help = "") {
  return {std::move(key), "a number in " + config::range_text(range), std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            double number = 0;
            if (!config::read_number(value, range, reader, number)) return;
            out.*member = Duration(std::llround(number * static_cast<double>(unit.count())));
          },
          [](const S&) { return Value{}; }};
}

template <class S>
Field<S> required(Field<S> field) {
  field.required = true;
  return field;
}

/// A list of maps, each read into one S.
template <class S>
std::vector<S> read_list(const Value& value, const Fields<S>& fields, Reader& reader) {
  std::vector<S> list;
  if (value.kind != Value::Kind::kList) {
    reader.refuse(value, "must be a list");
    return list;
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Reader::Step step(reader, config::index_segment(i));
    config::read_fields(value.items[i], fields, reader, list.emplace_back());
  }
  return list;
}

const Fields<Level>& level_fields() {
  constexpr config::Range kMs{0, kHour, true};
  static const Fields<Level> fields = {
      required(config::text("name", &Level::name, config::is_plain_word,
                            std::string("a name of ") + config::kPlainWord, "")),
      config::text("device", &Level::device, config::is_plain_word, "a name in devices", ""),
      required(time("mean_ms", &Level::mean, 1ms, kMs)),
      time("p99_ms", &Level::p99, 1ms, kMs),
      config::integer("max_batch_size", &Level::max_batch_size, 1, 1024, ""),
      config::number("each_more", &Level::each_more, {0, 1}, ""),
      required(time("target_p99_ms", &Level::target_p99, 1ms, kMs)),
      config::number("quality", &Level::quality, {0, 1}, ""),
      time("first_ms", &Level::first, 1ms, kMs),
      time("wake_ms", &Level::wake, 1ms, kMs),
      time("max_run_ms", &Level::max_run, 1ms, kMs),
  };
  return fields;
}

const Fields<Fault>& fault_fields() {
  constexpr config::Range kTime{0, kWeek};
  static const Fields<Fault> fields = {
      config::integer("level", &Fault::level, 0, 7, ""),
      required(config::choice<Fault, Trouble>("what", &Fault::what,
                                              {{"lost", Trouble::kLost},
                                               {"hang", Trouble::kHang},
                                               {"slow", Trouble::kSlow},
                                               {"errors", Trouble::kErrors},
                                               {"alternating", Trouble::kAlternating}},
                                              "")),
      required(time("at_s", &Fault::at, 1s, kTime)),
      required(time("for_s", &Fault::lasts, 1s, {0, kWeek, true})),
      time("every_s", &Fault::every, 1s, {0, kWeek, true}),
      config::integer("times", &Fault::times, 1, 1'000'000, ""),
      config::number("factor", &Fault::factor, {1, 1000}, ""),
      config::number("share", &Fault::share, {0, 1, true}, ""),
  };
  return fields;
}

const Fields<Rate>& rate_fields() {
  static const Fields<Rate> fields = {
      required(time("at_s", &Rate::at, 1s, {0, kWeek, true})),
      required(config::number("rate", &Rate::per_second, {0, 1e6}, "")),
  };
  return fields;
}

bool parse_number(std::string_view text, double& number) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && rest == text.data() + text.size() && std::isfinite(number);
}

/// `seconds` or `seconds,deadline_ms` a line, ascending; the first line may be a heading.
bool read_record(std::string_view line, double last_s, RecordedRequest& out) {
  const std::size_t comma = line.find(',');
  double at_s = 0;
  if (!parse_number(line.substr(0, comma), at_s) || at_s < last_s || at_s > kWeek) return false;
  out.at = Duration(std::llround(at_s * 1e9));
  if (comma == std::string_view::npos) return true;
  double deadline_ms = 0;
  if (!parse_number(line.substr(comma + 1), deadline_ms)) return false;
  out.deadline = Duration(std::llround(deadline_ms * 1e6));
  return deadline_ms > 0 && deadline_ms <= kHour;
}

std::vector<RecordedRequest> read_csv(const std::filesystem::path& path, Reader& reader) {
  std::vector<RecordedRequest> requests;
  std::ifstream file(path);
  if (!file) {
    reader.fault("", path.string() + " cannot be read");
    return requests;
  }
  std::string line;
  double last_s = 0;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line == "\r") continue;
    RecordedRequest request;
    if (read_record(line, last_s, request)) {
      last_s = to_ms(request.at) / 1000;
      requests.push_back(request);
    } else if (number > 1 || (line[0] >= '0' && line[0] <= '9')) {
      reader.fault("", path.string() + ":" + std::to_string(number) + " = " +
                           config::printable(line) +
                           ": must be seconds from the start, ascending, and perhaps a comma and a "
                           "deadline in ms");
      return {};
    }
  }
  if (requests.empty()) reader.fault("", path.string() + " holds no requests");
  return requests;
}

/// `rate` and `steps` are one list in the end.
struct ArrivalKeys {
  double rate = 0;
  std::vector<Rate> steps;
  Duration burst_every{};
  std::uint32_t burst_size = 10;
  std::uint32_t shapes = 1;
  std::string csv;
};

const Fields<ArrivalKeys>& arrival_fields() {
  static const Fields<ArrivalKeys> fields = {
      config::number("rate", &ArrivalKeys::rate, {0, 1e6}, ""),
      {"steps", "a list", "",
       [](const Value& value, Reader& reader, ArrivalKeys& out) {
         out.steps = read_list(value, rate_fields(), reader);
         if (!std::ranges::is_sorted(out.steps, {}, &Rate::at)) {
           reader.fault("", "at_s must ascend");
         }
       },
       [](const ArrivalKeys&) { return Value{}; }},
      time("burst_every_s", &ArrivalKeys::burst_every, 1s, {0, kWeek, true}),
      config::integer("burst_size", &ArrivalKeys::burst_size, 1, 1'000'000, ""),
      config::integer("shapes", &ArrivalKeys::shapes, 1, 10'000, ""),
      config::text(
          "csv", &ArrivalKeys::csv, [](std::string_view text) { return !text.empty(); },
          "a file's name", ""),
  };
  return fields;
}

void read_arrivals(const Value& value, Reader& reader, const std::filesystem::path& folder,
                   Arrivals& out) {
  ArrivalKeys keys;
  config::read_fields(value, arrival_fields(), reader, keys);
  out.rates = {{0s, keys.rate}};
  out.rates.insert(out.rates.end(), keys.steps.begin(), keys.steps.end());
  out.burst_every = keys.burst_every;
  out.burst_size = keys.burst_size;
  out.shapes = keys.shapes;
  if (keys.csv.empty()) return;
  const Reader::Step step(reader, "csv");
  out.recorded = read_csv(folder / keys.csv, reader);
}

void read_devices(const Value& value, Reader& reader, std::vector<Device>& out) {
  if (value.kind != Value::Kind::kMap) {
    reader.refuse(value, "must be a map of names to runs at a time");
    return;
  }
  out.clear();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Reader::Step step(reader, value.keys[i]);
    std::int64_t instances = 1;
    if (!config::read_integer(value.items[i], 1, 256, reader, instances)) continue;
    out.push_back({value.keys[i], static_cast<std::uint32_t>(instances)});
  }
}

Fields<Scenario> scenario_fields(const std::filesystem::path& folder) {
  const auto nothing = [](const Scenario&) { return Value{}; };
  return {
      time("duration_s", &Scenario::lasts, 1s, {0, kWeek, true}),
      time("deadline_ms", &Scenario::deadline, 1ms, {0, kHour, true}),
      config::integer("seed", &Scenario::seed, 0, INT64_MAX, ""),
      config::integer("max_queue_size", &Scenario::max_queue_size, 1, 1'000'000, ""),
      {"devices", "a map of names to runs at a time", "",
       [](const Value& value, Reader& reader, Scenario& out) {
         read_devices(value, reader, out.devices);
       },
       nothing},
      required<Scenario>({"levels", "a list of 1 to 8 levels", "",
                          [](const Value& value, Reader& reader, Scenario& out) {
                            out.levels = read_list(value, level_fields(), reader);
                          },
                          nothing}),
      required<Scenario>({"arrivals", "a map of keys", "",
                          [folder](const Value& value, Reader& reader, Scenario& out) {
                            read_arrivals(value, reader, folder, out.arrivals);
                          },
                          nothing}),
      {"faults", "a list", "",
       [](const Value& value, Reader& reader, Scenario& out) {
         out.faults = read_list(value, fault_fields(), reader);
       },
       nothing},
  };
}

void check_level(const Scenario& scenario, const Level& level, Reader& reader) {
  if (std::ranges::find(scenario.devices, level.device, &Device::name) == scenario.devices.end()) {
    reader.refuse_key("device", Value::plain(level.device), "must be one of devices");
  }
  const Duration p99 = p99_of(level);
  const auto most = std::chrono::duration_cast<Duration>(RunTimes::kMostTail * level.mean);
  if (p99 < level.mean || p99 > most) {
    reader.refuse_key("p99_ms", config::show_number(to_ms(p99)),
                      "must be in [mean_ms, 14 x mean_ms]");
  }
}

void check_fault(const Scenario& scenario, const Fault& fault, Reader& reader) {
  if (fault.level >= scenario.levels.size()) {
    reader.refuse_key(
        "level", Value::plain(std::to_string(fault.level)),
        "must be under the number of levels, " + std::to_string(scenario.levels.size()));
  }
  if (fault.every > 0s && fault.every <= fault.lasts) {
    reader.refuse_key("every_s", config::show_number(to_ms(fault.every) / 1000),
                      "must be over for_s");
  }
}

/// What ties values to each other; and the times that may be left out.
void settle(Scenario& scenario, Reader& reader) {
  if (scenario.levels.empty() || scenario.levels.size() > kMaxLevels) {
    reader.fault("levels",
                 "holds " + std::to_string(scenario.levels.size()) + " levels: must hold 1 to 8");
  }
  {
    const Reader::Step levels(reader, "levels");
    for (std::size_t i = 0; i < scenario.levels.size(); ++i) {
      const Reader::Step step(reader, config::index_segment(i));
      check_level(scenario, scenario.levels[i], reader);
    }
  }
  const Reader::Step faults(reader, "faults");
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    const Reader::Step step(reader, config::index_segment(i));
    check_fault(scenario, scenario.faults[i], reader);
  }
}

double requests_of(const Scenario& scenario) {
  const Arrivals& arrivals = scenario.arrivals;
  const double seconds = to_ms(scenario.lasts) / 1000;
  double most = static_cast<double>(arrivals.recorded.size());
  for (const Rate& rate : arrivals.rates) most += rate.per_second * seconds;
  if (arrivals.burst_every > 0s) {
    most += arrivals.burst_size * seconds / (to_ms(arrivals.burst_every) / 1000);
  }
  return most;
}

config::Loaded<Scenario> read_scenario(const Value& tree, const std::filesystem::path& path,
                                       Faults faults) {
  const std::string name = path.string();
  Reader reader(name, faults);
  Scenario scenario;
  scenario.name = path.stem().string();
  scenario.deadline = 1s;
  scenario.devices = {{"gpu", 1}, {"cpu", 4}};
  config::read_fields(tree, scenario_fields(path.parent_path()), reader, scenario);
  if (faults.empty()) settle(scenario, reader);
  if (faults.empty() && scenario.lasts <= 0s) {
    scenario.lasts = scenario.arrivals.recorded.empty()
                         ? Duration(10min)
                         : scenario.arrivals.recorded.back().at + Duration(1);
  }
  if (const double most = requests_of(scenario);
      faults.empty() && (most < 1 || most > kMostRequests)) {
    reader.fault("arrivals", "bring about " + config::show_number(std::round(most)).text +
                                 " requests: must be 1 to 1000000000");
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return scenario;
}

}  // namespace

config::Loaded<Scenario> parse_scenario(std::string_view text, const std::filesystem::path& path) {
  Faults faults;
  const std::optional<Value> tree = config::parse_yaml(text, path.string(), faults);
  if (!tree) return tl::unexpected(std::move(faults));
  return read_scenario(*tree, path, std::move(faults));
}

config::Loaded<Scenario> load_scenario(const std::filesystem::path& path) {
  Faults faults;
  const std::optional<Value> tree = config::load_yaml(path, faults);
  if (!tree) return tl::unexpected(std::move(faults));
  return read_scenario(*tree, path, std::move(faults));
}

config::Loaded<config::PolicyConfig> load_policy(const std::filesystem::path& path) {
  Faults faults;
  std::optional<Value> tree = config::load_yaml(path, faults);
  if (!tree) return tl::unexpected(std::move(faults));
  const std::string name = path.string();
  Reader reader(name, faults);
  config::PolicyConfig policy;
  const Value* const below = tree->find("policy");
  std::optional<Reader::Step> step;
  if (below != nullptr) step.emplace(reader, "policy");
  config::read_fields(below != nullptr ? *below : *tree, config::policy_fields(), reader, policy);
  if (faults.empty()) config::check_policy(policy, reader);
  step.reset();
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return policy;
}

}  // namespace gradus::simulate
