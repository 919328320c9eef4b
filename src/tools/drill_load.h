// Open-loop load: requests leave on schedule whatever the answers do, so that a server that stalls
// is seen to stall. One thread; as many keep-alive connections as there are requests under way.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tools/drill_answers.h"

namespace gradus::tools {

/// What is sent, and what is the right answer to it.
struct LoadPlan {
  std::uint16_t port = 0;
  std::string request;               // as it goes over the wire
  std::map<int, RightAnswer> right;  // of each level
};

struct SentRequest {
  TimePoint due{};                    // when it was to be sent; its latency counts from then
  std::optional<TimePoint> answered;  // nothing: never
  int status = 0;                     // 0: no answer; the connection broke, or it took too long
  std::string refusal;                // what another status than 200 came with, its beginning
  int level = -1;                     // that answered
  bool right = false;                 // status 200 and the level's right answer
};

/// Of one that failed.
std::string failure_text(const SentRequest& request);

/// Starts to send at once; destroying it ends it.
class OpenLoad {
 public:
  /// @param plan must outlive it. @param rate requests a second, > 0
  OpenLoad(const LoadPlan& plan, double rate);

  /// Sends no more, waits for the answers that are still to come, at most 15 s each, and returns
  /// all requests by their time. Once.
  std::vector<SentRequest> stop();

 private:
  std::vector<SentRequest> sent_;  // of the thread, until it has ended
  std::jthread thread_;
};

/// Requests a second that `connections` in a closed loop get answered within the time.
/// kUnavailable: one failed; kInternal: one got a wrong answer.
Result<double> closed_loop_rate(const LoadPlan& plan, int connections, Duration time);

}  // namespace gradus::tools
