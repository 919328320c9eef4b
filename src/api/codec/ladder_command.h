// What an operator says to a ladder, as JSON (docs/operator.md).
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "serving/operator.h"

namespace gradus::api {

/// `90s`, `15m`, `2h`, `1d`; from 1s to 30d.
/// @return kInvalid for anything else
Result<Duration> parse_how_long(std::string_view text);

/// @param body at most 4096 bytes: `{"pin": 2, "for": "15m", "reason": "…"}`, `{"unpin": true}`,
///   `{"disable": 0}` or `{"enable": 0}`; `reason` goes with each
/// @return `who` is left to the caller. kInvalid names what is wrong and lists the good forms
Result<serving::LadderCommand> decode_ladder_command(std::span<const std::byte> body);

}  // namespace gradus::api
