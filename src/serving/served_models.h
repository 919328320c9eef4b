// The models as requests find them: a table that is replaced whole (base/published.h) whenever the
// catalog changes, so that nobody who asks waits for a lock that a load could hold.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/published.h"
#include "base/result.h"
#include "serving/model.h"

namespace gradus::serving {

class ServedModels {
 public:
  using Models = std::vector<std::shared_ptr<Model>>;

  struct Version {
    std::uint64_t number = 0;
    std::weak_ptr<Model> model;  // its owner is the catalog, and whoever uses it
    std::string failure;         // where there is no model
  };
  struct Named {
    bool loaded = false;            // or being loaded
    std::vector<Version> versions;  // ascending
    std::size_t unversioned = 0;    // which of them answers who names none
    std::string failure;            // where there are none
  };
  using Table = std::map<std::string, Named, std::less<>>;

  ServedModels() : table_(std::make_shared<const Table>()) {}

  void publish(std::shared_ptr<const Table> table) { table_.publish(std::move(table)); }

  // Any thread.
  /// @param version "": the model's `unversioned`
  /// @return kNotFound: no such model or version, or it is not loaded; kUnavailable: it cannot be
  ///   served, and why
  Result<std::shared_ptr<Model>> find(std::string_view model, std::string_view version) const;
  /// All versions that take requests, by name and number; of one model, or of all ("").
  Models all(std::string_view model = "") const;
  /// Some model answers, if any shall, and at the start none that could is waited for. (What is
  /// loaded later does not take the server out of service.)
  bool ready() const;
  std::vector<std::string> names() const;  // sorted
  std::vector<std::string> versions(std::string_view model) const;

 private:
  Published<Table> table_;
  mutable std::atomic<bool> was_ready_{false};
};

}  // namespace gradus::serving
