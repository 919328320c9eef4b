// Triton's extension_logging.md on this process's log: severities are switched on and off one by
// one, for all clients' and all models' lines. A worker process keeps those that it was started
// with.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "base/mutex.h"
#include "base/result.h"

namespace gradus::api {

class LogSettings {
 public:
  using Value = std::variant<bool, std::uint64_t, std::string>;
  using Values = std::map<std::string, Value>;  // `log_info` -> true

  /// All of them: log_file, log_info, log_warning, log_error, log_verbose_level, log_format.
  Values all() const;
  /// Changes those that are given, or none if one cannot be.
  /// @return kInvalid: which, and what was expected
  Result<void> change(const Values& wanted);

 private:
  mutable Mutex mutex_;
  std::uint32_t verbose_ GUARDED_BY(mutex_) = 0;  // what was set; any level is `debug` here
  std::string format_ GUARDED_BY(mutex_) = "default";
};

}  // namespace gradus::api
