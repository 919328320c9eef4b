#include "serving/catalog.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/log.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += (text.empty() ? "" : "; ") + fault;
  return text;
}

std::string version_text(const std::string& name, std::uint64_t number) {
  return "model '" + name + "' version " + std::to_string(number);
}

// As far as a load is concerned: it answers, and what it answers with is no worse than what the old
// one has. A better level may come late, or hang while it loads.
bool may_take_over(const Model& model, const Model* old) {
  if (!model.ladder.can_answer()) return false;
  if (model.loading == 0) return true;
  if (model.cpu_loading > 0) return false;
  if (old == nullptr || !old->ladder.can_answer()) return true;
  return model.ladder.status().current <= old->ladder.status().current;
}

}  // namespace

Catalog::Catalog(Hooks hooks) : hooks_(std::move(hooks)), table_(std::make_shared<const Table>()) {}

Result<std::shared_ptr<Model>> Catalog::find(std::string_view model,
                                             std::string_view version) const {
  const Table& table = table_.read();
  const auto found = table.find(model);
  const auto unknown = [&](const std::string& why) {
    return fail(Code::kNotFound, "unknown model '" + std::string(model) + "'" + why);
  };
  if (found == table.end()) return unknown("");
  const Named& named = found->second;
  if (!named.loaded) return unknown(": it is not loaded");
  const auto not_served = [&](const std::string& why) {
    return fail(Code::kUnavailable, "model '" + std::string(model) + "' is not served: " + why);
  };
  if (named.versions.empty()) return not_served(named.failure);
  const Named::One* one = &named.versions[named.unversioned];
  if (!version.empty()) {
    std::uint64_t number = 0;
    std::from_chars(version.data(), version.data() + version.size(), number);
    const auto at = std::ranges::find(named.versions, number, &Named::One::number);
    if (at == named.versions.end() || std::to_string(number) != version) {
      std::string known;
      for (const Named::One& each : named.versions) {
        known += (known.empty() ? "" : ", ") + std::to_string(each.number);
      }
      return fail(Code::kNotFound, "model '" + std::string(model) + "' has no version " +
                                       std::string(version) + ", it has " + known);
    }
    one = &*at;
  }
  if (auto served = one->model.lock()) return served;
  if (one->failure.empty()) return unknown(": it is not loaded any more");
  return not_served("version " + std::to_string(one->number) + ": " + one->failure);
}

Catalog::Models Catalog::served(std::string_view model) const {
  Models models;
  const Table& table = table_.read();
  for (const auto& [name, named] : table) {
    if (!model.empty() && name != model) continue;
    for (const Named::One& one : named.versions) {
      if (auto served = one.model.lock()) models.push_back(std::move(served));
    }
  }
  return models;
}

bool Catalog::ready() const {
  const Table& table = table_.read();
  bool one_answers = false;
  bool one_is_wanted = false;
  for (const auto& [name, named] : table) {
    if (!named.loaded) continue;
    one_is_wanted = true;
    bool answers = false;
    bool loads = false;
    for (const Named::One& one : named.versions) {
      const auto model = one.model.lock();
      if (model == nullptr) continue;
      answers = answers || model->ladder.can_answer();
      loads = loads || model->loading > 0;
    }
    if (!answers && loads && !was_ready_) return false;
    one_answers = one_answers || answers;
  }
  const bool ready = one_answers || !one_is_wanted;
  if (ready) was_ready_ = true;
  return ready;
}

std::vector<std::string> Catalog::names() const {
  std::vector<std::string> names;
  const Table& table = table_.read();
  for (const auto& [name, named] : table) {
    if (is_model_name(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Catalog::versions(std::string_view model) const {
  std::vector<std::string> numbers;
  const Table& table = table_.read();
  if (const auto found = table.find(model); found != table.end()) {
    for (const Named::One& one : found->second.versions) {
      if (!one.model.expired()) numbers.push_back(std::to_string(one.number));
    }
  }
  return numbers;
}

std::vector<IndexEntry> Catalog::index() const {
  std::vector<IndexEntry> index;
  const MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    const std::size_t before = index.size();
    for (const auto& [number, version] : entry.versions) {
      IndexEntry shown{name, std::to_string(number), VersionState::kUnavailable, version.failure};
      const Model* const model = version.serving.get();
      if (model != nullptr && model->ladder.can_answer()) {
        shown.state = VersionState::kReady;
        if (!shown.reason.empty())
          shown.reason = "as before: the last load failed: " + shown.reason;
      } else if (model != nullptr && model->loading > 0) {
        shown.state = VersionState::kLoading;
      } else if (model != nullptr && shown.reason.empty()) {
        shown.reason = why_not_served(*model);
      }
      index.push_back(std::move(shown));
    }
    for (const Leaving& leaving : entry.leaving) {
      if (leaving.model.expired() || entry.versions.contains(leaving.number)) continue;
      index.push_back({name, std::to_string(leaving.number), VersionState::kUnloading, ""});
    }
    if (index.size() == before) {
      index.push_back({name, "", VersionState::kUnavailable,
                       entry.failure.empty() ? "not loaded" : entry.failure});
    }
  }
  return index;
}

bool Catalog::loading() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(entries_, [](const auto& one) {
    return std::ranges::any_of(one.second.versions, [](const auto& version) {
      const Model* const serving = version.second.serving.get();
      return version.second.coming != nullptr || (serving != nullptr && serving->loading > 0);
    });
  });
}

void Catalog::know(const std::vector<std::string>& names) {
  const MutexLock lock(mutex_);
  bool news = false;
  for (const std::string& name : names) news = entries_.try_emplace(name).second || news;
  const auto gone = std::erase_if(entries_, [&](const auto& one) {
    return !one.second.loaded && one.second.leaving.empty() &&
           std::ranges::find(names, one.first) == names.end();
  });
  if (news || gone > 0) publish();
}

void Catalog::load(ModelFolder folder, Managed done) {
  After after;
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[folder.name];
    if (entry.under_way) {
      entry.waiting.push_back({std::move(folder), std::move(done)});
    } else {
      begin(entry, std::move(folder), std::move(done), after);
    }
    publish();
  }
  finish(after);
}

void Catalog::begin(Entry& entry, ModelFolder folder, Managed done, After& after) {
  entry.loaded = true;
  entry.failure = joined(folder.faults);
  if (!folder.faults.empty() || folder.versions.empty()) {
    after.log.emplace_back(true, "model '" + folder.name + "' is not " +
                                     (entry.versions.empty() ? "served: " : "loaded anew: ") +
                                     entry.failure);
    after.tell.emplace_back(
        std::move(done),
        fail(Code::kInvalid, "model '" + folder.name + "' cannot be loaded: " + entry.failure));
    return;
  }
  entry.under_way = std::move(done);
  for (auto& [number, version] : entry.versions) version.wanted = false;
  for (const ModelVersion& found : folder.versions) {
    Version& version = entry.versions[found.number];
    version.wanted = true;
    const bool is_there = version.serving != nullptr && version.failure.empty();
    if (is_there && version.stamp == found.stamp) continue;
    version.stamp = found.stamp;
    version.failure = joined(found.faults);
    if (!found.faults.empty()) {
      after.log.emplace_back(true, version_text(folder.name, found.number) + " is not " +
                                       (version.up ? "loaded anew: " : "served: ") +
                                       version.failure);
      continue;
    }
    auto model = hooks_.make(folder, found);
    after.bring_up.push_back(model);
    if (version.up) {
      leave(entry, found.number, version.coming, after);
      version.coming = std::move(model);
      version.coming->comes = true;
    } else {
      leave(entry, found.number, version.serving, after);
      version.serving = std::move(model);
    }
  }
  look(folder.name, entry, after);
}

void Catalog::settle(const std::shared_ptr<Model>& model) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(model->name);
    if (found == entries_.end() || !found->second.loaded) return;
    look(model->name, found->second, after);
    publish();
  }
  finish(after);
}

// What has become of the versions, and with that of the load.
void Catalog::look(const std::string& name, Entry& entry, After& after) {
  for (auto& [number, version] : entry.versions) look(name, entry, number, version, after);
  if (!entry.under_way) return;
  bool one_is_up = false;
  std::string failures;
  for (const auto& [number, version] : entry.versions) {
    if (!version.wanted) continue;
    if (version.coming != nullptr || (!version.up && version.failure.empty())) return;
    one_is_up = one_is_up || version.up;
    if (!version.failure.empty()) {
      failures +=
          (failures.empty() ? "" : "; ") + version_text(name, number) + ": " + version.failure;
    }
  }
  for (auto at = entry.versions.begin(); one_is_up && at != entry.versions.end();) {
    auto& [number, version] = *at;
    if (version.wanted) {
      ++at;
      continue;
    }
    if (version.serving != nullptr) {
      after.log.emplace_back(false, version_text(name, number) + " leaves");
    }
    leave(entry, number, version.serving, after);
    leave(entry, number, version.coming, after);
    at = entry.versions.erase(at);
  }
  after.tell.emplace_back(std::exchange(entry.under_way, nullptr),
                          failures.empty() ? Result<void>() : fail(Code::kUnavailable, failures));
  if (entry.waiting.empty()) return;
  Load next = std::move(entry.waiting.front());
  entry.waiting.pop_front();
  begin(entry, std::move(next.folder), std::move(next.done), after);
}

void Catalog::look(const std::string& name, Entry& entry, std::uint64_t number, Version& version,
                   After& after) {
  if (version.coming != nullptr) {
    Model& coming = *version.coming;
    if (may_take_over(coming, version.serving.get())) {
      coming.ladder.inherit(version.serving->ladder);
      after.log.emplace_back(false, version_text(name, number) + " was loaded anew");
      leave(entry, number, version.serving, after);
      version.serving = std::exchange(version.coming, nullptr);
      version.serving->comes = false;
      version.failure.clear();
    } else if (coming.loading == 0) {
      version.failure = why_not_served(coming);
      after.log.emplace_back(
          true, version_text(name, number) +
                    " is served as before: it cannot be loaded anew: " + version.failure);
      leave(entry, number, version.coming, after);
    }
  } else if (version.serving != nullptr && !version.up) {
    Model& model = *version.serving;
    const Version* const before = unversioned(entry);
    const bool follows = before != nullptr && before->up && before->serving != nullptr;
    if (may_take_over(model, follows ? before->serving.get() : nullptr)) {
      if (follows) model.ladder.inherit(before->serving->ladder);
      version.up = true;
      version.failure.clear();
    } else if (model.loading == 0) {
      version.failure = why_not_served(model);
    }
  }
}

// Requests that have it are answered; no other finds it any more.
void Catalog::leave(Entry& entry, std::uint64_t number, std::shared_ptr<Model>& model,
                    After& after) {
  if (model == nullptr) return;
  std::erase_if(entry.leaving, [](const Leaving& one) { return one.model.expired(); });
  entry.leaving.push_back({number, model});
  model->leaves = true;
  after.let_go.push_back(std::exchange(model, nullptr));
}

Result<void> Catalog::unload(const std::string& name) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || !found->second.loaded) {
      return fail(Code::kNotFound, "unknown model '" + name + "': it is not loaded");
    }
    Entry& entry = found->second;
    const auto unloaded = [&](Managed done) {
      after.tell.emplace_back(std::move(done),
                              fail(Code::kUnavailable, "model '" + name + "' was unloaded"));
    };
    if (entry.under_way) unloaded(std::exchange(entry.under_way, nullptr));
    for (Load& load : entry.waiting) unloaded(std::move(load.done));
    entry.waiting.clear();
    for (auto& [number, version] : entry.versions) {
      leave(entry, number, version.serving, after);
      leave(entry, number, version.coming, after);
    }
    entry.versions.clear();
    entry.loaded = false;
    entry.failure = "unloaded";
    after.log.emplace_back(false, "model '" + name + "' was unloaded");
    publish();
  }
  finish(after);
  return {};
}

void Catalog::clear() {
  std::map<std::string, Entry> entries;
  {
    const MutexLock lock(mutex_);
    entries.swap(entries_);
    publish();
  }
  const auto stopping = [](const Managed& done) {
    done(fail(Code::kUnavailable, "the server is stopping"));
  };
  for (const auto& [name, entry] : entries) {
    if (entry.under_way) stopping(entry.under_way);
    for (const Load& load : entry.waiting) stopping(load.done);
  }
}

const Catalog::Version* Catalog::unversioned(const Entry& entry) const {
  const Version* best = nullptr;
  for (const auto& [number, version] : entry.versions) {
    if (best == nullptr || version.up || !best->up) best = &version;
  }
  return best;
}

void Catalog::publish() {
  auto table = std::make_shared<Table>();
  for (const auto& [name, entry] : entries_) {
    Named named;
    named.loaded = entry.loaded;
    named.failure = entry.failure;
    const Version* const best = unversioned(entry);
    for (const auto& [number, version] : entry.versions) {
      if (&version == best) named.unversioned = named.versions.size();
      named.versions.push_back(
          {number, version.serving, version.serving == nullptr ? version.failure : ""});
    }
    table->emplace(name, std::move(named));
  }
  table_.publish(std::move(table));
}

void Catalog::finish(After& after) {
  for (const auto& [bad, text] : after.log) bad ? log::error(text) : log::info(text);
  if (!after.bring_up.empty()) hooks_.bring_up(after.bring_up);
  after.let_go.clear();
  for (auto& [done, result] : after.tell) {
    done(std::move(result));
  }
}

}  // namespace gradus::serving
