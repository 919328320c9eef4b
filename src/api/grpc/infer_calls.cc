#include "api/grpc/infer_calls.h"

#include <grpc_service.pb.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/codec/infer_request.h"
#include "api/grpc/cancellation.h"
#include "api/grpc/infer_messages.h"
#include "api/grpc/status.h"
#include "base/log.h"
#include "base/mutex.h"

namespace gradus::api {
namespace {

using grpc::ByteBuffer;

// Requests of one stream that are read before the first of them is answered.
constexpr std::size_t kMostAtOnce = 32;

grpc::Status status_of(const Error& error) {
  return {static_cast<grpc::StatusCode>(grpc_status(error.code)), status_text(error)};
}

// Long pieces are referred to, not copied.
ByteBuffer buffer_of(const std::vector<Segment>& pieces) {
  using Owner = std::shared_ptr<const void>;
  std::vector<grpc::Slice> slices;
  slices.reserve(pieces.size());
  for (const Segment& piece : pieces) {
    auto* const data = const_cast<std::byte*>(piece.bytes.data());  // NOLINT: gRPC only reads it
    slices.emplace_back(
        data, piece.bytes.size(), [](void* owner) { delete static_cast<Owner*>(owner); },
        new Owner(piece.owner));
  }
  return {slices.data(), slices.size()};
}

// What is left of the call's deadline; nothing: it has none.
std::optional<Duration> time_left(const grpc::CallbackServerContext& call) {
  const auto deadline = call.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  return std::min<Duration>(deadline - wall_now(), kLongestTimeout);
}

// The engine itself ends what is over its deadline, and counts it as that. A client's timer is
// ahead of ours by the time that its request took to come: one that ends the call so shortly before
// the deadline has not changed its mind.
bool is_late(const grpc::CallbackServerContext& call) {
  constexpr Duration kAhead = std::chrono::milliseconds(50);
  return time_left(call).value_or(Duration::max()) <= kAhead;
}

// A request as it came: what can be said of it even if it is refused.
struct Received {
  std::string model, version, id;
  Result<DecodedMessage> decoded;
  std::shared_ptr<Trace> trace;  // null: it is not traced
};

// Takes the bytes. No exception leaves it: memory may run out.
Received read(const InferContext& context, ByteBuffer& bytes) {
  Received received;
  try {
    InferMessage came;
    grpc::ProtoBufferReader reader(&bytes);
    const auto whole = read_message(reader, bytes.Length(), context.pool, came);
    bytes.Clear();
    received.model = came.message->model_name();
    received.version = came.message->model_version();
    received.id = came.message->id();
    received.trace = context.control->tracer->sample(received.model);
    received.decoded =
        whole ? decode_message(std::move(came.message),
                               {context.control->shared_memory.get(), context.most_shared},
                               std::move(came.raw))
              : tl::unexpected(whole.error());
    if (received.decoded) {
      auto known =
          look_up_model(context.engine, received.decoded->request, received.decoded->wishes);
      if (!known) received.decoded = tl::unexpected(std::move(known.error()));
    }
  } catch (const std::exception& e) {
    log::error("grpc: a request could not be read", {{"what", e.what()}});
    received.decoded = fail(Code::kUnavailable, "no memory for the request");
  }
  return received;
}

// Called once with the engine's answer and what was wanted of it.
using Answered = std::function<void(Result<serving::Response>, const OutputWishes&)>;

// `call` is not looked at once `answered` may have been called.
void infer(InferContext& context, const grpc::CallbackServerContext& call, Received received,
           Cancellation& cancellation, Answered answered) {
  const auto refuse = [&](const Error& error) {
    context.engine.refused(received.model, received.version, error.code);
    answered(tl::unexpected(error), {});
  };
  if (!received.decoded) return refuse(received.decoded.error());
  serving::Request* const request = &received.decoded->request;
  request->arrival = context.clock.now();
  if (received.trace) received.trace->stamp("REQUEST_START", request->arrival);
  if (const auto left = time_left(call)) {
    if (*left <= Duration::zero()) {
      return refuse({Code::kDeadline, "the call's deadline passed before the request was read"});
    }
    request->timeout = std::min(request->timeout.value_or(*left), *left);
  }
  cancellation.hold(context.engine.infer(
      std::move(*request),
      [answered = std::move(answered), wishes = std::move(received.decoded->wishes),
       trace = std::move(received.trace),
       &clock = context.clock](Result<serving::Response> result) {
        if (trace) trace->answered(result, clock.now());
        answered(std::move(result), wishes);
      }));
}

// Encodes outside of any lock; memory may run out.
Result<ByteBuffer> encode(serving::Response& response, const OutputWishes& wishes,
                          Envelope envelope) {
  try {
    if (auto done = fulfil(wishes, response); !done) return tl::unexpected(done.error());
    const auto pieces = encode_message(response, envelope, wishes);
    if (!pieces) return tl::unexpected(pieces.error());
    return buffer_of(*pieces);
  } catch (const std::exception& e) {
    log::error("grpc: an answer could not be written", {{"what", e.what()}});
    return fail(Code::kInternal, "internal error");
  }
}

class InferCall final : public grpc::ServerUnaryReactor {
 public:
  InferCall(InferContext& context, grpc::CallbackServerContext& call, ByteBuffer& answer)
      : context_(context), call_(call), answer_(answer) {}

  void start(ByteBuffer& bytes) {
    ++context_.under_way;
    // The call may end, and this object with it, before infer() returns.
    const auto cancellation = cancellation_;
    infer(context_, call_, read(context_, bytes), *cancellation,
          [this](Result<serving::Response> result, const OutputWishes& wishes) {
            finish(std::move(result), wishes);
          });
  }

  void OnCancel() override {
    if (!is_late(call_)) cancellation_->cancel();
  }
  void OnDone() override { delete this; }

 private:
  void finish(Result<serving::Response> result, const OutputWishes& wishes) {
    grpc::Status status;
    if (!result) {
      status = status_of(result.error());
    } else if (auto bytes = encode(*result, wishes, Envelope::kNone)) {
      call_.AddTrailingMetadata("gradus-level", std::to_string(result->origin.level));
      call_.AddTrailingMetadata("gradus-degraded", result->origin.degraded ? "true" : "false");
      answer_.Swap(&*bytes);
    } else {
      status = status_of(bytes.error());
    }
    --context_.under_way;
    Finish(std::move(status));
  }

  InferContext& context_;
  grpc::CallbackServerContext& call_;
  ByteBuffer& answer_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
};

class InferStream final : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  InferStream(InferContext& context, grpc::CallbackServerContext& call)
      : context_(context), call_(call) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    const auto turn = ok ? admit() : nullptr;
    if (turn) {
      Received received = read(context_, request_);
      turn->id = received.id;
      infer(context_, call_, std::move(received), turn->cancellation,
            [this, turn](Result<serving::Response> result, const OutputWishes& wishes) {
              answered(turn, std::move(result), wishes);
            });
    }
    advance([&]() REQUIRES(mutex_) {
      reading_ = false;
      all_read_ = all_read_ || !ok;
    });
  }

  void OnWriteDone(bool ok) override {
    advance([&]() REQUIRES(mutex_) {
      writing_ = false;
      turns_.pop_front();
      broken_ = broken_ || !ok;
    });
  }

  void OnCancel() override {
    std::deque<std::shared_ptr<Turn>> turns;
    {
      const MutexLock lock(mutex_);
      broken_ = true;
      turns = turns_;
    }
    if (!is_late(call_)) {
      for (const auto& turn : turns) turn->cancellation.cancel();
    }
    advance([] {});
  }

  void OnDone() override { delete this; }

 private:
  // One request, until its answer is written.
  struct Turn {
    Cancellation cancellation;
    std::string id;
    std::optional<ByteBuffer> answer;
  };

  std::shared_ptr<Turn> admit() {
    const MutexLock lock(mutex_);
    if (broken_) return nullptr;
    ++context_.under_way;
    return turns_.emplace_back(std::make_shared<Turn>());
  }

  void answered(const std::shared_ptr<Turn>& turn, Result<serving::Response> result,
                const OutputWishes& wishes) {
    auto bytes = result ? encode(*result, wishes, Envelope::kStream)
                        : Result<ByteBuffer>(tl::unexpected(result.error()));
    if (!bytes) bytes = buffer_of(encode_stream_error(bytes.error().message, turn->id));
    --context_.under_way;
    advance([&]() REQUIRES(mutex_) { turn->answer = std::move(*bytes); });
  }

  // Changes the state and does what follows from it. Reading and writing keep this object alive;
  // Finish comes when neither is under way and no request waits, and nothing is touched after it.
  template <class Change>
  void advance(Change change) {
    bool write = false, read = false, finish = false, cancelled = false;
    {
      const MutexLock lock(mutex_);
      change();
      while (broken_ && !writing_ && !turns_.empty() && turns_.front()->answer) turns_.pop_front();
      if (!writing_ && !turns_.empty() && turns_.front()->answer) {
        writing_ = write = true;
        answer_.Swap(&*turns_.front()->answer);
      }
      if (!reading_ && !all_read_ && !broken_ && turns_.size() < kMostAtOnce) {
        reading_ = read = true;
      }
      if (!finished_ && !reading_ && !writing_ && turns_.empty() && (all_read_ || broken_)) {
        finished_ = finish = true;
      }
      cancelled = broken_;
    }
    if (write) StartWrite(&answer_);
    if (read) StartRead(&request_);
    if (finish) Finish(cancelled ? grpc::Status::CANCELLED : grpc::Status::OK);
  }

  InferContext& context_;
  grpc::CallbackServerContext& call_;
  ByteBuffer request_;  // of the read under way
  ByteBuffer answer_;   // of the write under way
  Mutex mutex_;
  std::deque<std::shared_ptr<Turn>> turns_ GUARDED_BY(mutex_);
  bool reading_ GUARDED_BY(mutex_) = true;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool all_read_ GUARDED_BY(mutex_) = false;
  bool broken_ GUARDED_BY(mutex_) = false;  // nobody takes answers any more
  bool finished_ GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* start_infer(InferContext& context, grpc::CallbackServerContext& call,
                                      ByteBuffer& request, ByteBuffer& answer) {
  auto* const reactor = new InferCall(context, call, answer);
  reactor->start(request);
  return reactor;
}

grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* start_infer_stream(
    InferContext& context, grpc::CallbackServerContext& call) {
  return new InferStream(context, call);
}

}  // namespace gradus::api
