#include "api/grpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include <chrono>
#include <deque>
#include <limits>
#include <thread>
#include <utility>

#include "api/grpc/infer_calls.h"
#include "api/grpc/small_calls.h"
#include "api/grpc/status.h"
#include "base/log.h"
#include "base/mutex.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using grpc::ByteBuffer;
using UnaryHandler = grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>;
using StreamHandler = grpc::internal::CallbackBidiHandler<ByteBuffer, ByteBuffer>;

// How old what the health service says may be.
constexpr Duration kHealthEvery = 50ms;

constexpr char kService[] = "inference.GRPCInferenceService";

grpc::Status answer_small(const SmallCall& call, const serving::Engine& engine,
                          const std::string& version, const ByteBuffer& request,
                          ByteBuffer& answer) {
  grpc::Slice bytes;
  if (const auto read = request.DumpToSingleSlice(&bytes); !read.ok()) return read;
  const auto text =
      call.answer({reinterpret_cast<const char*>(bytes.begin()), bytes.size()}, engine, version);
  if (!text) {
    return {static_cast<grpc::StatusCode>(grpc_status(text.error().code)),
            status_text(text.error())};
  }
  const grpc::Slice slice(*text);
  ByteBuffer(&slice, 1).Swap(&answer);
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext& call, grpc::Status status) {
  auto* const reactor = call.DefaultReactor();
  reactor->Finish(std::move(status));
  return reactor;
}

// The table of calls as gRPC takes it: bytes in, bytes out, so that answers are sent from where
// their tensors lie. Generated services do the same in their raw form.
class Service final : public grpc::Service {
 public:
  Service(InferContext& context, const std::string& version) {
    for (const SmallCall& small : small_calls()) {
      add(small.method, [&context, &version, small](grpc::CallbackServerContext* call,
                                                    const ByteBuffer* request, ByteBuffer* answer) {
        return finish(*call, answer_small(small, context.engine, version, *request, *answer));
      });
    }
    for (const UnansweredCall& unanswered : unanswered_calls()) {
      add(unanswered.method,
          [unanswered](grpc::CallbackServerContext* call, const ByteBuffer*, ByteBuffer*) {
            return finish(*call, {grpc::StatusCode::UNIMPLEMENTED, unanswered.advice});
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

// Triton's defaults.
void set_keepalive(grpc::ServerBuilder& builder) {
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
  Running(serving::Engine& engine, const Clock& clock, const std::string& version)
      : context_{engine, clock}, service_(context_, version) {}

  ~Running() { stop(Duration::zero()); }

  Result<std::uint16_t> start(const config::GrpcConfig& config) {
    gpr_set_log_function(log_of_grpc);
    google::protobuf::SetLogHandler(nullptr);  // it tells of each faulty message; so do we
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(endpoint(config), grpc::InsecureServerCredentials(), &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else two servers share a port
    builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_input_size));
    builder.SetMaxSendMessageSize(std::numeric_limits<int>::max());
    set_keepalive(builder);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      return fail(Code::kUnavailable, "grpc: " + endpoint(config) + ": cannot listen there");
    }
    tell_health(context_.engine.ready());
    health_ = std::jthread([this] { follow_health(); });
    return static_cast<std::uint16_t>(port);
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
    if (server_) server_->Shutdown(std::chrono::system_clock::time_point(wall_now()) + grace);
    server_.reset();
  }

  std::size_t under_way() const { return context_.under_way; }

 private:
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
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread health_;
};

GrpcServer::GrpcServer(const config::GrpcConfig& config, serving::Engine& engine,
                       const Clock& clock, std::string version)
    : config_(config), engine_(engine), clock_(clock), version_(std::move(version)) {}

GrpcServer::~GrpcServer() = default;

Result<std::uint16_t> GrpcServer::start() {
  running_ = std::make_unique<Running>(engine_, clock_, version_);
  return running_->start(config_);
}

std::size_t GrpcServer::under_way() const { return running_ ? running_->under_way() : 0; }

void GrpcServer::stop(Duration grace) {
  if (running_) running_->stop(grace);
  running_ = nullptr;
}

}  // namespace gradus::api
