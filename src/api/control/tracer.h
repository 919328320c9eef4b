// Traces of single requests: when each came, waited, ran and was answered, one of `rate` of them,
// in the form of Triton's trace files (docs/user_guide/trace.md there). Off, it costs one relaxed
// load.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/control/send_times.h"
#include "api/control/trace_settings.h"
#include "api/control/trace_writer.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "serving/request.h"

namespace gradus::api {

/// One request that is traced. It is written when its last holder lets it go. One thread at a time.
class Trace {
 public:
  Trace(std::uint64_t id, std::string model, std::string path, std::uint32_t log_frequency,
        std::shared_ptr<TraceWriter> writer);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// @param name static storage: `HTTP_RECV_START`
  void stamp(const char* name, TimePoint at) { stamps_.emplace_back(name, at); }
  /// What the client said of its request, "" for what it did not.
  void about(std::string_view version, std::string_view id);
  /// What the engine came to, and the times that it knows.
  /// @param at now
  void answered(const Result<serving::Response>& result, TimePoint at);
  /// The client gets an error.
  void failed(const Error& error) { error_ = error.message; }
  /// As failed(), before the engine had it.
  void refused(const Error& error, TimePoint at);

  /// For who writes the answer. It holds the trace, which nobody else may touch from then on.
  /// @param begun, ended names of the times, static storage: `HTTP_SEND_START`
  static std::shared_ptr<SendTimes> send_times(const std::shared_ptr<Trace>& trace,
                                               const char* begun, const char* ended);

 private:
  std::string entries() const;

  const std::uint64_t id_;
  std::string model_;
  std::string version_;
  std::string request_id_;
  std::string error_;     // "": none
  std::string answerer_;  // members that say what answered; "": nothing did
  std::vector<std::pair<const char*, TimePoint>> stamps_;
  SendTimes sent_;
  std::pair<const char*, const char*> sent_names_{};
  const std::string path_;
  const std::uint32_t log_frequency_;
  const std::shared_ptr<TraceWriter> writer_;
};

class Tracer {
 public:
  using Shown = std::vector<std::pair<std::string, std::vector<std::string>>>;

  /// Off for good: there is no file.
  Tracer() = default;
  /// Off until start(); leaves a file that is there as it is.
  /// @return kInvalid: the file cannot be made, or none is named where there should be traces
  static Result<std::unique_ptr<Tracer>> make(const config::TraceConfig& config);

  /// Makes the file anew, if one is named; from then on requests are traced. Once; any thread.
  /// @return kInvalid: it cannot be made
  Result<void> start();

  /// Null: the request is not traced, which is so of all while nothing is switched on. Any thread.
  std::shared_ptr<Trace> sample(std::string_view model) {
    return on_.load(std::memory_order_relaxed) ? sample_one(model) : nullptr;
  }

  /// @param model "": the server's; of a model what holds for it, its own or the server's.
  ///   `trace_count` is what is left
  Shown settings(const std::string& model) const;
  /// Changes all that are given or none. A model that is told something goes its own way from then
  /// on, until all of it is taken back.
  Result<void> change(const std::string& model, const TraceValues& values);

  /// Waits until what was sampled and let go of is written, or the time is over.
  void flush(Duration limit);

 private:
  // The server's (of the empty name) and those of models that have some.
  struct Scope {
    OwnTraceSettings own;
    std::string path;        // of its own file; "": the one below it
    std::uint64_t seen = 0;  // requests, since rate or count were set
    std::int64_t taken = 0;  // of them
  };

  std::shared_ptr<Trace> sample_one(std::string_view model);
  const Scope& scope_of(std::string_view model) const REQUIRES(mutex_);
  TraceSettings effective(const Scope& scope) const REQUIRES(mutex_);
  bool anything_on() const REQUIRES(mutex_);

  std::shared_ptr<TraceWriter> writer() const;

  std::atomic<bool> on_{false};
  mutable Mutex mutex_;
  TraceSettings start_ GUARDED_BY(mutex_);
  std::shared_ptr<TraceWriter> writer_ GUARDED_BY(mutex_);  // null: no file
  Scope server_ GUARDED_BY(mutex_);
  std::map<std::string, Scope, std::less<>> models_ GUARDED_BY(mutex_);
  std::uint64_t last_id_ GUARDED_BY(mutex_) = 0;
};

}  // namespace gradus::api
