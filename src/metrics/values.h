// What the request path counts: of each level, of each model, of the server. Each call is a few
// relaxed additions; any thread.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "metrics/batch_counts.h"
#include "metrics/histogram.h"

namespace gradus::metrics {

/// Every code, each at its own number.
inline constexpr std::array kCodes = {Code::kInvalid,  Code::kNotFound,  Code::kOverloaded,
                                      Code::kDeadline, Code::kCancelled, Code::kUnavailable,
                                      Code::kInternal, Code::kWorkerLost};
static_assert([] {
  for (std::size_t i = 0; i < kCodes.size(); ++i) {
    if (static_cast<std::size_t>(kCodes[i]) != i) return false;
  }
  return true;
}());

/// As metrics class failures: invalid, not_found, …
const char* to_string(Code code);

/// How many ended without an answer, by why.
class FailureCounts {
 public:
  void add(Code code) { counts_[static_cast<std::size_t>(code)].add(); }
  std::uint64_t of(Code code) const { return counts_[static_cast<std::size_t>(code)].value(); }

 private:
  std::array<Counter, kCodes.size()> counts_;
};

/// Where a request was when it was given up.
enum class Phase : std::uint8_t { kQueued, kRunning };

inline constexpr std::array kPhases = {Phase::kQueued, Phase::kRunning};

const char* to_string(Phase phase);  // queued, running

/// Of one level. What is counted of requests says "a request", of joined runs "a run".
struct LevelMetrics {
  /// @param max_batch_size the most samples in a run
  explicit LevelMetrics(std::uint32_t max_batch_size = 1) : batches(max_batch_size) {}

  /// A request got its answer from this level.
  /// @param waited for a run, all attempts; @param ran the run that answered; @param took from
  ///   arrival to the answer
  /// @param joining, @param splitting of the time that it ran
  void answered(Duration waited, Duration ran, Duration took, Duration joining = {},
                Duration splitting = {}) {
    queue.add(waited);
    run.add(ran);
    latency.add(took);
    joining_ns.add(static_cast<std::uint64_t>(joining.count()));
    splitting_ns.add(static_cast<std::uint64_t>(splitting.count()));
  }
  /// A run ended with outputs, whether anybody still waits for them or not.
  void executed(std::uint32_t of_samples, const RunTimes& times) {
    runs.add();
    samples.add(of_samples);
    busy_ns.add(static_cast<std::uint64_t>((times.input + times.infer + times.output).count()));
    batches.add(of_samples, times);
  }
  /// A run ended without outputs, by no fault of its requests.
  void run_failed(Code code, Duration ran) {
    failed_runs.add(code);
    busy_ns.add(static_cast<std::uint64_t>(ran.count()));
  }
  /// A request's deadline passed while it waited for this level or ran on it.
  void deadline_missed(Phase phase) { deadlines[static_cast<std::size_t>(phase)].add(); }
  /// The same, of a client that went away.
  void cancelled(Phase phase) { cancels[static_cast<std::size_t>(phase)].add(); }
  /// This level was started beside another one, so that a deadline is met …
  void hedged() { hedges.add(); }
  /// … and its answer was the first.
  void hedge_won() { hedges_won.add(); }

  Histogram queue;
  Histogram run;
  Histogram latency;
  Counter joining_ns;    // of what `run` has
  Counter splitting_ns;  // the same
  BatchCounts batches;
  Counter runs;
  Counter samples;
  Counter busy_ns;
  FailureCounts failed_runs;
  std::array<Counter, kPhases.size()> deadlines;
  std::array<Counter, kPhases.size()> cancels;
  Counter hedges;
  Counter hedges_won;
};

/// Of one model: each request ends in one level's `answered` or in one of these.
struct ModelMetrics {
  /// @param took from arrival; nothing: it was refused at once
  void failed(Code code, Duration took = {}) {
    failures.add(code);
    failed_ns.add(static_cast<std::uint64_t>(std::max(Duration{}, took).count()));
  }
  void answered(TimePoint at) {
    last_answer_.store(at.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// Nothing: none yet.
  std::optional<TimePoint> last_answer() const {
    const auto at = last_answer_.load(std::memory_order_relaxed);
    return at == kNever ? std::nullopt : std::optional(TimePoint(Duration(at)));
  }

  FailureCounts failures;
  Counter failed_ns;

 private:
  static constexpr auto kNever = Duration::min().count();
  std::atomic<Duration::rep> last_answer_{kNever};
};

/// Of requests that named no model that is served.
struct ServerMetrics {
  void failed(Code code) { failures.add(code); }

  FailureCounts failures;
};

}  // namespace gradus::metrics
