#include "api/control/control.h"

#include <algorithm>

#include "base/log.h"

namespace gradus::api {

Result<void> check_model(const serving::Engine& engine, std::string_view name) {
  if (name.empty()) return {};
  const std::vector<std::string> names = engine.model_names();
  if (std::ranges::find(names, name) != names.end()) return {};
  return fail(Code::kNotFound, "no model '" + std::string(name.substr(0, 80)) + "'");
}

void log_change(const char* setting, std::string_view model, std::string_view peer) {
  log::info(std::string("an operator changes ") + setting,
            {{"event", "setting"}, {"model", std::string(model)}, {"peer", std::string(peer)}});
}

}  // namespace gradus::api
