#include "runtime/load.h"

#include <algorithm>
#include <utility>

namespace gradus::runtime {

std::string failures_text(const std::vector<ProviderFailure>& failures) {
  std::vector<std::pair<std::string, std::string>> grouped;  // providers, reason
  for (const ProviderFailure& failure : failures) {
    const auto same =
        std::ranges::find(grouped, failure.reason, &std::pair<std::string, std::string>::second);
    if (same == grouped.end()) {
      grouped.emplace_back(failure.provider, failure.reason);
    } else {
      same->first += ", " + failure.provider;
    }
  }
  std::string text;
  for (const auto& [providers, reason] : grouped) {
    if (!text.empty()) text += "; ";
    text.append(providers).append(": ").append(reason);
  }
  return text;
}

}  // namespace gradus::runtime
