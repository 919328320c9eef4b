#include "runtime/ort/ort_log.h"

#include <algorithm>

#include "base/log.h"

namespace gradus::runtime {
namespace {

// Reached from a C callback that has no other way to know who is asking.
thread_local LogCapture* t_innermost = nullptr;

}  // namespace

void ORT_API_CALL write_ort_log(void* /*param*/, OrtLoggingLevel severity, const char* category,
                                const char* /*log_id*/, const char* code_location,
                                const char* message) {
  log::Severity ours = log::Severity::kDebug;
  if (severity >= ORT_LOGGING_LEVEL_WARNING && t_innermost != nullptr) {
    t_innermost->keep(severity, message);
  } else if (severity >= ORT_LOGGING_LEVEL_ERROR) {
    ours = log::Severity::kWarning;
  }
  if (!log::enabled(ours)) return;
  log::write(ours, std::string("onnxruntime: ") + message,
             {{"category", category}, {"at", code_location}});
}

LogCapture::LogCapture() : outer_(t_innermost) { t_innermost = this; }

LogCapture::~LogCapture() { t_innermost = outer_; }

void LogCapture::keep(OrtLoggingLevel severity, const char* message) {
  auto& lines = severity >= ORT_LOGGING_LEVEL_ERROR ? errors_ : warnings_;
  if (std::ranges::find(lines, message) == lines.end()) lines.emplace_back(message);
}

}  // namespace gradus::runtime
