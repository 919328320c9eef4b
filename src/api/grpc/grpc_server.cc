#include "api/grpc/grpc_server.h"

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "api/grpc/call.h"
#include "api/grpc/call_queue.h"
#include "api/grpc/connection_gate.h"
#include "api/grpc/control_calls.h"
#include "api/grpc/health.h"
#include "api/grpc/infer_calls.h"
#include "api/grpc/reflection.h"
#include "api/grpc/small_calls.h"
#include "api/grpc/status.h"
#include "base/cpu_count.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/open_files.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using grpc::ByteBuffer;

// How old what the health service says may be.
constexpr Duration kHealthEvery = 50ms;

constexpr int kCpusOfThread = 4;  // for each of which one thread reads and writes

std::string_view view_of(const grpc::Slice& bytes) {
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

// The message as one piece. It fails for want of memory only.
grpc::Slice whole(const ByteBuffer& message) {
  grpc::Slice bytes;
  if (!message.DumpToSingleSlice(&bytes).ok()) throw std::bad_alloc();
  return bytes;
}

void finish(Call& call, const Result<std::string>& answer) {
  if (!answer) {
    return call.finish(grpc::Status(static_cast<grpc::StatusCode>(grpc_status(answer.error().code)),
                                    status_text(answer.error())));
  }
  const grpc::Slice slice(*answer);
  call.finish(ByteBuffer(&slice, 1));
}

// What a call's metadata say; the views lie in `call`, and in `address`.
Caller caller_of(const grpc::ServerContext& call, std::string& address) {
  address = address_of_peer(call.peer());
  Caller caller{.peer = address};
  const auto& metadata = call.client_metadata();
  if (const auto given = metadata.find("authorization"); metadata.count("authorization") == 1) {
    caller.authorization = {given->second.data(), given->second.size()};
  }
  for (const char* const name : {"origin", "forwarded", "x-forwarded-for"}) {
    caller.passed_on = caller.passed_on || metadata.count(name) > 0;
  }
  return caller;
}

void answer_small(const SmallCall& small, const serving::Engine& engine,
                  const std::shared_ptr<Call>& call) {
  read_request(call, [&small, &engine, call](const ByteBuffer& request) {
    finish(*call, small.answer(view_of(whole(request)), engine));
  });
}

// Whoever cancels the call is told so at once, and what he began goes on.
void answer_slowly(const SlowCall& slow, serving::Engine& engine,
                   const std::shared_ptr<Call>& call) {
  read_request(call, [&slow, &engine, call](const ByteBuffer& request) {
    call->when_cancelled([call] { call->finish(grpc::Status::CANCELLED); });
    slow.start(view_of(whole(request)), engine,
               [call](const Result<std::string>& answer) { finish(*call, answer); });
  });
}

void answer_control(const ControlCall& control, const InferContext& context,
                    const std::string& version, const std::shared_ptr<Call>& call) {
  read_request(call, [&control, &context, &version, call](const ByteBuffer& request) {
    std::string address;
    ControlAnswer given = control.answer(view_of(whole(request)), *context.control, context.engine,
                                         version, caller_of(call->context(), address));
    if (given.status == 0) return finish(*call, given.text);
    call->finish(grpc::Status(static_cast<grpc::StatusCode>(given.status), std::move(given.text)));
  });
}

// All that is answered, by the path of its method.
using Calls = std::unordered_map<std::string, CallQueue::Handler>;

Calls calls(InferContext& context, const std::string& version, Health& health) {
  Calls all{
      {"/grpc.health.v1.Health/Check", [&](const auto& call) { health.check(call); }},
      {"/grpc.health.v1.Health/Watch", [&](const auto& call) { health.watch(call); }},
      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", start_reflection},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", start_reflection},
  };
  const auto add = [&](const std::string& method, CallQueue::Handler answer) {
    all.emplace("/inference.GRPCInferenceService/" + method, std::move(answer));
  };
  for (const SmallCall& small : small_calls()) {
    add(small.method, [&](const auto& call) { answer_small(small, context.engine, call); });
  }
  for (const SlowCall& slow : slow_calls()) {
    add(slow.method, [&](const auto& call) { answer_slowly(slow, context.engine, call); });
  }
  for (const ControlCall& control : control_calls()) {
    add(control.method, [&](const auto& call) { answer_control(control, context, version, call); });
  }
  add("ModelInfer", [&](const auto& call) { start_infer(context, call); });
  add("ModelStreamInfer", [&](const auto& call) { start_infer_stream(context, call); });
  return all;
}

// gRPC says why it cannot listen, or what a peer did wrong, only here.
void log_of_grpc(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    log::warning(std::string("grpc: ") + args->message);
  } else {
    log::debug(std::string("grpc: ") + args->message);
  }
}

// Who connects and says nothing takes up no room for long, as over HTTP; gRPC would wait for two
// minutes.
void set_patience(const config::GrpcConfig& config, grpc::ServerBuilder& builder) {
  const auto set = [&builder](const char* name, std::int64_t value) {
    builder.AddChannelArgument(name, static_cast<int>(value));
  };
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, config.keepalive_time.count());
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, config.keepalive_timeout.count());
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, config.keepalive_permit_without_calls ? 1 : 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      config.http2_min_recv_ping_interval_without_data.count());
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, config.http2_max_ping_strikes);
  const std::int64_t age = config.max_connection_age.count();
  if (age > 0) set(GRPC_ARG_MAX_CONNECTION_AGE_MS, age);
  const std::int64_t grace = config.max_connection_age_grace.count();
  if (grace > 0) set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, grace);
}

// An IPv6 address stands in brackets (RFC 3986, 3.2.2).
std::string endpoint(const config::GrpcConfig& config) {
  const bool v6 = config.address.find(':') != std::string::npos;
  return (v6 ? "[" + config.address + "]" : config.address) + ":" + std::to_string(config.port);
}

}  // namespace

class GrpcServer::Running {
 public:
  Running(serving::Engine& engine, const Clock& clock, worker::SharedPool& pool,
          const std::string& version, std::shared_ptr<Control> control, std::uint64_t most_shared)
      : context_{engine, clock, pool, std::move(control), most_shared},
        calls_(calls(context_, version, health_)),
        gate_(
            room_for_grpc(), [this](int listener, int connection) { admit(listener, connection); },
            clock) {}

  ~Running() { stop(Duration::zero()); }

  Result<std::uint16_t> start(const config::GrpcConfig& config) {
    gpr_set_log_function(log_of_grpc);
    // Debian builds Abseil with its check of the order of locks, which costs gRPC a tenth of its
    // instructions.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    google::protobuf::SetLogHandler(nullptr);  // it tells of each faulty message; so do we
    grpc::ServerBuilder builder;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_input_size));
    builder.SetMaxSendMessageSize(std::numeric_limits<int>::max());
    set_patience(config, builder);
    queue_ =
        std::make_unique<CallQueue>(builder, config.max_input_size,
                                    [this](const std::shared_ptr<Call>& call) { answer(call); });
    const auto port = gate_.listen(config.address, config.port);
    if (!port) {
      return fail(Code::kUnavailable,
                  "grpc: " + endpoint(config) + ": cannot listen there: " + port.error().message);
    }
    server_ = builder.BuildAndStart();
    if (!server_) return fail(Code::kUnavailable, "grpc: " + endpoint(config) + ": cannot start");
    queue_->start(std::max(1, usable_cpus() / kCpusOfThread));
    health_.set(context_.engine.ready());
    follower_ = std::jthread([this] { follow_health(); });
    gate_.open();
    return *port;
  }

  void stop(Duration grace) {
    if (follower_.joinable()) {
      {
        const MutexLock lock(mutex_);
        stopping_ = true;
      }
      stop_.notify_all();
      follower_.join();
    }
    gate_.stop();
    health_.close();
    if (server_) server_->Shutdown(std::chrono::system_clock::time_point(wall_now()) + grace);
    if (queue_) queue_->stop();
    server_.reset();
    queue_.reset();
  }

  std::size_t under_way() const { return context_.under_way; }

 private:
  void admit(int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
    taken.listener_fd = listener;
    taken.fd = connection;
    connections_->HandleNewConnection(&taken);
  }

  void answer(const std::shared_ptr<Call>& call) const {
    const auto known = calls_.find(call->method());
    if (known != calls_.end()) return known->second(call);
    call->finish(
        grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no method '" + call->method() + "'"));
  }

  void follow_health() {
    bool told = context_.engine.ready();
    health_.set(told);
    const MutexLock lock(mutex_);
    while (!stopping_) {
      stop_.wait_for(mutex_, kHealthEvery);
      const bool ready = context_.engine.ready();
      if (ready != told) health_.set(ready);
      told = ready;
    }
  }

  InferContext context_;
  Health health_;
  const Calls calls_;
  std::unique_ptr<CallQueue> queue_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread follower_;
  ConnectionGate gate_;  // ends first
};

GrpcServer::GrpcServer(const config::GrpcConfig& config, serving::Engine& engine,
                       const Clock& clock, worker::SharedPool& pool, std::string version,
                       std::shared_ptr<Control> control)
    : config_(config),
      engine_(engine),
      clock_(clock),
      pool_(pool),
      version_(std::move(version)),
      control_(std::move(control)) {}

GrpcServer::~GrpcServer() = default;

Result<std::uint16_t> GrpcServer::start() {
  running_ =
      std::make_unique<Running>(engine_, clock_, pool_, version_, control_, config_.max_input_size);
  return running_->start(config_);
}

std::size_t GrpcServer::under_way() const { return running_ ? running_->under_way() : 0; }

void GrpcServer::stop(Duration grace) {
  if (running_) running_->stop(grace);
  running_ = nullptr;
}

}  // namespace gradus::api
