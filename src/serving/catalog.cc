#include "serving/catalog.h"

#include <algorithm>
#include <set>
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

// What the new one answers with is no worse than what the old one has. A better level may come
// late, or hang while it loads; one that is as good as its own ladder wants it to be may be as it
// likes.
bool is_no_worse(const Model& model, const Model& old) {
  if (!old.ladder.can_answer()) return true;
  const ladder::Status has = model.ladder.status();
  const ladder::Status had = old.ladder.status();
  return has.current <= had.current || (model.loading == 0 && (!has.degraded || had.degraded));
}

// Ask this before anything that a level's arrival may change: the last one's comes before it is
// true.
bool all_tried(const Model& model) { return model.loading == 0; }

bool has_come_up(const Model& model) { return model.cpu_loading == 0 && model.ladder.can_answer(); }

std::string why_not_taken(const Model& model, const Model& old) {
  if (!model.ladder.can_answer()) return why_not_served(model);
  const auto current = [](const Model& one) {
    const std::optional<int> level = one.ladder.status().current;
    return level ? "level " + std::to_string(*level) : "no level";
  };
  return "it answers from " + current(model) + ", what is served from " + current(old) + ": " +
         missing_levels(model);
}

void tell_all(std::vector<Managed>& whom, const Result<void>& what,
              std::vector<std::pair<Managed, Result<void>>>& tell) {
  for (Managed& done : whom) tell.emplace_back(std::move(done), what);
  whom.clear();
}

}  // namespace

Catalog::Catalog(Hooks hooks) : hooks_(std::move(hooks)) {}

std::vector<IndexEntry> Catalog::index() const {
  std::vector<IndexEntry> index;
  const MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    const std::size_t before = index.size();
    for (const auto& [number, version] : entry.versions) {
      IndexEntry shown{name, std::to_string(number), VersionState::kUnavailable, version.failure};
      if (shown.reason.empty()) shown.reason = entry.failure;
      const Model* const model = version.serving.get();
      const bool tried = model != nullptr && all_tried(*model);
      if (model != nullptr && model->ladder.can_answer()) {
        shown.state = VersionState::kReady;
        if (!shown.reason.empty())
          shown.reason = "as before: the last load failed: " + shown.reason;
      } else if (model != nullptr && !tried) {
        shown.state = VersionState::kLoading;
      } else if (model != nullptr && shown.reason.empty()) {
        shown.reason = why_not_served(*model);
      }
      index.push_back(std::move(shown));
    }
    std::set<std::uint64_t> leaving;
    for (const Leaving& one : entry.leaving) {
      if (!one.model.expired() && !entry.versions.contains(one.number)) leaving.insert(one.number);
    }
    for (const std::uint64_t number : leaving) {
      index.push_back({name, std::to_string(number), VersionState::kUnloading, ""});
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

bool Catalog::load_under_way() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(entries_,
                             [](const auto& one) { return !one.second.under_way.empty(); });
}

void Catalog::know(const std::vector<std::string>& names) {
  const MutexLock lock(mutex_);
  for (const std::string& name : names) entries_.try_emplace(name);
  for (auto& [name, entry] : entries_) {
    std::erase_if(entry.leaving, [](const Leaving& one) { return one.model.expired(); });
  }
  std::erase_if(entries_, [&](const auto& one) {
    return !one.second.loaded && one.second.leaving.empty() &&
           std::ranges::find(names, one.first) == names.end();
  });
  publish();
}

void Catalog::load(ModelFolder folder, Managed done) {
  After after;
  {
    const MutexLock lock(mutex_);
    const std::string name = folder.name;
    Entry& entry = entries_[name];
    if (!entry.waiting) entry.waiting.emplace();
    entry.waiting->folder = std::move(folder);
    entry.waiting->done.push_back(std::move(done));
    entry.loaded = true;
    advance(name, entry, after);
    publish();
  }
  finish(after);
}

void Catalog::settle(const std::shared_ptr<Model>& model) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(model->name);
    if (found == entries_.end() || !found->second.loaded) return;
    advance(model->name, found->second, after);
    publish();
  }
  finish(after);
}

void Catalog::look_again() {
  After after;
  {
    const MutexLock lock(mutex_);
    for (auto& [name, entry] : entries_) {
      if (!entry.under_way.empty()) advance(name, entry, after);
    }
    publish();
  }
  finish(after);
}

// As far as things have come: versions, the load that they belong to, the one that waits.
void Catalog::advance(const std::string& name, Entry& entry, After& after) {
  for (;;) {
    for (auto& [number, version] : entry.versions) {
      if (version.coming != nullptr) {
        take_over(name, entry, number, version, after);
      } else if (version.serving != nullptr && !version.up) {
        come_up(entry, version);
      }
    }
    if (!conclude(name, entry, after) || !entry.waiting) return;
    begin(entry, *std::exchange(entry.waiting, std::nullopt), after);
  }
}

void Catalog::begin(Entry& entry, Waiting load, After& after) {
  const ModelFolder& folder = load.folder;
  entry.failure = joined(folder.faults);
  if (!folder.faults.empty()) {
    after.log.emplace_back(true, "model '" + folder.name + "' is not " +
                                     (entry.versions.empty() ? "served: " : "loaded anew: ") +
                                     entry.failure);
    tell_all(load.done,
             fail(Code::kInvalid, "model '" + folder.name + "' cannot be loaded: " + entry.failure),
             after.tell);
    return;
  }
  entry.under_way = std::move(load.done);
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
    } else {
      leave(entry, found.number, version.serving, after);
      version.serving = std::move(model);
    }
  }
}

void Catalog::take_over(const std::string& name, Entry& entry, std::uint64_t number,
                        Version& version, After& after) {
  Model& coming = *version.coming;
  const Model& old = *version.serving;
  const bool tried = all_tried(coming);
  if (has_come_up(coming) && is_no_worse(coming, old)) {
    coming.ladder.inherit(old.ladder);
    after.log.emplace_back(false, version_text(name, number) + " was loaded anew");
    leave(entry, number, version.serving, after);
    version.serving = std::exchange(version.coming, nullptr);
    version.failure.clear();
  } else if (tried) {
    version.failure = why_not_taken(coming, old);
    after.log.emplace_back(
        true, version_text(name, number) +
                  " is served as before: it cannot be loaded anew: " + version.failure);
    leave(entry, number, version.coming, after);
  }
}

// Beside others, whose place it takes for requests that name no version.
void Catalog::come_up(Entry& entry, Version& version) {
  Model& model = *version.serving;
  const Version* const before = unversioned(entry);
  const Model* const old =
      before != nullptr && before->up && before != &version ? before->serving.get() : nullptr;
  const bool tried = all_tried(model);
  if (has_come_up(model) && (old == nullptr || is_no_worse(model, *old))) {
    if (old != nullptr) model.ladder.inherit(old->ladder);
    version.up = true;
    version.failure.clear();
  } else if (tried) {
    version.failure = old != nullptr ? why_not_taken(model, *old) : why_not_served(model);
  }
}

// False: some version that is wanted is still being loaded.
bool Catalog::conclude(const std::string& name, Entry& entry, After& after) {
  bool one_is_up = false;
  std::string failures;
  for (const auto& [number, version] : entry.versions) {
    if (!version.wanted) continue;
    if (version.coming != nullptr || (!version.up && version.failure.empty())) return false;
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
  tell_all(entry.under_way, failures.empty() ? Result<void>() : fail(Code::kInvalid, failures),
           after.tell);
  return true;
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

void Catalog::unload(const std::string& name) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || !found->second.loaded) return;
    Entry& entry = found->second;
    const auto unloaded = fail(Code::kUnavailable, "model '" + name + "' was unloaded");
    tell_all(entry.under_way, unloaded, after.tell);
    if (entry.waiting) tell_all(entry.waiting->done, unloaded, after.tell);
    entry.waiting.reset();
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
}

void Catalog::answer_loads() {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto stopping = fail(Code::kUnavailable, "the server is stopping");
    for (auto& [name, entry] : entries_) {
      tell_all(entry.under_way, stopping, after.tell);
      if (entry.waiting) tell_all(entry.waiting->done, stopping, after.tell);
      entry.waiting.reset();
    }
  }
  finish(after);
}

void Catalog::clear() {
  answer_loads();
  std::map<std::string, Entry> entries;  // ends outside the lock
  const MutexLock lock(mutex_);
  entries.swap(entries_);
  publish();
}

const Catalog::Version* Catalog::unversioned(const Entry& entry) const {
  const Version* best = nullptr;
  for (const auto& [number, version] : entry.versions) {
    if (best == nullptr || version.up || !best->up) best = &version;
  }
  return best;
}

void Catalog::publish() {
  auto table = std::make_shared<ServedModels::Table>();
  for (const auto& [name, entry] : entries_) {
    ServedModels::Named named;
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
  served_.publish(std::move(table));
}

void Catalog::finish(After& after) {
  for (const auto& [bad, text] : after.log) bad ? log::error(text) : log::info(text);
  if (!after.let_go.empty()) hooks_.left();
  if (!after.bring_up.empty()) hooks_.bring_up(after.bring_up);
  after.let_go.clear();
  for (auto& [done, result] : after.tell) done(std::move(result));
}

}  // namespace gradus::serving
