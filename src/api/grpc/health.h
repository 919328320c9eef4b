// grpc.health.v1: whether the server answers, asked once or watched.
// Source: gRPC's health checking protocol (doc/health-checking.md).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace gradus::api {

class Call;

class Health {
 public:
  Health();
  ~Health();

  /// Of the whole server and of `inference.GRPCInferenceService` alike; watchers are told of
  /// changes.
  void set(bool ready);

  /// Ends all watches, and those that come: the server stops.
  void close();

  void check(const std::shared_ptr<Call>& call);  // NOT_FOUND: another service

  /// Goes on until the client ends it. Of a service that is not here it says SERVICE_UNKNOWN.
  void watch(const std::shared_ptr<Call>& call);

 private:
  class Watcher;

  void add(const std::shared_ptr<Watcher>& watcher);
  void remove(const Watcher* watcher);

  Mutex mutex_;
  bool ready_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Watcher>> watchers_ GUARDED_BY(mutex_);
};

}  // namespace gradus::api
