// What people are told of a model: one line at start, one reason on refusal, the ladder as JSON.
#pragma once
#include <string>

#include "base/clock.h"
#include "serving/model.h"
#include "serving/workers.h"

namespace gradus::serving {

/// `model 'fashion' version 1 serves level 1 'cpu' (model.onnx on CPUExecutionProvider), degraded:
/// level 0 'gpu' unavailable: …`.
std::string summary_line(const Model& model);

/// `level 0 'gpu' unavailable: …; level 2 'cpu-int8' skipped: …`, of the levels that are not ready;
/// "" when all are.
std::string missing_levels(const Model& model);

/// Why no level can answer now.
std::string why_not_served(const Model& model);

/// The body of `GET /v2/models/{m}/ladder` (docs/ladder.md).
/// @param workers null: every level runs in this process
std::string ladder_json(const Model& model, const Workers* workers);

/// The body of `GET /v2/workers`.
std::string workers_json(const Workers* workers);

}  // namespace gradus::serving
