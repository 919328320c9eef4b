#include "api/grpc/call.h"

#include <utility>

#include "api/grpc/call_queue.h"

namespace gradus::api {
namespace {

// What is done with a message of more bytes may take so long that other calls would feel it.
constexpr std::size_t kLarge = 1 << 20;

}  // namespace

Call::Call(CallQueue& queue) : queue_(queue), stream_(&context_) {}

Call::~Call() { queue_.call_ended(); }

void* Call::begin(Event& event) {
  event.call = shared_from_this();
  return &event;
}

void Call::wait_for_client() {
  context_.AsyncNotifyWhenDone(begin(done_));
  queue_.service_.RequestCall(&context_, &stream_, queue_.queue_.get(), queue_.queue_.get(),
                              begin(accepted_));
}

void Call::on_accepted(bool ok) {
  if (!ok) {               // the server ends
    done_.call = nullptr;  // it comes for calls that were accepted only
    return;
  }
  queue_.add_call();
  queue_.handler_(shared_from_this());
}

void Call::read(std::function<void(grpc::ByteBuffer*)> done) {
  when_read_ = std::move(done);
  stream_.Read(&incoming_, begin(read_));
}

void Call::on_read(bool ok) {
  const auto tell = [ok](Call& call) {
    std::exchange(call.when_read_, nullptr)(ok ? &call.incoming_ : nullptr);
  };
  if (!ok || incoming_.Length() <= kLarge) return tell(*this);
  queue_.aside([self = shared_from_this(), tell] { tell(*self); });
}

void Call::write(grpc::ByteBuffer&& message, std::function<void(bool)> done) {
  outgoing_.Swap(&message);
  when_written_ = std::move(done);
  queue_.post([self = shared_from_this()] {
    self->stream_.Write(self->outgoing_, self->begin(self->written_));
  });
}

void Call::on_written(bool ok) {
  outgoing_.Clear();
  std::exchange(when_written_, nullptr)(ok);
}

void Call::add_trailer(const std::string& name, const std::string& value) {
  context_.AddTrailingMetadata(name, value);
}

void Call::finish(grpc::Status status) {
  if (over_.exchange(true)) return;
  queue_.post([self = shared_from_this(), status = std::move(status)] {
    self->stream_.Finish(status, self->begin(self->finished_));
  });
}

void Call::finish(grpc::ByteBuffer&& last) {
  if (over_.exchange(true)) return;
  outgoing_.Swap(&last);
  queue_.post([self = shared_from_this()] {
    self->stream_.WriteAndFinish(self->outgoing_, {}, grpc::Status::OK,
                                 self->begin(self->finished_));
  });
}

void Call::when_cancelled(std::function<void()> call) {
  {
    const MutexLock lock(mutex_);
    if (!ended_) when_cancelled_ = std::move(call);
    if (!cancelled_) return;
  }
  call();
}

// What is kept for a cancellation may keep this call: it is let go in any case.
void Call::on_done(bool) {
  std::function<void()> call;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    cancelled_ = context_.IsCancelled();
    call = std::exchange(when_cancelled_, nullptr);
    if (!cancelled_) return;
  }
  if (call) call();
}

void read_request(const std::shared_ptr<Call>& call, std::function<void(grpc::ByteBuffer&)> done) {
  call->read([call, done = std::move(done)](grpc::ByteBuffer* message) {
    if (message != nullptr) return done(*message);
    call->finish({grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"});
  });
}

}  // namespace gradus::api
