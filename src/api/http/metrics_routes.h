// `GET /metrics` over HTTP, for Prometheus; on a listener of its own, so that it can have an
// address that clients cannot reach.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "api/http/http_message.h"
#include "metrics/exposition.h"
#include "serving/engine.h"

namespace gradus::api {

class MetricsRoutes final : public Handler {
 public:
  using Receivers = std::function<std::vector<metrics::ReceiverView>()>;

  /// @param engine borrowed
  /// @param receivers of alerts, as of now; any thread
  MetricsRoutes(const serving::Engine& engine, Receivers receivers)
      : engine_(engine), receivers_(std::move(receivers)) {}

  /// Takes milliseconds: not for the threads that serve models.
  void handle(const HttpRequest& request, Reply reply) override;

 private:
  const serving::Engine& engine_;
  const Receivers receivers_;
};

}  // namespace gradus::api
