#include "api/grpc/grpc_server.h"

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "api/grpc/connection_gate.h"
#include "api/grpc/control_calls.h"
#include "api/grpc/infer_calls.h"
#include "api/grpc/small_calls.h"
#include "api/grpc/status.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/open_files.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using grpc::ByteBuffer;
using UnaryHandler = grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>;
using StreamHandler = grpc::internal::CallbackBidiHandler<ByteBuffer, ByteBuffer>;

// How old what the health service says may be.
constexpr Duration kHealthEvery = 50ms;

constexpr char kService[] = "inference.GRPCInferenceService";

std::string_view view_of(const grpc::Slice& bytes) {
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

// Fills `answer`, or says why not.
grpc::Status take(const Result<std::string>& text, ByteBuffer& answer) {
  if (!text) {
    return {static_cast<grpc::StatusCode>(grpc_status(text.error().code)),
            status_text(text.error())};
  }
  const grpc::Slice slice(*text);
  ByteBuffer(&slice, 1).Swap(&answer);
  return grpc::Status::OK;
}

grpc::Status answer_small(const SmallCall& call, const serving::Engine& engine,
                          const ByteBuffer& request, ByteBuffer& answer) {
  grpc::Slice bytes;
  if (const auto read = request.DumpToSingleSlice(&bytes); !read.ok()) return read;
  return take(call.answer(view_of(bytes), engine), answer);
}

// What a call's metadata say; the views lie in `call`, and in `address`.
Caller caller_of(const grpc::CallbackServerContext& call, std::string& address) {
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

grpc::Status answer_control(const ControlCall& call, InferContext& context,
                            const std::string& version, const grpc::CallbackServerContext& about,
                            const ByteBuffer& request, ByteBuffer& answer) {
  grpc::Slice bytes;
  if (const auto read = request.DumpToSingleSlice(&bytes); !read.ok()) return read;
  std::string address;
  ControlAnswer given = call.answer(view_of(bytes), *context.control, context.engine, version,
                                    caller_of(about, address));
  if (given.status == 0) return take(std::move(given.text), answer);
  return {static_cast<grpc::StatusCode>(given.status), std::move(given.text)};
}

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext& call, grpc::Status status) {
  auto* const reactor = call.DefaultReactor();
  reactor->Finish(std::move(status));
  return reactor;
}

// A call that is answered when the engine is done. Whoever cancels it is told so at once, and what
// he began goes on.
class SlowReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit SlowReactor(ByteBuffer& answer) : answer_(answer) {}

  void start(const SlowCall& call, serving::Engine& engine, const ByteBuffer& request) {
    grpc::Slice bytes;
    if (const auto read = request.DumpToSingleSlice(&bytes); !read.ok()) return end(read);
    // This object may end before the engine is done.
    call.start(view_of(bytes), engine, [this, over = over_](const Result<std::string>& text) {
      if (!over->exchange(true)) Finish(take(text, answer_));
    });
  }

  void OnCancel() override { end(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  void end(grpc::Status status) {
    if (!over_->exchange(true)) Finish(std::move(status));
  }

  ByteBuffer& answer_;
  const std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
};

// The table of calls as gRPC takes it: bytes in, bytes out, so that answers are sent from where
// their tensors lie. Generated services do the same in their raw form.
class Service final : public grpc::Service {
 public:
  Service(InferContext& context, const std::string& version) {
    for (const SmallCall& small : small_calls()) {
      add(small.method, [&context, small](grpc::CallbackServerContext* call,
                                          const ByteBuffer* request, ByteBuffer* answer) {
        return finish(*call, answer_small(small, context.engine, *request, *answer));
      });
    }
    for (const SlowCall& slow : slow_calls()) {
      add(slow.method, [&context, slow](grpc::CallbackServerContext*, const ByteBuffer* request,
                                        ByteBuffer* answer) {
        auto* const reactor = new SlowReactor(*answer);
        reactor->start(slow, context.engine, *request);
        return reactor;
      });
    }
    for (const ControlCall& control : control_calls()) {
      add(control.method, [&context, &version, control](grpc::CallbackServerContext* call,
                                                        const ByteBuffer* request,
                                                        ByteBuffer* answer) {
        return finish(*call, answer_control(control, context, version, *call, *request, *answer));
      });
    }
    add("ModelInfer", [&context](grpc::CallbackServerContext* call, const ByteBuffer* request,
                                 ByteBuffer* answer) {
      // The buffer is this call's own, and of no use to gRPC once it is read.
      return start_infer(context, *call, const_cast<ByteBuffer&>(*request), *answer);  // NOLINT
    });
    add("ModelStreamInfer", grpc::internal::RpcMethod::BIDI_STREAMING,
        new StreamHandler([&context](grpc::CallbackServerContext* call) {
          return start_infer_stream(context, *call);
        }));
  }

 private:
  template <class Answer>
  void add(const char* method, Answer answer) {
    add(method, grpc::internal::RpcMethod::NORMAL_RPC, new UnaryHandler(std::move(answer)));
  }

  void add(const char* method, grpc::internal::RpcMethod::RpcType type,
           grpc::internal::MethodHandler* handler) {
    const std::string& path = paths_.emplace_back("/" + std::string(kService) + "/" + method);
    AddMethod(new grpc::internal::RpcServiceMethod(path.c_str(), type, nullptr));
    MarkMethodRawCallback(static_cast<int>(paths_.size()) - 1, handler);
  }

  std::deque<std::string> paths_;  // gRPC keeps pointers to them
};

// gRPC says why it cannot listen, or what a peer did wrong, only here.
void log_of_grpc(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    log::warning(std::string("grpc: ") + args->message);
  } else {
    log::debug(std::string("grpc: ") + args->message);
  }
}

// Keepalive has Triton's defaults. Who connects and says nothing takes up no room for long, as over
// HTTP; gRPC would wait for two minutes.
void set_patience(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 7'200'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 300'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
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
        service_(context_, version),
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
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_input_size));
    builder.SetMaxSendMessageSize(std::numeric_limits<int>::max());
    set_patience(builder);
    builder.RegisterService(&service_);
    const auto port = gate_.listen(config.address, config.port);
    if (!port) {
      return fail(Code::kUnavailable,
                  "grpc: " + endpoint(config) + ": cannot listen there: " + port.error().message);
    }
    server_ = builder.BuildAndStart();
    if (!server_) return fail(Code::kUnavailable, "grpc: " + endpoint(config) + ": cannot start");
    tell_health(context_.engine.ready());
    health_ = std::jthread([this] { follow_health(); });
    gate_.open();
    return *port;
  }

  void stop(Duration grace) {
    if (health_.joinable()) {
      {
        const MutexLock lock(mutex_);
        stopping_ = true;
      }
      stop_.notify_all();
      health_.join();
    }
    gate_.stop();
    if (server_) server_->Shutdown(std::chrono::system_clock::time_point(wall_now()) + grace);
    server_.reset();
  }

  std::size_t under_way() const { return context_.under_way; }

 private:
  void admit(int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
    taken.listener_fd = listener;
    taken.fd = connection;
    connections_->HandleNewConnection(&taken);
  }

  void tell_health(bool ready) {
    auto* const health = server_->GetHealthCheckService();
    health->SetServingStatus(ready);
    health->SetServingStatus(kService, ready);
  }

  void follow_health() {
    bool told = context_.engine.ready();
    tell_health(told);
    const MutexLock lock(mutex_);
    while (!stopping_) {
      stop_.wait_for(mutex_, kHealthEvery);
      const bool ready = context_.engine.ready();
      if (ready != told) tell_health(ready);
      told = ready;
    }
  }

  InferContext context_;
  Service service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread health_;
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
