// The load client over gRPC: a closed loop of unary calls in one thread, with gRPC's core library,
// which costs the CPUs that it shares with the server less than the C++ layer does.
//
//   grpc_client PORT SERVER_PID CALLS SECONDS REQUEST_FILE[,…] [OUTPUT_FILE[,…]]
//
// CALLS run at once; at most kCallsOfConnection of them share a connection. A REQUEST_FILE holds a
// ModelInferRequest as bytes; the rest is as in load_client.cc: every call must end with status OK,
// and the first ones' messages in the FP32 values of their OUTPUT_FILE.
#include <absl/synchronization/mutex.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "closed_loop.h"
#include "files.h"

namespace gradus::bench {
namespace {

constexpr char kMethod[] = "/inference.GRPCInferenceService/ModelInfer";
// As many as Triton's client libraries let share one (TRITON_CLIENT_GRPC_CHANNEL_MAX_SHARE_COUNT).
constexpr std::size_t kCallsOfConnection = 6;

std::string_view view_of(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

std::string text_of(grpc_byte_buffer* message) {
  std::string text;
  grpc_byte_buffer_reader reader;
  grpc_byte_buffer_reader_init(&reader, message);
  for (grpc_slice slice; grpc_byte_buffer_reader_next(&reader, &slice) != 0;) {
    text += view_of(slice);
    grpc_slice_unref(slice);
  }
  grpc_byte_buffer_reader_destroy(&reader);
  return text;
}

class Channel {
 public:
  explicit Channel(std::uint16_t port) {
    std::array<grpc_arg, 4> arguments{};
    const std::array<std::pair<const char*, int>, 4> said = {{
        {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},  // a connection of its own
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, INT_MAX},
        {GRPC_ARG_ENABLE_RETRIES, 0},
        {GRPC_ARG_MINIMAL_STACK, 1},
    }};
    for (std::size_t i = 0; i < said.size(); ++i) {
      arguments[i].type = GRPC_ARG_INTEGER;
      arguments[i].key = const_cast<char*>(said[i].first);  // NOLINT: gRPC only reads it
      arguments[i].value.integer = said[i].second;
    }
    const grpc_channel_args all{arguments.size(), arguments.data()};
    grpc_channel_credentials* const open = grpc_insecure_credentials_create();
    channel_ = grpc_channel_create(("127.0.0.1:" + std::to_string(port)).c_str(), open, &all);
    grpc_channel_credentials_release(open);
    method_ = grpc_channel_register_call(channel_, kMethod, nullptr, nullptr);
  }
  ~Channel() { grpc_channel_destroy(channel_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  grpc_call* begin_call(grpc_completion_queue* queue) {
    return grpc_channel_create_registered_call(channel_, nullptr, GRPC_PROPAGATE_DEFAULTS, queue,
                                               method_, gpr_inf_future(GPR_CLOCK_REALTIME),
                                               nullptr);
  }

 private:
  grpc_channel* channel_ = nullptr;
  void* method_ = nullptr;
};

// One call after the other. It stays where it is: gRPC fills its members.
class Caller {
 public:
  Caller(Channel& channel, grpc_completion_queue* queue) : channel_(channel), queue_(queue) {}
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  TimePoint sent_at{};
  std::size_t request = 0;  // the one under way
  bool compare_it = false;

  // @param text stays where it is: it is sent from there
  bool send(const std::string& text) {
    grpc_slice slice = grpc_slice_from_static_buffer(text.data(), text.size());
    message_ = grpc_raw_byte_buffer_create(&slice, 1);
    call_ = channel_.begin_call(queue_);
    grpc_metadata_array_init(&initial_);
    grpc_metadata_array_init(&trailing_);
    answer_ = nullptr;
    std::array<grpc_op, 6> ops{};
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = message_;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial_;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &answer_;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &trailing_;
    ops[5].data.recv_status_on_client.status = &status_;
    ops[5].data.recv_status_on_client.status_details = &details_;
    return grpc_call_start_batch(call_, ops.data(), ops.size(), this, nullptr) == GRPC_CALL_OK;
  }

  Result<void> check(const std::string* output) const {
    if (status_ != GRPC_STATUS_OK || answer_ == nullptr) {
      return fail(Code::kInternal,
                  "status " + std::to_string(status_) + ": " + std::string(view_of(details_)));
    }
    return output != nullptr ? compare(text_of(answer_), *output) : Result<void>{};
  }

  std::size_t body_bytes() const { return grpc_byte_buffer_length(answer_); }

  std::optional<int> level() const {
    for (std::size_t i = 0; i < trailing_.count; ++i) {
      if (view_of(trailing_.metadata[i].key) != "gradus-level") continue;
      const auto level = parse_number<int>(view_of(trailing_.metadata[i].value));
      return level ? std::optional(*level) : std::nullopt;
    }
    return std::nullopt;
  }

  // After a call is done, before the next.
  void clear() {
    grpc_metadata_array_destroy(&initial_);
    grpc_metadata_array_destroy(&trailing_);
    grpc_slice_unref(details_);
    grpc_byte_buffer_destroy(message_);
    grpc_byte_buffer_destroy(answer_);
    grpc_call_unref(call_);
  }

 private:
  Channel& channel_;
  grpc_completion_queue* const queue_;
  grpc_call* call_ = nullptr;
  grpc_metadata_array initial_{};
  grpc_metadata_array trailing_{};
  grpc_byte_buffer* message_ = nullptr;
  grpc_byte_buffer* answer_ = nullptr;
  grpc_status_code status_ = GRPC_STATUS_OK;
  grpc_slice details_{};
};

// What is wrong ends the process; nothing is cleaned up then.
class Load {
 public:
  explicit Load(const Plan& plan)
      : plan_(plan), queue_(grpc_completion_queue_create_for_next(nullptr)) {
    for (std::size_t i = 0; i < plan.connections; ++i) {
      if (i % kCallsOfConnection == 0) {
        channels_.push_back(std::make_unique<Channel>(plan.port));
      }
      callers_.push_back(std::make_unique<Caller>(*channels_.back(), queue_));
    }
  }

  Result<void> run() {
    if (auto there = check_server(plan_); !there) return there;
    Measurement measured(plan_, clock_.now());
    for (const auto& caller : callers_) {
      if (auto sent = send(*caller); !sent) return sent;
    }
    for (std::size_t under_way = callers_.size(); under_way > 0;) {
      const grpc_event event =
          grpc_completion_queue_next(queue_,
                                     gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                                  gpr_time_from_millis(kPatienceMs, GPR_TIMESPAN)),
                                     nullptr);
      if (event.type != GRPC_OP_COMPLETE) return fail(Code::kDeadline, "no answer for 30 s");
      Caller& caller = *static_cast<Caller*>(event.tag);
      const TimePoint now = clock_.now();
      if (auto right = caller.check(caller.compare_it ? &plan_.outputs[caller.request] : nullptr);
          !right) {
        return right;
      }
      body_bytes_ = caller.body_bytes();
      const bool go_on = measured.count(now, caller.sent_at, caller.level());
      caller.clear();
      if (!go_on) {
        --under_way;
      } else if (auto sent = send(caller); !sent) {
        return sent;
      }
    }
    measured.print(body_bytes_, sent_);
    return {};
  }

 private:
  Result<void> send(Caller& caller) {
    caller.compare_it =
        !plan_.outputs.empty() && sent_ < std::max(plan_.connections, plan_.requests.size());
    caller.request = sent_++ % plan_.requests.size();
    caller.sent_at = clock_.now();
    if (caller.send(plan_.requests[caller.request])) return {};
    return fail(Code::kInternal, "gRPC refused to begin a call");
  }

  const Plan& plan_;
  const Clock& clock_ = steady_clock();
  grpc_completion_queue* const queue_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::size_t sent_ = 0;
  std::size_t body_bytes_ = 0;  // of the last answer
};

Result<void> load(const Plan& plan) {
  grpc_init();
  return Load(plan).run();
}

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
  // As the server does: large buffers are used again, and Abseil does not check the order of locks.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return gradus::bench::run_plan("grpc_client", {argv + 1, argv + argc}, gradus::bench::load);
}
