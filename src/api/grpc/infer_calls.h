// ModelInfer and ModelStreamInfer, from a call's first message to its status.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "api/control/control.h"
#include "base/clock.h"
#include "serving/engine.h"
#include "worker/shared_pool.h"

namespace gradus::api {

class Call;

/// What calls share; outlives them.
struct InferContext {
  serving::Engine& engine;
  const Clock& clock;
  worker::SharedPool& pool;  // of the tensors that come in
  const std::shared_ptr<Control> control;
  const std::uint64_t most_shared = 0;    // bytes of one request's inputs in shared memory
  std::atomic<std::size_t> under_way{0};  // requests that are not answered yet
};

/// Answers one request. The call's deadline is one of the request, and its cancellation reaches the
/// engine.
void start_infer(InferContext& context, const std::shared_ptr<Call>& call);

/// Answers a stream's requests in their order, each by an answer or an error of its own; the stream
/// goes on after errors. Several requests run at once.
void start_infer_stream(InferContext& context, std::shared_ptr<Call> call);

}  // namespace gradus::api
