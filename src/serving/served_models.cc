#include "serving/served_models.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "serving/repository.h"

namespace gradus::serving {

namespace {

tl::unexpected<Error> unknown(std::string_view model, const std::string& why) {
  return fail(Code::kNotFound, "unknown model '" + std::string(model) + "'" + why);
}

tl::unexpected<Error> not_served(std::string_view model, const std::string& why) {
  return fail(Code::kUnavailable, "model '" + std::string(model) + "' is not served: " + why);
}

Result<const ServedModels::Version*> look_up(const ServedModels::Table& table,
                                             std::string_view model, std::string_view version) {
  const auto found = table.find(model);
  if (found == table.end()) return unknown(model, "");
  const ServedModels::Named& named = found->second;
  if (!named.loaded) return unknown(model, ": it is not loaded");
  if (named.versions.empty()) return not_served(model, named.failure);
  if (version.empty()) return &named.versions[named.unversioned];
  std::uint64_t number = 0;
  std::from_chars(version.data(), version.data() + version.size(), number);
  const auto at = std::ranges::find(named.versions, number, &ServedModels::Version::number);
  if (at != named.versions.end() && std::to_string(number) == version) return &*at;
  std::string known;
  for (const ServedModels::Version& each : named.versions) {
    known += (known.empty() ? "" : ", ") + std::to_string(each.number);
  }
  return fail(Code::kNotFound, "model '" + std::string(model) + "' has no version " +
                                   std::string(version) + ", it has " + known);
}

}  // namespace

Result<std::shared_ptr<Model>> ServedModels::find(std::string_view model,
                                                  std::string_view version) const {
  for (;;) {
    const auto one = look_up(table_.read(), model, version);
    if (!one) return tl::unexpected(one.error());
    if (auto served = (*one)->model.lock()) return served;
    const std::string& failure = (*one)->failure;
    if (!failure.empty()) {
      return not_served(model, "version " + std::to_string((*one)->number) + ": " + failure);
    }
    // It left a moment ago, and not before there was another table.
  }
}

ServedModels::Models ServedModels::all(std::string_view model) const {
  Models models;
  const Table& table = table_.read();
  for (const auto& [name, named] : table) {
    if (!model.empty() && name != model) continue;
    for (const Version& one : named.versions) {
      if (auto served = one.model.lock()) models.push_back(std::move(served));
    }
  }
  return models;
}

bool ServedModels::ready() const {
  const Table& table = table_.read();
  bool one_answers = false;
  bool one_is_wanted = false;
  for (const auto& [name, named] : table) {
    if (!named.loaded) continue;
    one_is_wanted = true;
    bool answers = false;
    bool loads = false;
    for (const Version& one : named.versions) {
      const auto model = one.model.lock();
      if (model == nullptr) continue;
      loads = loads || model->loading > 0;  // before: a level comes up, and then it is not loading
      answers = answers || model->ladder.can_answer();
    }
    if (!answers && loads && !was_ready_) return false;
    one_answers = one_answers || answers;
  }
  const bool ready = one_answers || !one_is_wanted;
  if (ready) was_ready_ = true;
  return ready;
}

std::vector<std::string> ServedModels::names() const {
  std::vector<std::string> names;
  const Table& table = table_.read();
  for (const auto& [name, named] : table) {
    if (is_model_name(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> ServedModels::versions(std::string_view model) const {
  std::vector<std::string> numbers;
  const Table& table = table_.read();
  if (const auto found = table.find(model); found != table.end()) {
    for (const Version& one : found->second.versions) {
      if (!one.model.expired()) numbers.push_back(std::to_string(one.number));
    }
  }
  return numbers;
}

}  // namespace gradus::serving
