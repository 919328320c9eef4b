// `POST …/infer`: from a request's headers and body to the engine, and from its answer to status,
// headers and body. The bodies' form is the codec's business.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "api/codec/infer_request.h"
#include "api/control/control.h"
#include "api/http/http_message.h"
#include "api/http/path_table.h"
#include "config/server_config.h"
#include "serving/engine.h"
#include "serving/run_lane.h"

namespace gradus::api {

class InferRoutes {
 public:
  /// @param engine borrowed, as `decoders`; its `Done` may outlive this object
  /// @param decoders decode what takes milliseconds
  InferRoutes(serving::Engine& engine, const config::HttpConfig& config, serving::RunLane& decoders,
              std::shared_ptr<Control> control);

  /// Hold this object.
  std::vector<Path> paths();

  /// A JSON part of announced length is followed by tensors: these are what is aligned.
  std::size_t body_offset(const HttpRequest& request) const;

  struct InferHeaders;  // of the .cc file

 private:
  void infer(const PathNames& names, const HttpRequest& request, Reply reply);
  /// @param status in place of the error's
  void refuse(const PathNames& names, const Error& error, const Reply& reply,
              const std::shared_ptr<Trace>& trace, std::optional<int> status = {});
  void decode_and_infer(const PathNames& names, const InferHeaders& headers, Body body,
                        Reply reply);

  serving::Engine& engine_;
  const std::size_t max_input_size_;
  const DecodeLimits limits_;
  serving::RunLane& decoders_;
  const std::shared_ptr<Control> control_;
};

}  // namespace gradus::api
