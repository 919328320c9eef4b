// An engine that tests steer.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serving/engine.h"

namespace gradus::api {

class FakeEngine final : public serving::Engine {
 public:
  FakeEngine() {
    info.name = "m";
    info.version = "3";
    info.versions = {"1", "3"};
    info.signature.inputs = {{"x", DType::kFp32, {-1}}};
    info.signature.outputs = {{"y", DType::kFp32, {-1}}};
  }

  bool live() const override { return is_live; }
  bool ready() const override { return is_ready; }
  Result<void> model_ready(std::string_view model, std::string_view version) const override {
    if (auto known = check(model, version); !known) return known;
    if (unavailable) return fail(Code::kUnavailable, "level 1: no memory");
    return {};
  }
  Result<serving::ModelInfo> model_info(std::string_view model,
                                        std::string_view version) const override {
    if (auto known = check(model, version); !known) return tl::unexpected(known.error());
    return info;
  }
  std::vector<std::string> model_names() const override { return {"broken", "m"}; }
  Result<std::string> command(std::string_view model, std::string_view version,
                              const serving::LadderCommand& told) override {
    if (auto known = check(model, version); !known) return tl::unexpected(known.error());
    last_command = told;
    return ladder_json(model, version);
  }
  std::string workers_json() const override { return R"({"workers":[]})"; }
  std::string metrics_text(std::vector<metrics::ReceiverView> receivers) const override {
    return "receivers " + std::to_string(receivers.size()) + "\n";
  }
  void refused(std::string_view model, std::string_view, Code code) override {
    refusals.emplace_back(model, code);
  }
  Result<std::string> ladder_json(std::string_view model, std::string_view version) const override {
    if (auto known = check(model, version); !known) return tl::unexpected(known.error());
    return R"({"model":"m","current_level":1})";
  }
  std::vector<serving::IndexEntry> index() const override { return indexed; }
  void load(serving::LoadModel what, serving::Managed done) override {
    last_load = std::move(what);
    on_managed(std::move(done));
  }
  void unload(const std::string& model, serving::Managed done) override {
    last_unload = model;
    on_managed(std::move(done));
  }
  Result<std::string> config_json(std::string_view model, std::string_view version) const override {
    if (auto known = check(model, version); !known) return tl::unexpected(known.error());
    return R"({"name":"m"})";
  }
  Result<std::vector<serving::ModelStatistics>> statistics(
      std::string_view model, std::string_view version) const override {
    if (!model.empty()) {
      if (auto known = check(model, version); !known) return tl::unexpected(known.error());
    }
    asked_statistics.emplace_back(model, version);
    return counted;
  }
  serving::Ticket infer(serving::Request request, serving::Done done) override {
    last_request = request;
    on_infer(std::move(request), std::move(done));
    return ticket;
  }

  /// Answers with input `x` as output `y`, from level 2, degraded.
  static void mirror(serving::Request request, const serving::Done& done) {
    serving::Response response;
    response.model = request.model;
    response.version = "3";
    response.id = request.id;
    for (const NamedView& input : request.inputs) {
      response.outputs.push_back({"y", Tensor{input.tensor.dtype, input.tensor.shape,
                                              input.tensor.data, request.storage}});
    }
    response.origin.level = 2;
    response.origin.level_name = "cpu-int8";
    response.origin.variant = "model.int8.onnx";
    response.origin.degraded = true;
    done(std::move(response));
  }

  bool is_live = true;
  bool is_ready = true;
  bool unavailable = false;
  serving::ModelInfo info;
  std::function<void(serving::Request, serving::Done)> on_infer = mirror;
  std::optional<serving::Request> last_request;
  std::optional<serving::LadderCommand> last_command;
  std::vector<serving::IndexEntry> indexed;
  std::vector<serving::ModelStatistics> counted;
  mutable std::vector<std::pair<std::string, std::string>> asked_statistics;  // model, version
  std::optional<serving::LoadModel> last_load;
  std::optional<std::string> last_unload;
  // When loads and unloads end, and how.
  std::function<void(serving::Managed)> on_managed = [](const serving::Managed& done) { done({}); };
  serving::Ticket ticket;
  std::vector<std::pair<std::string, Code>> refusals;

 private:
  static Result<void> check(std::string_view model, std::string_view version) {
    if (model != "m") return fail(Code::kNotFound, "no model '" + std::string(model) + "'");
    if (!version.empty() && version != "1" && version != "3") {
      return fail(Code::kNotFound, "no version " + std::string(version));
    }
    return {};
  }
};

}  // namespace gradus::api
