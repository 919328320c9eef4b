#include "tools/drill_own.h"

#include <cstdlib>
#include <utility>

#include "tools/drill_scratch.h"
#include "tools/drill_server.h"

namespace gradus::tools {
namespace {

class OwnVenue final : public Venue {
 public:
  OwnVenue(std::string model, Scratch scratch, std::optional<fault::Control> control)
      : model_(std::move(model)), scratch_(std::move(scratch)), control_(std::move(control)) {}

  Result<LadderView> open(std::optional<std::chrono::milliseconds> target,
                          bool crash_loop) override {
    server_.reset();
    if (const auto written = scratch_.write(target, crash_loop); !written) {
      return tl::unexpected(written.error());
    }
    auto started = DrillServer::start(scratch_, model_);
    if (!started) return tl::unexpected(started.error());
    server_.emplace(std::move(*started));
    return server_->ladder();
  }

  std::uint16_t port() const override { return server_->port(); }
  const config::PolicyConfig& policy() const override { return scratch_.model().policy; }
  std::optional<Duration> hold() const override { return policy().hold; }
  bool is_ours() const override { return true; }
  fault::Control* control() override { return control_ ? &*control_ : nullptr; }
  Reach reach() const override {
    return {
        .orders = control_.has_value(), .hides_library = scratch_.has_library(), .restarts = true};
  }
  bool same_hardware() const override { return control_.has_value(); }

  Result<void> take(Taken taken) override {
    switch (taken) {
      case Taken::kNothing:
        return {};
      case Taken::kLibrary:
        return scratch_.hide_library();
      case Taken::kModel:
        return scratch_.hide_model();
      case Taken::kRestarts:
        return order_no_restart(*control_);
    }
    std::abort();
  }

  std::string taken_name(Taken taken) const override {
    switch (taken) {
      case Taken::kNothing:
        return "";
      case Taken::kLibrary:
        return scratch_.link_to_library().string();
      case Taken::kModel:
        return scratch_.version_link().string();
      case Taken::kRestarts:
        return kNoRestart;
    }
    std::abort();
  }

  void give_back() override {
    scratch_.show_all();
    if (control_) control_->clear();
  }

 private:
  const std::string model_;
  Scratch scratch_;
  std::optional<fault::Control> control_;
  std::optional<DrillServer> server_;  // ends before its files do
};

}  // namespace

Result<std::unique_ptr<Venue>> own_venue(const DrillOptions& options) {
  auto scratch = Scratch::make(options);
  if (!scratch) return tl::unexpected(scratch.error());
  std::optional<fault::Control> control;
  if (scratch->on_fault_provider()) {
    auto made = fault::Control::create(scratch->control());
    if (!made) return tl::unexpected(made.error());
    control.emplace(std::move(*made));
  }
  return std::make_unique<OwnVenue>(options.model, std::move(*scratch), std::move(control));
}

}  // namespace gradus::tools
