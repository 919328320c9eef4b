// What the load clients of all transports share: the command line, which answers are right, and
// what is counted between a warm-up and the end of the measured time.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gradus::bench {

constexpr int kPatienceMs = 30'000;  // without any answer

struct Plan {
  std::uint16_t port = 0;
  pid_t server = 0;
  std::size_t connections = 1;  // requests at once
  Duration time{};
  std::vector<std::string> requests;
  std::vector<std::string> outputs;  // the requests'; empty: answers are not compared
};

/// PORT SERVER_PID CONNECTIONS SECONDS REQUEST_FILE[,…] [OUTPUT_FILE[,…]]. kInvalid, kNotFound
Result<Plan> plan_of(std::string_view program, const std::vector<std::string>& arguments);

/// Whether a body ends in these FP32 values, give or take what the order of sums may change.
/// kInternal: it does not.
Result<void> compare(std::string_view body, std::string_view expected);

/// The server's process is there; kNotFound.
Result<void> check_server(const Plan& plan);

/// One thread.
class Measurement {
 public:
  /// @param plan borrowed. The warm-up begins.
  Measurement(const Plan& plan, TimePoint now);

  /// An answer came. Counted are those from the first after the warm-up to the first after the
  /// measured time.
  /// @param level that answered; nothing: it was not said
  /// @return false: the measured time is over
  bool count(TimePoint now, TimePoint sent_at, std::optional<int> level);

  bool over() const { return last_.has_value(); }

  /// One line of JSON. After over().
  /// @param body_bytes of the last answer @param sent requests in all
  void print(std::size_t body_bytes, std::size_t sent);

 private:
  // What had been used when the measured time began, or ended.
  struct Mark {
    TimePoint at;
    Duration server_cpu;
    Duration client_cpu;
  };

  Mark mark(TimePoint now) const;

  const Plan& plan_;
  const TimePoint from_;
  std::optional<Mark> first_;
  std::optional<Mark> last_;
  std::vector<Duration> latencies_;
  std::map<int, std::size_t> levels_;  // -1: not said
};

/// Makes a plan, carries it out and says how it went: the load clients' main(). `load` prints.
/// @return the exit status: 1 something was wrong, 2 the command line
int run_plan(std::string_view program, const std::vector<std::string>& arguments,
             Result<void> (*load)(const Plan& plan));

}  // namespace gradus::bench
