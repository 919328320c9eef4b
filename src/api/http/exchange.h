// One request's way back to its connection, which may be gone by then, and so may the server.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "api/http/http_message.h"
#include "base/mutex.h"

namespace gradus::api {

class Connection;
class ServerCore;

class Exchange final : public ReplySink {
 public:
  Exchange(std::shared_ptr<ServerCore> core, std::weak_ptr<Connection> connection);
  ~Exchange() override;  // answers 500 if nobody did
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Any thread; only the first call counts.
  void send(HttpResponse response) override;
  void when_abandoned(std::function<void()> call) override;

  /// The client has closed its side, or the connection is gone. Any thread.
  void abandon();

 private:
  const std::shared_ptr<ServerCore> core_;  // keeps what the connection runs on
  const std::weak_ptr<Connection> connection_;
  std::atomic<bool> answered_{false};
  Mutex mutex_;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  std::function<void()> when_abandoned_ GUARDED_BY(mutex_);
};

}  // namespace gradus::api
