// ModelInfer and ModelStreamInfer as gRPC's callback API has them: a reactor for each call, which
// ends itself. Messages come and go as bytes, so that tensors are not copied on their way out.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "api/control/control.h"
#include "base/clock.h"
#include "serving/engine.h"
#include "worker/shared_pool.h"

namespace grpc {
class ByteBuffer;
class CallbackServerContext;
class ServerUnaryReactor;
template <class Request, class Response>
class ServerBidiReactor;
}  // namespace grpc

namespace gradus::api {

/// What calls share; outlives them.
struct InferContext {
  serving::Engine& engine;
  const Clock& clock;
  worker::SharedPool& pool;  // of the tensors that come in
  const std::shared_ptr<Control> control;
  const std::uint64_t most_shared = 0;    // bytes of one request's inputs in shared memory
  std::atomic<std::size_t> under_way{0};  // requests that are not answered yet
};

/// Answers one request. The call's deadline counts as the request's `timeout` does, and its
/// cancellation reaches the engine.
/// @param request taken; @param answer is filled before the reactor finishes
grpc::ServerUnaryReactor* start_infer(InferContext& context, grpc::CallbackServerContext& call,
                                      grpc::ByteBuffer& request, grpc::ByteBuffer& answer);

/// Answers a stream's requests in their order, each by an answer or an error of its own; the stream
/// goes on after errors. Several requests run at once.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* start_infer_stream(
    InferContext& context, grpc::CallbackServerContext& call);

}  // namespace gradus::api
