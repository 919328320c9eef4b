// Which versions of which models are served, and how one set takes another's place: a new version
// is brought up beside the old one, takes the requests when it is ready, and the old one leaves
// when its last request is answered. A load that fails changes nothing but what the index says.
// What models do when they end is not done here: the last owner's thread hands them to whoever made
// them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "serving/manage.h"
#include "serving/model.h"
#include "serving/repository.h"
#include "serving/served_models.h"

namespace gradus::serving {

class Catalog {
 public:
  using Models = ServedModels::Models;

  struct Hooks {
    std::function<std::shared_ptr<Model>(const ModelFolder&, const ModelVersion&)> make;
    std::function<void(const Models&)> bring_up;  // returns at once; settle() for each level
    std::function<void()> left;                   // some models' loads are not wanted any more
  };

  explicit Catalog(Hooks hooks);

  const ServedModels& served() const { return served_; }

  // Any thread. None waits for a load.
  std::vector<IndexEntry> index() const;
  bool loading() const;
  /// Some load is not answered yet.
  bool load_under_way() const;

  /// These are the models of the repositories. Others are forgotten unless they are loaded.
  void know(const std::vector<std::string>& names);
  /// Makes what is served be what the folder says; what has the same stamp stays as it is. One at a
  /// time of a model; of those that wait only the latest is done, and answers for all of them.
  /// @param done not empty; when all its versions are up or have failed. kInvalid: by what the
  ///   folder says none can be loaded, or one could not be, and why; kUnavailable: it was unloaded
  ///   meanwhile
  void load(ModelFolder folder, Managed done);
  /// Nothing happens when nothing of that name is loaded, or being loaded.
  void unload(const std::string& name);
  /// A level of the model came up or failed.
  void settle(const std::shared_ptr<Model>& model);
  /// Something may have changed with those that are served since a version came: looks again
  /// whether it may take over.
  void look_again();
  /// Loads under way, and those that wait, are answered: the server is stopping.
  void answer_loads();
  /// Lets go of all models.
  void clear();

 private:
  struct Version {
    std::shared_ptr<Model> serving;  // null: failed before it was made
    bool up = false;                 // it came up once: ready for requests that name no version
    std::shared_ptr<Model> coming;   // to take the place of `serving`
    bool wanted = true;              // by the folder, as last read
    std::string failure;             // of the last load; "" none
    std::uint64_t stamp = 0;         // of the last load
  };
  struct Waiting {
    ModelFolder folder;
    std::vector<Managed> done;
  };
  struct Leaving {
    std::uint64_t number;
    std::weak_ptr<Model> model;
  };
  struct Entry {
    bool loaded = false;  // or being loaded
    std::string failure;  // why the folder, as last read, cannot be loaded; why it is not
    std::map<std::uint64_t, Version> versions;
    std::vector<Managed> under_way;  // those of the present load; empty: there is none
    std::optional<Waiting> waiting;
    std::vector<Leaving> leaving;
  };

  // What is to be done without the lock.
  struct After {
    Models bring_up;
    Models let_go;
    std::vector<std::pair<Managed, Result<void>>> tell;
    std::vector<std::pair<bool, std::string>> log;  // whether it is bad
  };

  void advance(const std::string& name, Entry& entry, After& after) REQUIRES(mutex_);
  void begin(Entry& entry, Waiting load, After& after) REQUIRES(mutex_);
  bool conclude(const std::string& name, Entry& entry, After& after) REQUIRES(mutex_);
  void take_over(const std::string& name, Entry& entry, std::uint64_t number, Version& version,
                 After& after) REQUIRES(mutex_);
  void come_up(Entry& entry, Version& version) REQUIRES(mutex_);
  void leave(Entry& entry, std::uint64_t number, std::shared_ptr<Model>& model, After& after)
      REQUIRES(mutex_);
  const Version* unversioned(const Entry& entry) const REQUIRES(mutex_);
  void publish() REQUIRES(mutex_);
  void finish(After& after);

  const Hooks hooks_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
  ServedModels served_;
};

}  // namespace gradus::serving
