// Does what clients and the repositories say of models: reads folders on a thread of its own, since
// a disk may take its time, and hands what it finds to the catalog.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "serving/catalog.h"
#include "serving/manage.h"
#include "serving/repository.h"

namespace gradus::serving {

class ModelManager {
 public:
  /// @param repository nothing: no model can be loaded or unloaded
  ModelManager(std::optional<Repository> repository, const config::ServerConfig& server,
               Catalog& catalog, const Clock& clock);
  ~ModelManager();

  /// What is there when the server starts. Before start().
  void take(std::vector<ModelFolder> folders);
  void start();
  /// Nothing is loaded or unloaded any more, and what waits is answered so. Returns at once.
  void refuse();
  /// refuse(), and waits for what is under way.
  void stop();

  /// As Engine's. Any thread.
  void load(LoadModel what, Managed done);
  void unload(const std::string& model, Managed done);

 private:
  struct Seen {
    std::uint64_t loaded = 0;  // the stamp that is served; 0: none
    std::uint64_t last = 0;    // at the last look; 0: it was not there
  };

  void work();
  void push(std::function<void()> job, const Managed& done);
  std::optional<Error> refusal() const;
  void read_and_load(const LoadModel& what, Managed done);
  Duration look();  // until the next one
  Duration look_for_changes();
  bool look_at(const std::string& name, Seen& seen, std::optional<ModelFolder> folder);

  const std::optional<Repository> repository_;
  const config::ModelControl mode_;
  const Duration every_;
  const std::vector<std::string> at_start_;
  Catalog& catalog_;
  const Clock& clock_;
  std::map<std::string, Seen> seen_;  // before start(), then the thread's

  struct Job {
    std::function<void()> run;
    Managed done;  // told when it is not run any more
  };
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace gradus::serving
