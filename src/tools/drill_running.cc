#include "tools/drill_running.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "tools/drill_scratch.h"
#include "tools/http_client.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kOpenLimit = 15min;  // a hold after relapses takes up to 10
constexpr Duration kLook = 50ms;
constexpr std::string_view kWorkerName = "gradus-worker";  // as its process calls itself

// "" for a process that is not, or is not ours.
std::string process_name(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

Result<void> check_worker(const LadderView& ladder) {
  if (!ladder.worker) {
    return fail(Code::kInvalid,
                "level 0 has no worker process: it runs in the server itself, or not at all (" +
                    ladder.reason + ")");
  }
  const std::string pid = std::to_string(*ladder.worker);
  if (process_name(*ladder.worker) != kWorkerName) {
    return fail(Code::kInvalid, "worker " + pid + " is no process of this machine");
  }
  if (::kill(*ladder.worker, 0) != 0) {
    return fail(Code::kInvalid, "worker " + pid + " belongs to another user");
  }
  return {};
}

Result<fault::Control> open_control(const DrillOptions& options, const LadderView& ladder) {
  if (ladder.provider != kFaultProvider) {
    return fail(Code::kInvalid,
                "--control: level 0 runs on " + ladder.provider + ", not on " + kFaultProvider);
  }
  auto control = fault::Control::open(options.control);
  if (!control) return fail(Code::kInvalid, "--control: " + control.error().message);
  if (control->counters().last_pid != static_cast<std::uint32_t>(*ladder.worker)) {
    return fail(Code::kInvalid, "--control: " + options.control.string() +
                                    " is not the control file of worker " +
                                    std::to_string(*ladder.worker));
  }
  return control;
}

config::PolicyConfig policy_of(const DrillOptions& options) {
  config::PolicyConfig policy;
  const auto take = [](const std::optional<DrillOptions::Seconds>& given, auto& value) {
    if (given) value = std::chrono::duration_cast<std::chrono::milliseconds>(*given);
  };
  take(options.hold, policy.hold);
  take(options.max_hold, policy.hold_cap);
  take(options.cooldown, policy.cooldown);
  take(options.breaker, policy.breaker_open);
  return policy;
}

class RunningVenue final : public Venue {
 public:
  RunningVenue(std::uint16_t port, const DrillOptions& options,
               std::optional<fault::Control> control)
      : port_(port),
        model_(options.model),
        control_(std::move(control)),
        policy_(policy_of(options)),
        hold_is_known_(options.hold.has_value()) {}

  Result<LadderView> open(std::optional<std::chrono::milliseconds>, bool) override {
    const TimePoint deadline = steady_clock().now() + kOpenLimit;
    for (;;) {
      auto view = fetch_ladder(port_, model_);
      if (!view || (view->current == 0 && view->level_0_whole)) return view;
      if (steady_clock().now() > deadline) {
        return fail(Code::kUnavailable, "level 0 is not current: " + view->reason);
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  std::uint16_t port() const override { return port_; }
  const config::PolicyConfig& policy() const override { return policy_; }
  std::optional<Duration> hold() const override {
    return hold_is_known_ ? std::optional<Duration>(policy_.hold) : std::nullopt;
  }
  bool is_ours() const override { return false; }
  fault::Control* control() override { return control_ ? &*control_ : nullptr; }
  Reach reach() const override {
    return {
        .orders = control_.has_value(), .hides_library = false, .restarts = control_.has_value()};
  }
  bool same_hardware() const override { return false; }

  Result<void> take(Taken taken) override {
    return taken == Taken::kRestarts ? order_no_restart(*control_) : Result<void>{};
  }
  std::string taken_name(Taken taken) const override {
    return taken == Taken::kRestarts ? kNoRestart : "";
  }
  void give_back() override {
    if (control_) control_->clear();
  }

 private:
  const std::uint16_t port_;
  const std::string model_;
  std::optional<fault::Control> control_;
  const config::PolicyConfig policy_;
  const bool hold_is_known_;
};

}  // namespace

Result<std::uint16_t> local_port(std::string_view url) {
  for (const std::string_view host : {"http://127.0.0.1:", "http://localhost:"}) {
    if (!url.starts_with(host)) continue;
    std::string_view rest = url.substr(host.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
    if (error == std::errc{} && end == rest.data() + rest.size() && port != 0) return port;
  }
  return fail(Code::kInvalid,
              "--url: '" + std::string(url) +
                  "': must be http://127.0.0.1:PORT or http://localhost:PORT, since "
                  "the worker must be a process of this machine");
}

Result<std::unique_ptr<Venue>> running_venue(const DrillOptions& options) {
  const auto port = local_port(options.url);
  if (!port) return tl::unexpected(port.error());
  const auto ladder = fetch_ladder(*port, options.model);
  if (!ladder) return tl::unexpected(ladder.error());
  if (const auto ours = check_worker(*ladder); !ours) return tl::unexpected(ours.error());
  std::optional<fault::Control> control;
  if (!options.control.empty()) {
    auto opened = open_control(options, *ladder);
    if (!opened) return tl::unexpected(opened.error());
    control.emplace(std::move(*opened));
  }
  return std::make_unique<RunningVenue>(*port, options, std::move(control));
}

bool agreed(const DrillOptions& options, const LadderView& ladder,
            const std::vector<DrillFault>& faults, std::istream& in, std::ostream& out) {
  out << "This breaks level 0 of model '" << options.model << "' at " << options.url << ", worker "
      << ladder.worker.value_or(0) << ", and sends load to it:\n";
  for (const DrillFault& fault : faults) {
    out << "  " << fault.name << ": " << fault.meaning << ", " << options.trials << " times\n";
  }
  out << "Go on? [y/N] " << std::flush;
  std::string line;
  std::getline(in, line);
  return line == "y" || line == "yes";
}

}  // namespace gradus::tools
