// The engine as transports see it: models by name, their state, and inference down the ladder.
// All calls may come from any thread; only `infer` is on the request path. None waits for a load.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/model_config.h"
#include "config/server_config.h"
#include "metrics/exposition.h"
#include "runtime/backend.h"
#include "serving/manage.h"
#include "serving/operator.h"
#include "serving/request.h"

namespace gradus::serving {

struct ModelInfo {
  std::string name;
  std::vector<std::string> versions;
  std::string version;           // the one asked for
  runtime::Signature signature;  // of the best level that is loaded
  bool batched = false;          // the first dimension of inputs and outputs is the batch's
  std::map<std::string, std::vector<std::string>> labels;  // output -> names of its indices
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// False from the moment a drain starts.
  virtual bool live() const = 0;
  /// Every model that can be served can answer, and no drain has begun. (Broken models do not
  /// count: they never stop the others.)
  virtual bool ready() const = 0;

  /// Of all models of the repositories, also of those that cannot be served; sorted.
  virtual std::vector<std::string> model_names() const = 0;
  /// kNotFound: no such model or version. kUnavailable: it has no level that can answer (the
  /// reason).
  virtual Result<void> model_ready(std::string_view model, std::string_view version) const = 0;
  virtual Result<ModelInfo> model_info(std::string_view model, std::string_view version) const = 0;
  /// The ladder's status as JSON (docs/ladder.md).
  virtual Result<std::string> ladder_json(std::string_view model,
                                          std::string_view version) const = 0;
  /// Does what an operator says, and logs it; returns the ladder's status afterwards. kInvalid: no
  /// such level. kUnavailable: it cannot be done now, and why.
  virtual Result<std::string> command(std::string_view model, std::string_view version,
                                      const LadderCommand& command) = 0;
  /// The worker processes' status as JSON (docs/ladder.md).
  virtual std::string workers_json() const = 0;
  /// What Prometheus reads (docs/metrics.md).
  /// @param receivers of alerts, which the engine itself does not know
  virtual std::string metrics_text(std::vector<metrics::ReceiverView> receivers) const = 0;

  /// Every version of every model of the repositories, sorted; what cannot be served says why.
  virtual std::vector<IndexEntry> index() const = 0;
  /// Returns at once. A version that serves already goes on until the new one is ready, and longer
  /// if that fails.
  virtual void load(LoadModel what, Managed done) = 0;
  /// The model takes no request from now on; `done` is called then, and what is under way is
  /// answered.
  virtual void unload(const std::string& model, Managed done) = 0;
  /// Triton's ModelConfig of the model as it is served, as JSON.
  virtual Result<std::string> config_json(std::string_view model,
                                          std::string_view version) const = 0;
  /// @param model "": all that are served
  /// @param version "": all that the model has
  virtual Result<std::vector<ModelStatistics>> statistics(std::string_view model,
                                                          std::string_view version) const = 0;

  /// Counts a request that its transport refused before `infer`, so that metrics miss none.
  virtual void refused(std::string_view model, std::string_view version, Code code) = 0;

  /// Checks the request against the model, then answers from the best level that can, or fails:
  /// kInvalid, kNotFound, kOverloaded (queue full, or no level makes the deadline), kDeadline,
  /// kCancelled, kUnavailable, kInternal (a suspect). Does not block; but a model that is known to
  /// take next to nothing may be run before this returns.
  /// @return expired if it was answered already
  virtual Ticket infer(Request request, Done done) = 0;
};

}  // namespace gradus::serving
