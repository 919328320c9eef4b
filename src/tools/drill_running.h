// A drill on a server that runs already: what can be done to it from outside.
#pragma once
#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "tools/drill.h"
#include "tools/drill_venue.h"

namespace gradus::tools {

/// The port of `http://127.0.0.1:8000` or `http://localhost:8000`. kInvalid: any other, since the
/// workers must be processes of this machine.
Result<std::uint16_t> local_port(std::string_view url);

/// Looks at the server, and harms nothing. kInvalid: the options are at fault, level 0 does not run
/// in a worker that this user may signal, or the control file is not its; kUnavailable: it does not
/// answer.
Result<std::unique_ptr<Venue>> running_venue(const DrillOptions& options);

/// Says what would be done, and asks. False: anything but a line `y` or `yes` came.
bool agreed(const DrillOptions& options, const LadderView& ladder,
            const std::vector<DrillFault>& faults, std::istream& in, std::ostream& out);

}  // namespace gradus::tools
