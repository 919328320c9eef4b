// A drill on servers of its own, a fresh one for each fault.
#pragma once
#include <memory>

#include "tools/drill.h"
#include "tools/drill_venue.h"

namespace gradus::tools {

/// kInvalid: the repository, the model or the options are at fault; others as Scratch::make.
Result<std::unique_ptr<Venue>> own_venue(const DrillOptions& options);

}  // namespace gradus::tools
