// `inference.GRPCInferenceService` on a port, with grpc.health.v1 and server reflection beside it.
// docs/protocol.md says what is answered, and with which codes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "api/control/control.h"
#include "base/clock.h"
#include "base/result.h"
#include "config/server_config.h"
#include "serving/engine.h"
#include "worker/shared_pool.h"

namespace gradus::api {

class GrpcServer {
 public:
  /// @param engine borrowed until stop() has returned
  /// @param clock borrowed; the engine's @param pool borrowed; where tensors come in
  /// @param version what ServerMetadata shows
  /// @param control what clients may set, and whether they may
  GrpcServer(const config::GrpcConfig& config, serving::Engine& engine, const Clock& clock,
             worker::SharedPool& pool, std::string version, std::shared_ptr<Control> control);
  ~GrpcServer();  // stop() with no time left
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  /// Binds, listens and serves. Once. Sets what is process-wide: gRPC's and protobuf's log
  /// handlers, Abseil's lock check (off).
  /// @return the port, the real one when 0 was asked for; kUnavailable: address or port can't be
  ///   had
  Result<std::uint16_t> start();

  /// Requests that are not answered yet. Any thread.
  std::size_t under_way() const;

  /// Takes no more calls, waits until those under way have ended or so much time has passed, then
  /// cancels them. One thread.
  void stop(Duration grace);

 private:
  class Running;

  const config::GrpcConfig config_;
  serving::Engine& engine_;
  const Clock& clock_;
  worker::SharedPool& pool_;
  const std::string version_;
  const std::shared_ptr<Control> control_;
  std::unique_ptr<Running> running_;  // null: not started, or stopped
};

}  // namespace gradus::api
