// An event's names and its JSON, for logs, webhooks and Alertmanager (docs/alerts.md has the
// table).
#pragma once
#include <optional>
#include <string>

#include "base/clock.h"
#include "serving/observer.h"

namespace gradus::alerts {

/// `transition`, `urgent`, …; `degraded` for its begin and `recovered` for its end.
const char* name_of(const serving::Event& event);
const char* name_of(serving::Event::State state);      // `once`, `begun`, `ended`
const char* severity_of(const serving::Event& event);  // `info`, `warning`, `critical`

/// What a webhook gets.
/// @param id no other event has it, of this or of another server
std::string webhook_json(const serving::Event& event, const std::string& instance,
                         const std::string& id);

/// What makes two alerts the same one to Alertmanager: the members of `labels`, as JSON, without
/// the instance. The begin and the end of a condition have the same.
std::string label_members(const serving::Event& event);

/// One element of the body of `POST /api/v2/alerts`.
/// @param labels label_members()
std::string alert_json(const serving::Event& event, const std::string& labels,
                       const std::string& instance, WallTime starts, WallTime ends);

}  // namespace gradus::alerts
