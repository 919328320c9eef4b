#include "serving/status.h"

#include <charconv>
#include <cstdlib>

#include "base/json_text.h"
#include "config/model_config.h"
#include "serving/level_devices.h"
#include "serving/manage.h"

namespace gradus::serving {
namespace {

// Writes members and elements with their commas.
class Json {
 public:
  Json& key(std::string_view name) {
    comma();
    append_json_string(out_, name);
    out_ += ':';
    fresh_ = true;
    return *this;
  }
  Json& open(char bracket) {
    comma();
    out_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    out_ += bracket;
    fresh_ = false;
    return *this;
  }
  Json& text(std::string_view value) {
    comma();
    append_json_string(out_, value);
    return *this;
  }
  Json& number(double value) {
    comma();
    append_json_number(out_, value);
    return *this;
  }
  Json& raw(std::string_view value) {
    comma();
    out_ += value;
    return *this;
  }
  Json& boolean(bool value) { return raw(value ? "true" : "false"); }
  Json& level(const std::optional<int>& value) {
    return raw(value ? std::to_string(*value) : "null");
  }
  std::string take() { return std::move(out_); }

 private:
  void comma() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  std::string out_;
  bool fresh_ = true;
};

std::string level_name(const config::LevelConfig& level) {
  return "level " + std::to_string(level.level) + " '" + level.name + "'";
}

// What people read about a level: the ladder's reason, its devices', or what the loader noted.
std::string reason_of(const ladder::LevelStatus& status, const LevelSlot& slot) {
  if (!status.reason.empty()) return status.reason;
  const std::string left_alone = left_alone_devices(slot);
  return left_alone.empty() ? slot.note() : left_alone;
}

std::string missing_of(const Model& model, const ladder::Status& status) {
  std::string text;
  for (const ladder::LevelStatus& level : status.levels) {
    if (level.condition == ladder::Condition::kReady) continue;
    const LevelSlot& slot = *model.slot(level.level);
    if (!text.empty()) text += "; ";
    text += level_name(slot.config) + " " + ladder::to_string(level.condition);
    const std::string reason = reason_of(level, slot);
    if (!reason.empty()) text += ": " + reason;
  }
  return text;
}

void write_worker(Json& json, const worker::WorkerStatus& worker) {
  json.open('{');
  json.key("device").text(worker.device);
  json.key("pid");
  worker.pid ? json.raw(std::to_string(*worker.pid)) : json.raw("null");
  json.key("state").text(to_string(worker.state));
  json.key("restarts").raw(std::to_string(worker.restarts));
  json.key("last_fault");
  worker.last_fault ? json.text(worker.last_fault->text) : json.raw("null");
  json.key("class");
  worker.last_fault ? json.text(to_string(worker.last_fault->cause)) : json.raw("null");
  json.key("uptime_ms").number(to_ms(worker.uptime));
  json.key("abandoned").raw(std::to_string(worker.abandoned));
  json.close('}');
}

void write_pin(Json& json, const ladder::Status& status, TimePoint now) {
  if (!status.pinned) {
    json.raw("null");
    return;
  }
  json.open('{');
  json.key("level").raw(std::to_string(*status.pinned));
  json.key("until");
  status.pinned_until
      ? json.text(iso8601(wall_now() + std::chrono::duration_cast<WallTime::duration>(
                                           *status.pinned_until - now)))
      : json.raw("null");
  json.key("reason").text(status.pin_reason);
  json.close('}');
}

void write_level(Json& json, const Model& model, const ladder::LevelStatus& status,
                 const Workers* workers) {
  const LevelSlot& slot = *model.slot(status.level);
  const config::LevelConfig& config = slot.config;
  const LevelRuntime* const runtime = slot.runtime();
  json.open('{');
  json.key("level").raw(std::to_string(config.level));
  json.key("name").text(config.name);
  json.key("variant").text(config.file);
  json.key("state").text(ladder::to_string(status.condition));
  json.key("breaker").text(ladder::to_string(status.breaker));
  json.key("reason").text(reason_of(status, slot));
  json.key("providers_wanted").open('[');
  for (const auto* wanted : {&config.providers, &config.excluded}) {
    for (const config::ProviderConfig& provider : *wanted) json.text(provider.name);
  }
  json.close(']');
  json.key("provider_used");
  runtime != nullptr ? json.text(runtime->provider_used) : json.raw("null");
  json.key("node_share").number(runtime != nullptr ? runtime->node_share : 0.0);
  json.key("target_p99_ms").number(to_ms(status.target_p99));
  json.key("p99_ms");
  status.p99 ? json.number(to_ms(*status.p99)) : json.raw("null");
  const LevelQueue::Load load = runtime != nullptr ? runtime->queue->load() : LevelQueue::Load{};
  json.key("canary_share");
  status.canary_share ? json.number(*status.canary_share) : json.raw("null");
  json.key("waiting").raw(std::to_string(load.waiting));
  json.key("running").raw(std::to_string(load.running));
  json.key("batch_size").raw(std::to_string(load.batch_size));
  json.key("served").raw(std::to_string(status.served));
  json.key("failed").raw(std::to_string(status.failed));
  std::vector<worker::WorkerStatus> of_level;
  if (workers != nullptr && config::is_isolated(config)) {
    for (const std::string& device : Workers::devices_of(config)) {
      auto worker = workers->of(device, Workers::name_of(model, config));
      if (worker) of_level.push_back(std::move(*worker));
    }
  }
  json.key("worker");
  of_level.empty() ? static_cast<void>(json.raw("null")) : write_worker(json, of_level.front());
  json.key("workers").open('[');
  for (const worker::WorkerStatus& worker : of_level) write_worker(json, worker);
  json.close(']');
  json.close('}');
}

}  // namespace

std::string missing_levels(const Model& model) { return missing_of(model, model.ladder.status()); }

std::string_view to_string(VersionState state) {
  switch (state) {
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kReady:
      return "READY";
    case VersionState::kUnavailable:
      return "UNAVAILABLE";
    case VersionState::kUnloading:
      return "UNLOADING";
  }
  std::abort();
}

std::string summary_line(const Model& model) {
  const ladder::Status status = model.ladder.status();
  std::string text = "model '" + model.name + "' version " + model.version;
  const std::string missing = missing_of(model, status);
  if (!status.current) return text + " is not served: " + missing;
  const LevelSlot& slot = *model.slot(*status.current);
  text += " serves " + level_name(slot.config) + " (" + slot.config.file + " on " +
          slot.runtime()->provider_used + ")";
  if (status.degraded) text += ", degraded";
  return missing.empty() ? text : text + ": " + missing;
}

std::string why_not_served(const Model& model) {
  const std::string who = "model '" + model.name + "' ";
  const std::string missing = missing_levels(model);
  return who + (model.loading > 0 ? "is still loading: " : "has no level that can answer: ") +
         missing;
}

std::string ladder_json(const Model& model, const Workers* workers) {
  const ladder::Status status = model.ladder.status();
  Json json;
  json.open('{');
  json.key("model").text(model.name);
  json.key("version").text(model.version);
  json.key("current_level").level(status.current);
  json.key("degraded").boolean(status.degraded);
  json.key("saturated").boolean(status.saturated);
  json.key("urgent").boolean(status.urgent);
  json.key("pin");
  write_pin(json, status, model.ladder.now());
  json.key("last_canary").text(status.last_canary);
  json.key("levels").open('[');
  for (const ladder::LevelStatus& level : status.levels) {
    write_level(json, model, level, workers);
  }
  json.close(']');
  json.key("transitions").open('[');
  for (const Move& move : model.ladder.moves()) {
    json.open('{');
    json.key("time").text(iso8601(move.at));
    json.key("from").level(move.transition.from);
    json.key("to").level(move.transition.to);
    json.key("cause").text(ladder::to_string(move.transition.cause));
    json.key("evidence").text(move.transition.evidence);
    json.close('}');
  }
  json.close(']').close('}');
  return json.take();
}

std::string workers_json(const Workers* workers) {
  Json json;
  json.open('{').key("workers").open('[');
  if (workers != nullptr) {
    for (const worker::WorkerStatus& worker : workers->all()) write_worker(json, worker);
  }
  json.close(']').close('}');
  return json.take();
}

}  // namespace gradus::serving
