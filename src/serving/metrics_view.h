// What a scrape of the metrics is shown: the counted values, beside how ladders, queues and workers
// stand at that moment.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "metrics/exposition.h"
#include "serving/model.h"
#include "serving/workers.h"

namespace gradus::serving {

/// It points into the models, which must outlive it. Takes each ladder's lock for a moment; not for
/// every request.
/// @param workers null: every level runs in this process
metrics::View metrics_view(const metrics::ServerMetrics& values,
                           const std::map<std::string, std::shared_ptr<Model>, std::less<>>& models,
                           const Workers* workers);

}  // namespace gradus::serving
