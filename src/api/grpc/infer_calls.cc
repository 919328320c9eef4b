#include "api/grpc/infer_calls.h"

#include <grpc_service.pb.h>
#include <grpcpp/server_context.h>
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

#include "api/codec/header_value.h"
#include "api/codec/infer_request.h"
#include "api/grpc/call.h"
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
std::optional<Duration> time_left(const Call& call) {
  const auto deadline = call.context().deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  return std::min<Duration>(deadline - wall_now(), kLongestTimeout);
}

// The engine itself ends what is over its deadline, and counts it as that. A client's timer is
// ahead of ours by the time that its request took to come: one that ends the call so shortly before
// the deadline has not changed its mind.
bool is_late(const Call& call) {
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
// @param awaited since when the message was waited for
Received read(const InferContext& context, TimePoint awaited, ByteBuffer& bytes) {
  const TimePoint came_at = context.clock.now();
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
    if (received.trace) {
      received.trace->about(received.version, received.id);
      received.trace->stamp("GRPC_WAITREAD_START", awaited);
      received.trace->stamp("GRPC_WAITREAD_END", came_at);
    }
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

// Called once with the engine's answer, what was wanted of it and the request's trace, or null.
using Answered = std::function<void(Result<serving::Response>, const OutputWishes&,
                                    const std::shared_ptr<Trace>&)>;

void infer(InferContext& context, const Call& call, Received received, Cancellation& cancellation,
           Answered answered) {
  const auto refuse = [&](const Error& error) {
    context.engine.refused(received.model, received.version, error.code);
    if (received.trace) received.trace->refused(error, context.clock.now());
    answered(tl::unexpected(error), {}, received.trace);
  };
  if (!received.decoded) return refuse(received.decoded.error());
  serving::Request* const request = &received.decoded->request;
  request->arrival = context.clock.now();
  if (const auto left = time_left(call)) {
    if (*left <= Duration::zero()) {
      return refuse({Code::kDeadline, "the call's deadline passed before the request was read"});
    }
    request->client_timeout = *left;
  }
  if (received.trace) received.trace->stamp("REQUEST_START", request->arrival);
  cancellation.hold(context.engine.infer(
      std::move(*request),
      [answered = std::move(answered), wishes = std::move(received.decoded->wishes),
       trace = std::move(received.trace),
       &clock = context.clock](Result<serving::Response> result) {
        if (trace) trace->answered(result, clock.now());
        answered(std::move(result), wishes, trace);
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

void time_sending(Call& call, const std::shared_ptr<Trace>& trace) {
  if (trace) call.time_sending(Trace::send_times(trace, "GRPC_SEND_START", "GRPC_SEND_END"));
}

void answer(InferContext& context, Call& call, Result<serving::Response> result,
            const OutputWishes& wishes, const std::shared_ptr<Trace>& trace) {
  auto bytes = result ? encode(*result, wishes, Envelope::kNone)
                      : Result<ByteBuffer>(tl::unexpected(result.error()));
  --context.under_way;
  if (trace && !bytes) trace->failed(bytes.error());
  time_sending(call, trace);
  if (!bytes) return call.finish(status_of(bytes.error()));
  call.add_trailer("gradus-level", std::to_string(result->origin.level));
  call.add_trailer("gradus-variant", header_value(result->origin.variant));
  call.add_trailer("gradus-degraded", result->origin.degraded ? "true" : "false");
  call.finish(std::move(*bytes));
}

class InferStream : public std::enable_shared_from_this<InferStream> {
 public:
  InferStream(InferContext& context, std::shared_ptr<Call> call)
      : context_(context), call_(std::move(call)) {}

  void start() {
    call_->when_cancelled([self = shared_from_this()] { self->on_cancel(); });
    read_next();
  }

 private:
  // One request, until its answer is written.
  struct Turn {
    Cancellation cancellation;
    std::string id;
    std::optional<ByteBuffer> answer;
    std::shared_ptr<Trace> trace = nullptr;  // with the answer; null: it is not traced
  };

  void read_next() {
    const TimePoint awaited = context_.clock.now();
    call_->read(
        [self = shared_from_this(), awaited](ByteBuffer* bytes) { self->on_read(awaited, bytes); });
  }

  void on_read(TimePoint awaited, ByteBuffer* bytes) {
    const auto turn = bytes != nullptr ? admit() : nullptr;
    if (turn) {
      Received received = read(context_, awaited, *bytes);
      turn->id = received.id;
      infer(context_, *call_, std::move(received), turn->cancellation,
            [self = shared_from_this(), turn](Result<serving::Response> result,
                                              const OutputWishes& wishes,
                                              const std::shared_ptr<Trace>& trace) {
              self->answered(turn, std::move(result), wishes, trace);
            });
    }
    advance([&]() REQUIRES(mutex_) {
      reading_ = false;
      all_read_ = all_read_ || bytes == nullptr;
    });
  }

  void on_written(bool sent) {
    advance([&]() REQUIRES(mutex_) {
      writing_ = false;
      turns_.pop_front();
      broken_ = broken_ || !sent;
    });
  }

  void on_cancel() {
    std::deque<std::shared_ptr<Turn>> turns;
    {
      const MutexLock lock(mutex_);
      broken_ = true;
      turns = turns_;
    }
    if (!is_late(*call_)) {
      for (const auto& turn : turns) turn->cancellation.cancel();
    }
    advance([] {});
  }

  std::shared_ptr<Turn> admit() {
    const MutexLock lock(mutex_);
    if (broken_) return nullptr;
    ++context_.under_way;
    return turns_.emplace_back(std::make_shared<Turn>());
  }

  void answered(const std::shared_ptr<Turn>& turn, Result<serving::Response> result,
                const OutputWishes& wishes, const std::shared_ptr<Trace>& trace) {
    auto bytes = result ? encode(*result, wishes, Envelope::kStream)
                        : Result<ByteBuffer>(tl::unexpected(result.error()));
    if (trace && !bytes) trace->failed(bytes.error());
    if (!bytes) bytes = buffer_of(encode_stream_error(bytes.error().message, turn->id));
    --context_.under_way;
    advance([&]() REQUIRES(mutex_) {
      turn->answer = std::move(*bytes);
      turn->trace = trace;
    });
  }

  // Changes the state and does what follows from it. The end comes when nothing is read or written
  // and no request waits.
  template <class Change>
  void advance(Change change) {
    bool write = false, read = false, finish = false, cancelled = false;
    ByteBuffer answer;
    std::shared_ptr<Trace> trace;
    {
      const MutexLock lock(mutex_);
      change();
      while (broken_ && !writing_ && !turns_.empty() && turns_.front()->answer) turns_.pop_front();
      if (!writing_ && !turns_.empty() && turns_.front()->answer) {
        writing_ = write = true;
        answer.Swap(&*turns_.front()->answer);
        trace = std::move(turns_.front()->trace);
      }
      if (!reading_ && !all_read_ && !broken_ && turns_.size() < kMostAtOnce) {
        reading_ = read = true;
      }
      if (!finished_ && !reading_ && !writing_ && turns_.empty() && (all_read_ || broken_)) {
        finished_ = finish = true;
      }
      cancelled = broken_;
    }
    if (write) {
      time_sending(*call_, trace);
      call_->write(std::move(answer),
                   [self = shared_from_this()](bool sent) { self->on_written(sent); });
    }
    if (read) read_next();
    if (finish) call_->finish(cancelled ? grpc::Status::CANCELLED : grpc::Status::OK);
  }

  InferContext& context_;
  const std::shared_ptr<Call> call_;
  Mutex mutex_;
  std::deque<std::shared_ptr<Turn>> turns_ GUARDED_BY(mutex_);
  bool reading_ GUARDED_BY(mutex_) = true;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool all_read_ GUARDED_BY(mutex_) = false;
  bool broken_ GUARDED_BY(mutex_) = false;  // nobody takes answers any more
  bool finished_ GUARDED_BY(mutex_) = false;
};

}  // namespace

void start_infer(InferContext& context, const std::shared_ptr<Call>& call) {
  read_request(call, [&context, call, awaited = context.clock.now()](ByteBuffer& bytes) {
    ++context.under_way;
    const auto cancellation = std::make_shared<Cancellation>();
    call->when_cancelled([call, cancellation] {
      if (!is_late(*call)) cancellation->cancel();
    });
    infer(context, *call, read(context, awaited, bytes), *cancellation,
          [&context, call](Result<serving::Response> result, const OutputWishes& wishes,
                           const std::shared_ptr<Trace>& trace) {
            answer(context, *call, std::move(result), wishes, trace);
          });
  });
}

void start_infer_stream(InferContext& context, std::shared_ptr<Call> call) {
  std::make_shared<InferStream>(context, std::move(call))->start();
}

}  // namespace gradus::api
