// What the request path has counted of a model, in the form that Triton's clients read.
#pragma once
#include "base/clock.h"
#include "serving/manage.h"
#include "serving/model.h"

namespace gradus::serving {

/// Requests under way may be in some of the sums and not in others.
/// @param now of the clock that the model is served by
ModelStatistics statistics_of(const Model& model, TimePoint now);

}  // namespace gradus::serving
