#include "serving/model_manager.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

// What is copied into a repository changes from one look to the next for as long as that takes.
constexpr Duration kAtRest = 1s;

constexpr Duration kLongest = 24h;  // nothing to do until somebody says so

const char* mode_text(config::ModelControl mode) {
  return mode == config::ModelControl::kPoll ? "poll" : "none";
}

// What comes may take over once what it replaces has become worse.
constexpr Duration kLookAgain = 500ms;

// Of clients; what they sent waits with them.
constexpr std::size_t kMostJobs = 256;

tl::unexpected<Error> stopping() { return fail(Code::kUnavailable, "the server is stopping"); }

void forget(const Result<void>& /*what came of it is in the log and the index*/) {}

}  // namespace

ModelManager::ModelManager(std::optional<Repository> repository, const config::ServerConfig& server,
                           Catalog& catalog, const Clock& clock)
    : repository_(std::move(repository)),
      mode_(server.model_control_mode),
      every_(std::chrono::seconds(server.repository_poll_secs)),
      at_start_(server.load_models),
      catalog_(catalog),
      clock_(clock) {}

ModelManager::~ModelManager() { stop(); }

void ModelManager::take(std::vector<ModelFolder> folders) {
  if (mode_ == config::ModelControl::kExplicit) {
    std::vector<std::string> names;
    names.reserve(folders.size());
    for (const ModelFolder& folder : folders) names.push_back(folder.name);
    catalog_.know(names);
    const auto wanted = [&](const std::string& name) {
      return std::ranges::any_of(at_start_,
                                 [&](const auto& one) { return one == "*" || one == name; });
    };
    for (const std::string& name : at_start_) {
      if (name != "*" && std::ranges::find(folders, name, &ModelFolder::name) == folders.end()) {
        log::error("model '" + name + "' of --load-model is in no repository");
      }
    }
    std::erase_if(folders, [&](const ModelFolder& folder) { return !wanted(folder.name); });
  }
  if (mode_ != config::ModelControl::kExplicit && !at_start_.empty()) {
    log::warning("--load-model has no effect without --model-control-mode=explicit");
  }
  for (ModelFolder& folder : folders) {
    seen_[folder.name] = {folder.stamp, folder.stamp};
    catalog_.load(std::move(folder), forget);
  }
}

void ModelManager::start() {
  thread_ = std::jthread([this] { work(); });
  pthread_setname_np(thread_.native_handle(), "models");
}

void ModelManager::refuse() {
  std::deque<Job> dropped;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (const Job& job : dropped) job.done(stopping());
}

void ModelManager::stop() {
  refuse();
  if (thread_.joinable()) thread_.join();
}

void ModelManager::work() {
  TimePoint next = mode_ == config::ModelControl::kNone ? TimePoint::max() : clock_.now() + every_;
  mutex_.lock();
  while (!stopping_) {
    const TimePoint now = clock_.now();
    if (!jobs_.empty()) {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      mutex_.unlock();
      job.run();
      mutex_.lock();
    } else if (now >= next) {
      mutex_.unlock();
      const Duration wait = look();
      mutex_.lock();
      next = clock_.now() + wait;
    } else {
      mutex_.unlock();
      const bool loads = catalog_.load_under_way();
      if (loads) catalog_.look_again();
      mutex_.lock();
      if (stopping_ || !jobs_.empty()) continue;
      const Duration wait = next == TimePoint::max() ? kLongest : next - now;
      changed_.wait_for(mutex_, loads ? std::min(wait, kLookAgain) : wait);
    }
  }
  mutex_.unlock();
}

std::optional<Error> ModelManager::refusal() const {
  if (mode_ == config::ModelControl::kExplicit && repository_) return std::nullopt;
  return Error{Code::kUnavailable,
               "models are loaded and unloaded by clients in explicit mode only: start the server "
               "with --model-control-mode=explicit (it runs with '" +
                   std::string(mode_text(mode_)) + "')"};
}

void ModelManager::push(std::function<void()> job, const Managed& done) {
  bool full = false;
  {
    const MutexLock lock(mutex_);
    full = jobs_.size() >= kMostJobs;
    if (!stopping_ && !full) {
      jobs_.push_back({std::move(job), done});
      changed_.notify_all();
      return;
    }
  }
  done(full ? fail(Code::kOverloaded, "too many loads and unloads wait") : stopping());
}

void ModelManager::load(LoadModel what, Managed done) {
  if (const auto refused = refusal()) return done(tl::unexpected(*refused));
  auto job = [this, what = std::move(what), done] { read_and_load(what, done); };
  push(std::move(job), done);
}

void ModelManager::read_and_load(const LoadModel& what, Managed done) {
  auto folder = repository_->read(what);
  if (!folder) return done(tl::unexpected(folder.error()));
  catalog_.load(std::move(*folder), std::move(done));
}

void ModelManager::unload(const std::string& model, Managed done) {
  if (const auto refused = refusal()) return done(tl::unexpected(*refused));
  // In the order in which clients said it, after what was loaded before.
  auto job = [this, model, done] {
    catalog_.unload(model);
    done({});
  };
  push(std::move(job), done);
}

// What is as it was at the last look, and not as it is served, has come to rest.
bool ModelManager::look_at(const std::string& name, Seen& seen, std::optional<ModelFolder> folder) {
  const std::uint64_t stamp = folder ? folder->stamp : 0;
  const bool at_rest = stamp == std::exchange(seen.last, stamp);
  if (stamp == seen.loaded) return true;
  if (!at_rest) return false;
  seen.loaded = stamp;
  if (folder) {
    catalog_.load(std::move(*folder), forget);
  } else {
    catalog_.unload(name);
  }
  return true;
}

Duration ModelManager::look() {
  if (mode_ == config::ModelControl::kPoll) return look_for_changes();
  // The index shows what could be loaded.
  if (const auto names = repository_->names()) catalog_.know(*names);
  return every_;
}

Duration ModelManager::look_for_changes() {
  auto folders = repository_->scan();
  if (!folders) {
    log::warning("the repositories cannot be read: all models stay as they are: " +
                 folders.error().message);
    return every_;
  }
  std::vector<std::string> names;
  for (const ModelFolder& folder : *folders) names.push_back(folder.name);
  std::map<std::string, std::optional<ModelFolder>> now;
  for (const auto& [name, seen] : seen_) now[name];
  for (ModelFolder& folder : *folders) now[folder.name] = std::move(folder);
  bool at_rest = true;
  for (auto& [name, folder] : now) {
    at_rest = look_at(name, seen_[name], std::move(folder)) && at_rest;
  }
  std::erase_if(seen_,
                [](const auto& one) { return one.second.loaded == 0 && one.second.last == 0; });
  catalog_.know(names);
  return at_rest ? every_ : std::min(every_, kAtRest);
}

}  // namespace gradus::serving
