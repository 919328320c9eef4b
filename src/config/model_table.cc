#include <algorithm>

#include "config/tables.h"

namespace gradus::config {
namespace {

using L = LevelConfig;

constexpr std::size_t kMaxLevels = 8;
constexpr int kLastLevel = 7;
constexpr std::int64_t kHour = 3'600'000;  // ms
constexpr std::string_view kDefaultNames[] = {"gpu", "cpu", "cpu-int8", "cpu-small"};

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." &&
         name.find("..") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c != '/' && c != '\\' && c != 0x7f && (c & 0xE0) != 0; });
}

void read_device_ids(const Value& value, Reader& reader, L& out) {
  if (value.kind != Value::Kind::kList) {
    reader.refuse(value, "must be a list of integers in [0, 255]");
    return;
  }
  out.device_ids.clear();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Reader::Step step(reader, index_segment(i));
    std::int64_t id = 0;
    if (!read_integer(value.items[i], 0, 255, reader, id)) continue;
    if (std::count(out.device_ids.begin(), out.device_ids.end(), id) > 0) {
      reader.refuse(value.items[i], "must be named once");
    } else {
      out.device_ids.push_back(static_cast<int>(id));
    }
  }
}

Value show_device_ids(const L& level) {
  Value list = Value::list();
  for (const int id : level.device_ids) list.items.push_back(Value::plain(std::to_string(id)));
  return list;
}

void read_preferred_sizes(const Value& value, Reader& reader, L& out) {
  if (value.kind != Value::Kind::kList) {
    reader.refuse(value, "must be a list of integers in [1, 1024], ascending");
    return;
  }
  out.preferred_batch_sizes.clear();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Reader::Step step(reader, index_segment(i));
    std::int64_t size = 0;
    const std::int64_t least =
        out.preferred_batch_sizes.empty() ? 1 : out.preferred_batch_sizes.back() + 1;
    if (!read_integer(value.items[i], least, out.max_batch_size, reader, size)) continue;
    out.preferred_batch_sizes.push_back(static_cast<std::uint32_t>(size));
  }
}

Value show_preferred_sizes(const L& level) {
  Value list = Value::list();
  for (const auto size : level.preferred_batch_sizes) {
    list.items.push_back(Value::plain(std::to_string(size)));
  }
  return list;
}

void read_pad(const Value& value, Reader& reader, ModelConfig& out) {
  if (value.kind != Value::Kind::kMap) {
    reader.refuse(value, "must be a map of input names to numbers");
    return;
  }
  out.pad.clear();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Reader::Step step(reader, value.keys[i]);
    double number = 0;
    if (read_number(value.items[i], {-1e300, 1e300}, reader, number)) {
      out.pad[value.keys[i]] = number;
    }
  }
}

Value show_pad(const ModelConfig& config) {
  if (config.pad.empty()) return Value{};
  Value map = Value::map();
  for (const auto& [input, value] : config.pad) map.add(input, show_number(value));
  return map;
}

Value show_level_providers(const L& level) {
  Value list = Value::list();
  for (const auto* providers : {&level.providers, &level.excluded}) {
    for (const ProviderConfig& provider : *providers) {
      if (provider.options.empty()) {
        list.items.push_back(Value::string(provider.name));
        continue;
      }
      Value options = Value::map();
      for (const auto& [key, text] : provider.options) options.add(key, Value::string(text));
      Value entry = Value::map();
      entry.add(provider.name, std::move(options));
      list.items.push_back(std::move(entry));
    }
  }
  for (const ProviderConfig& provider : level.excluded) {
    list.comment += (list.comment.empty() ? "excluded by --providers: " : ", ") + provider.name;
  }
  return list;
}

constexpr const char* kVersionPolicy = "all, {latest: N} or {specific: [versions]}";

void read_version_policy(const Value& value, Reader& reader, ModelConfig& out) {
  constexpr std::int64_t kMostVersions = 1'000'000;
  if (value.kind == Value::Kind::kScalar && value.text == "all") {
    out.version_policy = {.latest = 0, .specific = {}};
    return;
  }
  const Value* const latest = value.find("latest");
  const Value* const specific = value.find("specific");
  const bool is_list =
      specific != nullptr && specific->kind == Value::Kind::kList && !specific->items.empty();
  if (value.kind != Value::Kind::kMap || value.items.size() != 1 ||
      (latest == nullptr && !is_list)) {
    reader.refuse(value, std::string("must be ") + kVersionPolicy);
    return;
  }
  std::int64_t number = 0;
  if (latest != nullptr) {
    const Reader::Step step(reader, "latest");
    if (read_integer(*latest, 1, kMostVersions, reader, number)) {
      out.version_policy = {.latest = static_cast<std::uint32_t>(number), .specific = {}};
    }
    return;
  }
  const Reader::Step step(reader, "specific");
  VersionPolicy policy;
  for (std::size_t i = 0; i < specific->items.size(); ++i) {
    const Reader::Step item(reader, index_segment(i));
    if (read_integer(specific->items[i], 1, INT64_MAX, reader, number)) {
      policy.specific.insert(static_cast<std::uint64_t>(number));
    }
  }
  out.version_policy = policy;
}

Value show_version_policy(const ModelConfig& config) {
  const VersionPolicy& policy = config.version_policy;
  if (policy.specific.empty() && policy.latest == 0) return Value::plain("all");
  Value map = Value::map();
  if (policy.specific.empty()) {
    map.add("latest", Value::plain(std::to_string(policy.latest)));
    return map;
  }
  Value list = Value::list();
  for (const auto version : policy.specific) {
    list.items.push_back(Value::plain(std::to_string(version)));
  }
  map.add("specific", std::move(list));
  return map;
}

/// `level` and `name` of one entry against those before it; its number where it gives none.
void place_level(const Value& entry, const std::vector<L>& before, Reader& reader, L& level) {
  const int least = before.empty() ? 0 : before.back().level + 1;
  if (const Value* number = entry.find("level")) {
    if (level.level < least) {
      reader.refuse_key("level", *number,
                        "must be over " + std::to_string(least - 1) + ", the level before it");
    }
  } else if (least > kLastLevel) {
    reader.fault("level", "missing: one more than the level before it is over " +
                              std::to_string(kLastLevel));
  } else {
    level.level = least;
  }
  for (const L& other : before) {
    if (!level.name.empty() && other.name == level.name) {
      reader.refuse_key("name", Value::string(level.name), "must differ from the other levels'");
    }
  }
}

/// Without a `quality` an entry is a little worse than the one before it, or as good if it runs the
/// same file.
void rank_level(const Value& entry, const std::vector<L>& before, L& level) {
  constexpr double kStep = 0.01;
  if (before.empty() || entry.find("quality") != nullptr) return;
  const L& last = before.back();
  level.quality = last.file == level.file ? last.quality : std::max(0.0, last.quality - kStep);
}

void read_levels(const Value& value, Reader& reader, ModelConfig& out) {
  if (value.kind != Value::Kind::kList) {
    reader.refuse(value, "must be a list of 1 to " + std::to_string(kMaxLevels) + " levels");
    return;
  }
  if (value.items.empty() || value.items.size() > kMaxLevels) {
    reader.fault("", "holds " + std::to_string(value.items.size()) + " levels: must hold 1 to " +
                         std::to_string(kMaxLevels));
    return;
  }
  out.levels.clear();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Value& entry = value.items[i];
    const Reader::Step step(reader, index_segment(i));
    L level;
    level.level = kLastLevel;  // a refused number raises no second fault
    read_fields(entry, level_fields(), reader, level);
    place_level(entry, out.levels, reader, level);
    rank_level(entry, out.levels, level);
    out.levels.push_back(std::move(level));
  }
}

Value show_levels(const ModelConfig& config) {
  Value list = Value::list();
  for (const L& level : config.levels) list.items.push_back(show_fields(level_fields(), level));
  return list;
}

void read_default_levels(const Value& value, Reader& reader, ModelConfig& out) {
  if (value.kind != Value::Kind::kMap && value.kind != Value::Kind::kNull) {
    reader.refuse(value, "must be a map of default levels' names");
    return;
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string& name = value.keys[i];
    if (std::find(std::begin(kDefaultNames), std::end(kDefaultNames), name) ==
        std::end(kDefaultNames)) {
      reader.fault(name, unknown_key(name, {std::begin(kDefaultNames), std::end(kDefaultNames)}));
      continue;
    }
    const Reader::Step step(reader, name);
    L absent;  // checked all the same: the next version may hold the file
    const auto level = std::find_if(out.levels.begin(), out.levels.end(),
                                    [&](const L& other) { return other.name == name; });
    read_fields(value.items[i], default_level_fields(), reader,
                level == out.levels.end() ? absent : *level);
  }
}

Field<L> required(Field<L> field) {
  field.required = true;
  field.default_text = "required";
  return field;
}

Fields<L> make_level_fields() {
  Fields<L> fields = {
      integer("level", &L::level, 0, kLastLevel, "0 is the best; levels stand in ascending order"),
      required(text("name", &L::name, is_plain_word, std::string("a name of ") + kPlainWord,
                    "how answers, metrics and logs call the level; unique")),
      required(text("file", &L::file, is_file_name, "a plain file name, without / or ..",
                    "the variant, in each version's folder")),
      required(
          {"providers", "a list of at least one provider",
           "tried in order; each a name, or `{name: {option: value}}` with ONNX Runtime's options",
           [](const Value& value, Reader& reader, L& out) {
             read_level_providers(value, reader, out.providers);
           },
           show_level_providers}),
      {"device_ids", "a list of integers in [0, 255]",
       "devices to place instances on; empty: the provider's default", read_device_ids,
       show_device_ids},
      integer(
          "max_batch_size", &L::max_batch_size, 1, 1024,
          "samples joined in one run, at most, and of one large request's parts; 1: requests run "
          "as they come"),
      microseconds("max_queue_delay_us", &L::max_queue_delay, 0, 10'000'000,
                   "the longest that a request waits for a fuller batch while an instance is idle"),
      {"preferred_batch_sizes", "a list of integers in [1, max_batch_size], ascending",
       "a batch closes at once when it has the largest of these that is in reach",
       read_preferred_sizes, show_preferred_sizes},
      number("max_padding_waste", &L::max_padding_waste, {0, 1},
             "share of a batch's elements that may be padding of unequal lengths"),
      choice<L, Join>("join", &L::join, {{"auto", Join::kIfQuicker}, {"always", Join::kAlways}},
                      "`auto`: batches are as large as measured runs show that it saves time; "
                      "`always`: as large as they may be"),
      boolean("adaptive_batch", &L::adaptive_batch,
              "a run over the p99 target halves the size of batches, full ones that go well let it "
              "grow again"),
      number("batch_tier_share", &L::batch_tier_share, {0, 1},
             "of an otherwise idle GPU's time that requests of tier `batch` may use"),
      milliseconds("target_p99_ms", &L::target_p99, 1, kHour, "p99 target of one run"),
      integer("threads", &L::threads, 1, 256, "threads within one run"),
      choice<L, ExecutionMode>(
          "execution_mode", &L::execution_mode,
          {{"sequential", ExecutionMode::kSequential}, {"parallel", ExecutionMode::kParallel}},
          "of ONNX Runtime. `parallel` takes a CPU more a run, and only nodes on different kinds "
          "of devices go on at the same time"),
      integer("inter_op_threads", &L::inter_op_threads, 0, 256,
              "that run nodes in mode `parallel`; 0: as many as CPUs"),
      integer("instances", &L::instances, 0, 256,
              "runs at the same time; 0: as many as CPUs allow, 1 on a GPU"),
      choice<L, CheckOutputs>("check_outputs", &L::check_outputs,
                              {{"none", CheckOutputs::kNone}, {"finite", CheckOutputs::kFinite}},
                              "`finite`: NaN or infinity in an output is a failure"),
      boolean("allow_software_gpu", &L::allow_software_gpu,
              "a Vulkan device of type CPU counts as a GPU (tests, demos)"),
      choice<L, Keep>("keep", &L::keep, {{"auto", Keep::kIfFaster}, {"always", Keep::kAlways}},
                      "`always`: kept even where a better level is faster"),
      choice<L, Isolation>("isolation", &L::isolation,
                           {{"auto", Isolation::kAuto},
                            {"none", Isolation::kNone},
                            {"process", Isolation::kProcess}},
                           "`process`: in a worker process, whose death the server survives; "
                           "`auto`: that for levels with a GPU provider"),
      number("quality", &L::quality, {0, 1},
             "of its answers: a level is left out if one at least as good is faster"),
  };
  fields.front().default_text = "one more than the level before";
  fields.back().default_text = "1, then 0.01 less for each other file";
  return fields;
}

}  // namespace

const Fields<L>& level_fields() {
  static const Fields<L> fields = make_level_fields();
  return fields;
}

const Fields<L>& default_level_fields() {
  static const Fields<L> fields = [] {
    Fields<L> some;
    for (const Field<L>& field : level_fields()) {
      if (field.key == "level" || field.key == "name" || field.key == "file") continue;
      some.push_back(field);
      some.back().required = false;
    }
    return some;
  }();
  return fields;
}

const Fields<ModelConfig>& model_fields() {
  static const Fields<ModelConfig> fields = {
      {"default_levels", "a map of default levels' names",
       "changes keys of the default ladder's levels; not beside `levels`", read_default_levels,
       [](const ModelConfig&) { return Value{}; }, "none"},
      {"levels", "a list of 1 to 8 levels", "the whole ladder, in place of the default one",
       read_levels, show_levels, "the default ladder"},
      milliseconds("default_timeout_ms", &ModelConfig::default_timeout, 1, 24 * kHour,
                   "deadline of a request that gives none"),
      boolean("admission", &ModelConfig::admission,
              "a request that no level would answer in time, by the estimates, is refused at once "
              "(429); false: it waits for its deadline (504)"),
      integer("max_queue_size", &ModelConfig::max_queue_size, 0, 1'000'000,
              "requests waiting for one level; 0: the server's `max_queue_size`"),
      integer("priority_levels", &ModelConfig::priority_levels, 0, 1'000'000,
              "values of the parameter `priority`, 1 is the first served; 0: 1 is realtime, 2 "
              "standard, 3 and above batch"),
      integer(
          "default_priority", &ModelConfig::default_priority, 0, 1'000'000,
          "`priority` of a request that gives none, up to `priority_levels`; 0: tier `standard`"),
      {"queue_policies", kQueuePolicies,
       "how long and how many requests of a priority wait, keys below; priorities up to "
       "`priority_levels`, or 3 where that is 0; `default`: of each that has no entry, and of "
       "requests that name a tier instead",
       [](const Value& value, Reader& reader, ModelConfig& out) {
         read_queue_policies(value, reader, out.queue_policies);
       },
       [](const ModelConfig& config) { return show_queue_policies(config.queue_policies); },
       "no timeout and no bound"},
      {"version_policy", kVersionPolicy,
       "which of the versions in the model's folder are served: all, the N highest, or these",
       read_version_policy, show_version_policy, "`{latest: 1}`"},
      {"pad", "a map of input names to numbers",
       "inputs that are padded with the number, so that requests of unequal lengths run together",
       read_pad, show_pad,
       "0 for `input_ids`, `attention_mask`, `token_type_ids`, where there is "
       "an `attention_mask`"},
      group("policy", &ModelConfig::policy, policy_fields(), "thresholds of the policy, below",
            check_policy),
  };
  return fields;
}

}  // namespace gradus::config
