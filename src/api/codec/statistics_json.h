// Statistics as Triton's extension_statistics.md has them, with the levels beside them.
#pragma once
#include <string>
#include <vector>

#include "serving/manage.h"

namespace gradus::api {

/// `{"model_stats":[…]}`; the key `gradus_levels` of each is ours.
std::string statistics_json(const std::vector<serving::ModelStatistics>& models);

}  // namespace gradus::api
