// How each output of an answer is written: as JSON in the head, or as raw bytes after it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradus::api {

enum class Form : std::uint8_t { kJson, kBinary };

struct OutputForms {
  Form rest = Form::kJson;  // of outputs that the request did not name
  std::vector<Form> named;  // one for each of serving::Request::outputs, in its order

  Form at(std::size_t output) const { return output < named.size() ? named[output] : rest; }
};

}  // namespace gradus::api
