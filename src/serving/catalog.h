// Which versions of which models are served, and how one set takes another's place: a new version
// is brought up beside the old one, takes the requests when it is ready, and the old one leaves
// when its last request is answered. A load that fails changes nothing but what the index says.
//
// Requests find their model without a lock that a load could hold (base/published.h). What models
// do when they end is not done here: the last owner's thread hands them to whoever made them.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/published.h"
#include "base/result.h"
#include "serving/manage.h"
#include "serving/model.h"
#include "serving/repository.h"

namespace gradus::serving {

class Catalog {
 public:
  using Models = std::vector<std::shared_ptr<Model>>;

  struct Hooks {
    std::function<std::shared_ptr<Model>(const ModelFolder&, const ModelVersion&)> make;
    std::function<void(const Models&)> bring_up;  // returns at once; settle() for each level
  };

  explicit Catalog(Hooks hooks);

  // Request path and status: any thread, without a lock where nothing changed.
  /// @param version "": the highest one that came up, or is to come up where none did
  /// @return kNotFound: no such model or version, or it is not loaded; kUnavailable: it cannot be
  ///   served, and why
  Result<std::shared_ptr<Model>> find(std::string_view model, std::string_view version) const;
  /// All versions that take requests, by name and number; of one model, or of all ("").
  Models served(std::string_view model = "") const;
  /// Some model answers, if any shall, and at the start none that could is waited for. (What is
  /// loaded later does not take the server out of service.)
  bool ready() const;

  // Any thread.
  std::vector<std::string> names() const;  // sorted
  std::vector<std::string> versions(std::string_view model) const;
  std::vector<IndexEntry> index() const;
  bool loading() const;

  /// There is such a model, and it is not loaded.
  void know(const std::vector<std::string>& names);
  /// Makes what is served be what the folder says. What has the same stamp stays as it is. One at a
  /// time of a model, in the order of the calls.
  /// @param done not empty; when all its versions are up or have failed. kInvalid: by what the
  ///   folder says none can be loaded; kUnavailable: one could not be, and why
  void load(ModelFolder folder, Managed done);
  /// @return kNotFound: nothing of that name is loaded, or being loaded
  Result<void> unload(const std::string& name);
  /// A level of the model came up or failed.
  void settle(const std::shared_ptr<Model>& model);
  /// Lets go of all models; loads under way fail.
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
  struct Load {
    ModelFolder folder;
    Managed done;
  };
  struct Leaving {
    std::uint64_t number;
    std::weak_ptr<Model> model;
  };
  struct Entry {
    bool loaded = false;  // or being loaded
    std::string failure;  // why none of its versions can be
    std::map<std::uint64_t, Version> versions;
    Managed under_way;  // the present load's; empty: there is none
    std::deque<Load> waiting;
    std::vector<Leaving> leaving;
  };

  // What requests see.
  struct Named {
    struct One {
      std::uint64_t number;
      std::weak_ptr<Model> model;
      std::string failure;  // where there is no model
    };
    std::vector<One> versions;    // ascending
    std::size_t unversioned = 0;  // which of them
    bool loaded = false;
    std::string failure;  // where there are none
  };
  using Table = std::map<std::string, Named, std::less<>>;

  // What is to be done without the lock.
  struct After {
    Models bring_up;
    Models let_go;
    std::vector<std::pair<Managed, Result<void>>> tell;
    std::vector<std::pair<bool, std::string>> log;  // whether it is bad
  };

  void begin(Entry& entry, ModelFolder folder, Managed done, After& after) REQUIRES(mutex_);
  void look(const std::string& name, Entry& entry, After& after) REQUIRES(mutex_);
  void look(const std::string& name, Entry& entry, std::uint64_t number, Version& version,
            After& after) REQUIRES(mutex_);
  void leave(Entry& entry, std::uint64_t number, std::shared_ptr<Model>& model, After& after)
      REQUIRES(mutex_);
  const Version* unversioned(const Entry& entry) const REQUIRES(mutex_);
  void publish() REQUIRES(mutex_);
  void finish(After& after);

  const Hooks hooks_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
  Published<Table> table_;
  mutable std::atomic<bool> was_ready_{false};
};

}  // namespace gradus::serving
