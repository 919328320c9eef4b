#include "alerts/event_text.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/json_text.h"

namespace gradus::alerts {
namespace {

using serving::Event;
using Kind = Event::Kind;
using State = Event::State;

struct Names {
  const char* event;
  const char* alert;
  const char* severity;
  const char* summary;
};

Names names_of(Kind kind) {
  switch (kind) {
    case Kind::kTransition:
      return {"transition", "GradusTransition", "info", "a ladder has moved"};
    case Kind::kUnserved:
      return {"unserved", "GradusUnserved", "critical", "no level can answer"};
    case Kind::kUrgent:
      return {"urgent", "GradusUrgent", "critical", "the last level answers: minimum service"};
    case Kind::kDegraded:
      return {"degraded", "GradusDegraded", "warning", "a worse level than wanted answers"};
    case Kind::kSaturated:
      return {"saturated", "GradusSaturated", "warning", "more load than any level can take"};
    case Kind::kLevelLost:
      return {"level_lost", "GradusLevelLost", "warning", "a level cannot answer"};
    case Kind::kCrashLoop:
      return {"crash_loop", "GradusCrashLoop", "warning", "a worker keeps dying"};
  }
  std::abort();
}

// Writes `"key":value` members with their commas.
class Members {
 public:
  Members& raw(std::string_view key, std::string_view value) {
    if (!out_.empty()) out_ += ',';
    append_json_string(out_, key);
    out_ += ':';
    out_ += value;
    return *this;
  }
  Members& text(std::string_view key, std::string_view value) {
    return value.empty() ? *this : raw(key, json_string(value));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string number_or_null(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "null";
}

// A label's value: what an absent level is called there.
std::string level_label(const std::optional<int>& level) {
  return level ? std::to_string(*level) : "none";
}

std::string whose(const Event& event) {
  return event.device.empty() ? "model '" + event.model + "'" : "device '" + event.device + "'";
}

}  // namespace

const char* name_of(const Event& event) {
  if (event.kind == Kind::kDegraded && event.state == State::kEnded) return "recovered";
  return names_of(event.kind).event;
}

const char* name_of(State state) {
  switch (state) {
    case State::kOnce:
      return "once";
    case State::kBegun:
      return "begun";
    case State::kEnded:
      return "ended";
  }
  std::abort();
}

const char* severity_of(const Event& event) { return names_of(event.kind).severity; }

std::string webhook_json(const Event& event, const std::string& instance, const std::string& id) {
  Members members;
  members.text("id", id)
      .text("event", name_of(event))
      .text("state", name_of(event.state))
      .text("severity", severity_of(event))
      .text("time", iso8601(event.at))
      .text("instance", instance)
      .text("model", event.model)
      .text("version", event.version);
  if (event.level) members.raw("level", std::to_string(*event.level));
  if (event.kind == Kind::kTransition) {
    members.raw("from", number_or_null(event.from)).raw("to", number_or_null(event.to));
  }
  members.text("device", event.device)
      .text("cause", event.cause)
      .text("text", event.text)
      .text("reason", event.reason);
  return "{" + members.take() + "}";
}

std::string label_members(const Event& event) {
  const Names names = names_of(event.kind);
  Members members;
  members.text("alertname", names.alert)
      .text("severity", names.severity)
      .text("model", event.model)
      .text("version", event.version)
      .text("device", event.device);
  if (event.level) members.text("level", level_label(event.level));
  if (event.kind == Kind::kTransition) {
    members.text("from", level_label(event.from))
        .text("to", level_label(event.to))
        .text("cause", event.cause);
  }
  return members.take();
}

std::string alert_json(const Event& event, const std::string& labels, const std::string& instance,
                       WallTime starts, WallTime ends) {
  Members annotations;
  annotations.text("summary", whose(event) + ": " + names_of(event.kind).summary)
      .text("description", event.text + (event.reason.empty() ? "" : ": " + event.reason));
  Members alert;
  alert.raw("labels", "{" + labels + ",\"instance\":" + json_string(instance) + "}")
      .raw("annotations", "{" + annotations.take() + "}")
      .text("startsAt", iso8601(starts))
      .text("endsAt", iso8601(ends));
  return "{" + alert.take() + "}";
}

}  // namespace gradus::alerts
