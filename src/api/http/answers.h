// The two answers that nearly every path gives: JSON, and an error with the status of its code.
#pragma once
#include <string>
#include <utility>

#include "api/codec/status.h"
#include "api/http/http_message.h"
#include "base/result.h"

namespace gradus::api {

inline HttpResponse json_answer(std::string body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.head = std::move(body);
  return response;
}

inline HttpResponse refusal(const Error& error) {
  return error_response(http_status(error.code), error.message);
}

/// What the engine has written itself, or why not.
inline HttpResponse json_or_refusal(Result<std::string> body) {
  return body ? json_answer(std::move(*body)) : refusal(body.error());
}

}  // namespace gradus::api
