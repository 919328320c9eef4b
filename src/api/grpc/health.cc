#include "api/grpc/health.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>
#include <health.pb.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "api/grpc/call.h"

namespace gradus::api {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Status = HealthCheckResponse::ServingStatus;

constexpr const char* kServices[] = {"", "inference.GRPCInferenceService"};

// Nothing: the message is none.
std::optional<std::string> service_of(const grpc::ByteBuffer& message) {
  grpc::Slice bytes;
  HealthCheckRequest request;
  if (!message.DumpToSingleSlice(&bytes).ok() || bytes.size() > std::numeric_limits<int>::max() ||
      !request.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
    return std::nullopt;
  }
  return request.service();
}

bool is_here(const std::string& service) {
  return std::ranges::find(kServices, service) != std::end(kServices);
}

grpc::ByteBuffer message_of(Status status) {
  HealthCheckResponse response;
  response.set_status(status);
  const grpc::Slice slice(response.SerializeAsString());
  return {&slice, 1};
}

Status status_of(bool ready) {
  return ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

grpc::Status no_request() {
  return {grpc::StatusCode::INVALID_ARGUMENT, "the message is no HealthCheckRequest"};
}

grpc::Status stopping() { return {grpc::StatusCode::UNAVAILABLE, "the server is stopping"}; }

}  // namespace

// Tells one client the latest status, one message at a time: what changes back meanwhile is not
// told.
class Health::Watcher : public std::enable_shared_from_this<Watcher> {
 public:
  explicit Watcher(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  void tell(Status status) {
    {
      const MutexLock lock(mutex_);
      wanted_ = status;
      if (std::exchange(writing_, true)) return;
    }
    write();
  }

  // Ends the call once nothing is being written.
  void end(const grpc::Status& status) {
    {
      const MutexLock lock(mutex_);
      end_ = status;
      if (writing_) return;
    }
    call_->finish(status);
  }

 private:
  void write() {
    std::optional<Status> next;
    std::optional<grpc::Status> end;
    {
      const MutexLock lock(mutex_);
      end = end_;
      if (!end && wanted_ != told_) next = told_ = wanted_;
      writing_ = next.has_value();
    }
    if (end) return call_->finish(*end);
    if (!next) return;
    call_->write(message_of(*next), [self = shared_from_this()](bool) { self->write(); });
  }

  const std::shared_ptr<Call> call_;
  Mutex mutex_;
  bool writing_ GUARDED_BY(mutex_) = false;
  std::optional<Status> wanted_ GUARDED_BY(mutex_);
  std::optional<Status> told_ GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ GUARDED_BY(mutex_);
};

Health::Health() = default;
Health::~Health() = default;

void Health::set(bool ready) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const MutexLock lock(mutex_);
    ready_ = ready;
    watchers = watchers_;
  }
  for (const auto& watcher : watchers) watcher->tell(status_of(ready));
}

void Health::close() {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    watchers.swap(watchers_);
  }
  for (const auto& watcher : watchers) watcher->end(stopping());
}

void Health::check(const std::shared_ptr<Call>& call) {
  read_request(call, [this, call](grpc::ByteBuffer& message) {
    const auto service = service_of(message);
    if (!service) return call->finish(no_request());
    if (!is_here(*service)) {
      return call->finish(
          grpc::Status(grpc::StatusCode::NOT_FOUND, "no service '" + *service + "'"));
    }
    bool ready = false;
    {
      const MutexLock lock(mutex_);
      ready = ready_;
    }
    call->finish(message_of(status_of(ready)));
  });
}

void Health::watch(const std::shared_ptr<Call>& call) {
  read_request(call, [this, call](grpc::ByteBuffer& message) {
    const auto service = service_of(message);
    if (!service) return call->finish(no_request());
    const auto watcher = std::make_shared<Watcher>(call);
    call->when_cancelled([this, watcher] {
      remove(watcher.get());
      watcher->end(grpc::Status::CANCELLED);
    });
    if (is_here(*service)) {
      add(watcher);
    } else {
      watcher->tell(HealthCheckResponse::SERVICE_UNKNOWN);
    }
  });
}

void Health::add(const std::shared_ptr<Watcher>& watcher) {
  bool ready = false;
  bool closed = false;
  {
    const MutexLock lock(mutex_);
    ready = ready_;
    closed = closed_;
    if (!closed) watchers_.push_back(watcher);
  }
  closed ? watcher->end(stopping()) : watcher->tell(status_of(ready));
}

void Health::remove(const Watcher* watcher) {
  const MutexLock lock(mutex_);
  std::erase_if(watchers_, [&](const auto& one) { return one.get() == watcher; });
}

}  // namespace gradus::api
