// What a scrape of the metrics is shown: the counted values, beside how ladders, queues and workers
// stand at that moment.
#pragma once
#include <memory>
#include <vector>

#include "metrics/exposition.h"
#include "serving/model.h"
#include "serving/workers.h"

namespace gradus::serving {

/// It points into the models, which must outlive it. Takes each ladder's lock for a moment; not for
/// every request.
/// @param workers null: every level runs in this process
metrics::View metrics_view(const metrics::ServerMetrics& values,
                           const std::vector<std::shared_ptr<Model>>& models,
                           const Workers* workers);

}  // namespace gradus::serving
