// KServe v2 over HTTP: every path that is served, each put to its answer (path_table.h). Here are
// those that only ask: health, metadata, ladders. Bodies are the codec's business, connections the
// server's.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "api/control/control.h"
#include "api/http/admin.h"
#include "api/http/http_message.h"
#include "api/http/infer_routes.h"
#include "api/http/path_table.h"
#include "config/server_config.h"
#include "serving/engine.h"
#include "serving/run_lane.h"

namespace gradus::api {

class V2Routes final : public Handler {
 public:
  /// @param engine borrowed; its `Done` may outlive this object
  /// @param version what GET /v2 shows
  /// @param admin who may send commands to ladders, and change the log and traces
  /// @param control what clients may set
  V2Routes(serving::Engine& engine, const config::HttpConfig& config, std::string version,
           Admin admin = {}, std::shared_ptr<Control> control = std::make_shared<Control>());

  std::size_t body_offset(const HttpRequest& request) const override;
  void handle(const HttpRequest& request, Reply reply) override;

 private:
  std::vector<Path> questions();
  HttpResponse command(const PathNames& names, const HttpRequest& request);

  serving::Engine& engine_;
  const std::string version_;
  const Admin admin_;
  const std::shared_ptr<Control> control_;
  InferRoutes infer_;
  PathTable table_;
  serving::RunLane decoders_;  // last: its jobs use the rest
};

}  // namespace gradus::api
