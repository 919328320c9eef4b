// KServe v2 over HTTP: from a request's path and headers to a call of the engine, and from its
// answer to status, headers and body. Bodies are the codec's business, connections the server's.
#pragma once
#include <cstdint>
#include <string>

#include "api/codec/infer_request.h"
#include "api/http/admin.h"
#include "api/http/http_message.h"
#include "api/http/v2_path.h"
#include "config/server_config.h"
#include "serving/engine.h"
#include "serving/run_lane.h"

namespace gradus::api {

class V2Routes final : public Handler {
 public:
  /// @param engine borrowed; its `Done` may outlive this object
  /// @param version what GET /v2 shows
  /// @param admin who may send commands to ladders
  V2Routes(serving::Engine& engine, const config::HttpConfig& config, std::string version,
           Admin admin = {});

  /// A JSON part of announced length is followed by tensors: these are what is aligned.
  std::size_t body_offset(const HttpRequest& request) const override;
  void handle(const HttpRequest& request, Reply reply) override;

  struct InferHeaders;  // of the .cc file

 private:
  HttpResponse get(const Route& route) const;
  HttpResponse command(const Route& route, const HttpRequest& request);
  void infer(const Route& route, const HttpRequest& request, Reply reply);
  void refuse(const Route& route, Code code, HttpResponse response, const Reply& reply);
  void refuse(const Route& route, const Error& error, const Reply& reply);
  void decode_and_infer(const Route& route, const InferHeaders& headers, Body body, Reply reply);

  serving::Engine& engine_;
  const std::size_t max_input_size_;
  const std::size_t max_json_depth_;
  const std::string version_;
  const Admin admin_;
  serving::RunLane decoders_;  // last: its jobs use the rest
};

}  // namespace gradus::api
