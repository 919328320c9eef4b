#include "api/control/log_settings.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"

namespace gradus::api {
namespace {

tl::unexpected<Error> expected(const std::string& name, const char* what) {
  return fail(Code::kInvalid, "log setting '" + name + "': expected " + what);
}

}  // namespace

LogSettings::Values LogSettings::all() const {
  const log::Severities on = log::severities();
  const MutexLock lock(mutex_);
  const std::uint64_t verbose = on.debug ? std::max(verbose_, 1u) : 0;
  return {{"log_file", std::string()}, {"log_info", on.info},          {"log_warning", on.warning},
          {"log_error", on.error},     {"log_verbose_level", verbose}, {"log_format", format_}};
}

Result<void> LogSettings::change(const Values& wanted) {
  const MutexLock lock(mutex_);
  log::Severities on = log::severities();
  std::uint32_t verbose = verbose_;
  std::string format = format_;
  for (const auto& [name, value] : wanted) {
    const bool* const flag = std::get_if<bool>(&value);
    const auto* const number = std::get_if<std::uint64_t>(&value);
    const auto* const text = std::get_if<std::string>(&value);
    if (name == "log_info" || name == "log_warning" || name == "log_error") {
      if (flag == nullptr) return expected(name, "true or false");
      (name == "log_info" ? on.info : name == "log_warning" ? on.warning : on.error) = *flag;
    } else if (name == "log_verbose_level") {
      if (number == nullptr || *number > std::numeric_limits<std::uint32_t>::max()) {
        return expected(name, "an integer in [0, 4294967295]");
      }
      verbose = static_cast<std::uint32_t>(*number);
      on.debug = verbose > 0;
    } else if (name == "log_format") {
      if (text == nullptr || (*text != "default" && *text != "ISO8601")) {
        return expected(name, "'default' or 'ISO8601'");
      }
      format = *text;
    } else if (name == "log_file") {
      if (text == nullptr || !text->empty()) {
        return expected(name,
                        "nothing: the log goes to standard error, and a file is not set over the "
                        "protocol; restart the server with standard error redirected");
      }
    } else {
      return fail(Code::kInvalid,
                  "there is no log setting '" + name.substr(0, 80) +
                      "'; expected log_info, log_warning, log_error, log_verbose_level or "
                      "log_format");
    }
  }
  verbose_ = verbose;
  format_ = std::move(format);
  log::set_severities(on);
  return {};
}

}  // namespace gradus::api
