// What is simulated: levels and how long they run, what comes to them, what goes wrong. A value;
// the built-in ones and those from files are the same.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gradus::simulate {

/// Levels of one device share its runs. `cpu` can end a run that nobody waits for any more; every
/// other device is an accelerator, which is also probed when it idles.
struct Device {
  std::string name;
  std::uint32_t instances = 1;  // runs side by side, 1..256
};

/// Level 0 is the first. Run times are log-normal.
struct Level {
  std::string name;
  std::string device = "cpu";        // of Scenario::devices
  Duration mean{};                   // a run of one request
  std::optional<Duration> p99;       // of the same; nothing: 1.5 x mean
  std::uint32_t max_batch_size = 1;  // requests in one run, 1..1024
  double each_more = 1;              // of `mean`, that each further request of a run adds
  Duration target_p99{};
  double quality = 1;             // 0..1, of its answers
  std::optional<Duration> first;  // nothing, or what each of the first two runs of a shape takes
  std::optional<Duration> wake;   // nothing, or what a run takes that finds the level idle for 2 s
  std::optional<Duration> max_run;  // from then on it counts as hung; nothing: see hang_limit
};

Duration p99_of(const Level& level);
/// `max_run`, else the greatest of ten targets, ten p99 and 1 s.
Duration hang_limit(const Level& level);

/// From then on so many requests a second come (Poisson).
struct Rate {
  Duration at{};
  double per_second = 0;
};

struct RecordedRequest {
  Duration at{};
  std::optional<Duration> deadline;  // from then; nothing: the scenario's
};

struct Arrivals {
  std::vector<Rate> rates;  // ascending, each until the next one
  Duration burst_every{};   // zero: no bursts
  std::uint32_t burst_size = 0;
  std::vector<RecordedRequest> recorded;  // ascending; with rates and bursts, not instead
  std::uint32_t shapes = 1;               // of inputs, each as likely as the others
};

enum class Trouble {
  kLost,         // a hard loss; back, loaded and warm, at the end
  kHang,         // runs never end; at the level's hang limit its worker is replaced
  kSlow,         // runs take `factor` times as long
  kErrors,       // runs fail by chance
  kAlternating,  // every other run fails
};
/// `lost`, `hang`, …
const char* to_string(Trouble trouble);

struct Fault {
  std::size_t level = 0;
  Trouble what = Trouble::kLost;
  Duration at{};
  Duration lasts{};
  Duration every{};         // again after so long, longer than `lasts`; zero: once
  std::uint32_t times = 0;  // 0: as often as there is time
  double factor = 5;        // kSlow
  double share = 0.5;       // of runs, kErrors
};

struct Scenario {
  std::string name;
  Duration lasts{};     // requests come for so long
  Duration deadline{};  // of a request, from its arrival
  std::uint64_t seed = 1;
  std::uint32_t max_queue_size = 1024;  // requests waiting for one level
  std::vector<Device> devices;
  std::vector<Level> levels;  // 1..8
  Arrivals arrivals;
  std::vector<Fault> faults;
};

/// Requests a second that the level can do at the best batch size.
double capacity(const Scenario& scenario, std::size_t level);

/// The last instant at which something changes from outside: a fault ends, or the rate steps.
Duration last_disturbance(const Scenario& scenario);

/// kInvalid, with the good names, for a name that is none of them.
Result<Scenario> built_in(std::string_view name);
std::string built_in_names();  // `flapping, gpu-loss, …`

}  // namespace gradus::simulate
