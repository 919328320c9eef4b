// ONNX Runtime's log, led into ours. What it says while a session is being made, or runs on WebGPU,
// is also kept for that thread: the true cause of a failure is often said nowhere else.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <string>
#include <vector>

namespace gradus::runtime {

/// For Ort::Env. Everything goes to the debug log, as one line; errors that no LogCapture keeps, to
/// the warnings. Any thread.
void ORT_API_CALL write_ort_log(void* param, OrtLoggingLevel severity, const char* category,
                                const char* log_id, const char* code_location, const char* message);

/// Keeps the warnings and errors that ONNX Runtime logs on this thread while this object lives; the
/// innermost one keeps them. Create and destroy on one thread.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  void keep(OrtLoggingLevel severity, const char* message);

  /// The errors, or the warnings where there was no error; each line once.
  const std::vector<std::string>& causes() const { return errors_.empty() ? warnings_ : errors_; }

 private:
  LogCapture* const outer_;
  std::vector<std::string> errors_;
  std::vector<std::string> warnings_;
};

}  // namespace gradus::runtime
