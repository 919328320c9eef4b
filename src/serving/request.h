// A request and its answer as the engine sees them, whatever the transport.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/tier.h"
#include "tensor/tensor.h"

namespace gradus::serving {

struct Request {
  std::string model;
  std::string version;               // "": the newest
  std::string id;                    // "": the client gave none
  std::vector<NamedView> inputs;     // views into what `storage` owns
  std::vector<std::string> outputs;  // names, in the order wanted; empty: all
  std::shared_ptr<const void> storage;
  TimePoint arrival{};
  std::optional<Duration> timeout;                  // the parameter, from arrival; > 0
  std::optional<Duration> client_timeout;           // from arrival, of the call or a header; > 0
  std::optional<config::Tier> tier;                 // nothing: as `priority` says
  std::uint64_t priority = 0;                       // Triton's; 0: the default
  int min_level = 0;                                // the best level that may answer
  int max_level = std::numeric_limits<int>::max();  // the worst level that may answer
};

/// Which level made an answer, and how long that took.
struct Origin {
  int level = 0;
  std::string level_name;
  std::string variant;  // the level's file
  bool degraded = false;
  Duration queue{};      // waiting for a run, all attempts
  Duration run{};        // in the runtime, the attempt that answered
  Duration latency{};    // from arrival to the answer
  TimePoint queued{};    // when the attempt that answered began to wait
  TimePoint begun{};     // and to run
  Duration joining{};    // of `run`: before the runtime had it …
  Duration splitting{};  // … and after
};

struct Response {
  std::string model;
  std::string version;
  std::string id;
  std::vector<NamedTensor> outputs;
  Origin origin;
};

/// A request under way, as whoever asked holds it.
class Cancellable {
 public:
  virtual ~Cancellable() = default;
  /// Nobody waits for the answer any more: what waits is not run, what runs is ended where that can
  /// be. Any thread; after the answer nothing. `Done` is called with kCancelled before it returns.
  virtual void cancel() = 0;
};
using Ticket = std::weak_ptr<Cancellable>;  // expired: it is answered

/// Called exactly once, from any thread, never under a lock of the engine.
using Done = std::function<void(Result<Response>)>;

}  // namespace gradus::serving
