#include "api/http/exchange.h"

#include <utility>

#include "api/http/connection.h"

namespace gradus::api {

Exchange::Exchange(std::shared_ptr<ServerCore> core, std::weak_ptr<Connection> connection)
    : core_(std::move(core)), connection_(std::move(connection)) {}

Exchange::~Exchange() {
  if (!answered_) send(error_response(500, "the request was dropped without an answer"));
}

void Exchange::send(HttpResponse response) {
  if (answered_.exchange(true)) return;
  if (const auto connection = connection_.lock()) connection->reply(std::move(response));
}

void Exchange::when_abandoned(std::function<void()> call) {
  {
    const MutexLock lock(mutex_);
    if (!abandoned_) {
      when_abandoned_ = std::move(call);
      return;
    }
  }
  call();
}

void Exchange::abandon() {
  std::function<void()> call;
  {
    const MutexLock lock(mutex_);
    abandoned_ = true;
    call = std::exchange(when_abandoned_, nullptr);
  }
  if (call) call();
}

}  // namespace gradus::api
