// The tables of rows for each struct, for loading, printing and documenting alike.
#pragma once
#include <string>
#include <vector>

#include "config/fields.h"
#include "config/model_config.h"
#include "config/policy_config.h"
#include "config/server_config.h"

namespace gradus::config {

const Fields<PolicyConfig>& policy_fields();
/// Bounds that tie thresholds to each other.
void check_policy(const PolicyConfig& policy, Reader& reader);

/// Every key of an entry of `queue_policies:`.
const Fields<QueuePolicy>& queue_policy_fields();
inline constexpr const char* kQueuePolicies =
    "a map of `default` and priorities in [1, 1000000] to maps of keys";
void read_queue_policies(const Value& value, Reader& reader, QueuePolicies& out);
Value show_queue_policies(const QueuePolicies& policies);

/// Every key of an entry of `levels:`.
const Fields<LevelConfig>& level_fields();
/// Those that `default_levels:` may change: all but `name`, `level` and `file`.
const Fields<LevelConfig>& default_level_fields();
/// Reads into a config that already holds the default ladder.
const Fields<ModelConfig>& model_fields();

const Fields<HttpConfig>& http_fields();
const Fields<GrpcConfig>& grpc_fields();
const Fields<MetricsConfig>& metrics_fields();
const Fields<AlertsConfig>& alerts_fields();
const Fields<AdminConfig>& admin_fields();
const Fields<TraceConfig>& trace_fields();
const Fields<ServerConfig>& server_fields();

/// The providers of one level: one name, a list in one text, or a list of names and
/// `{Name: {option: value}}`. An empty list is refused.
void read_level_providers(const Value& value, Reader& reader, std::vector<ProviderConfig>& out);

/// The process's list: a list of names or one text; empty means the default order.
void read_provider_list(const Value& value, Reader& reader,
                        std::optional<std::vector<std::string>>& out);

/// Name to absolute path; adds the names to the reader's extra providers.
void read_provider_libraries(const Value& value, Reader& reader,
                             std::map<std::string, std::string>& out);

}  // namespace gradus::config
