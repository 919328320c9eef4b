// A body that is one JSON object from its first byte to its last. Only this folder's .cc files
// include it.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "api/codec/json_walk.h"

namespace gradus::api {

/// Calls `read(walk, root)`, which returns Result<void>.
/// @param readable_after bytes past the body that may be read; with too few the body is copied
/// @param what for errors: `the command`
/// @param max_depth of objects and arrays, the outermost is 1
/// @return kInvalid: no JSON object, or something follows it; kUnavailable: no memory for it
template <class Read>
Result<void> read_object(std::span<const std::byte> body, std::size_t readable_after,
                         std::string_view what, std::size_t max_depth, Read read) {
  const auto* const start = reinterpret_cast<const char*>(body.data());
  simdjson::padded_string copy;
  simdjson::padded_string_view json(start, body.size(), body.size() + readable_after);
  if (readable_after < simdjson::SIMDJSON_PADDING) {
    copy = simdjson::padded_string(start, body.size());
    json = copy;
  }
  ondemand::parser parser;
  ondemand::document document;
  if (const auto error = parser.iterate(json).get(document)) {
    const Code code = error == simdjson::MEMALLOC ? Code::kUnavailable : Code::kInvalid;
    return fail(code, std::string("malformed JSON: ") + simdjson::error_message(error));
  }
  JsonWalk walk(document, {json.data(), body.size()}, max_depth);
  ondemand::object root;
  if (const auto error = document.get_object().get(root)) {
    return walk.no_object(error, what);
  }
  if (auto done = read(walk, root); !done) return done;
  const char* more = nullptr;
  if (!document.current_location().get(more)) {
    return walk.followed(what, static_cast<std::size_t>(more - json.data()));
  }
  return {};
}

}  // namespace gradus::api
