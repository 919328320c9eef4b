#include "metrics/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

namespace gradus::metrics {
namespace {

using namespace std::chrono_literals;

// `name{label="value",…}` -> value, of every line that is no comment.
std::map<std::string, double> series_of(const std::string& text) {
  std::map<std::string, double> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t space = line.rfind(' ');
    series[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return series;
}

// One model on two levels, of which the second answered two requests and lost three.
class ExpositionTest : public testing::Test {
 protected:
  ExpositionTest() {
    cpu_.answered(1ms, 4ms, 6ms);
    cpu_.answered(2ms, 4ms, 7ms);
    cpu_.executed(8, {.infer = 4ms});
    cpu_.run_failed(Code::kInternal, 500us);
    cpu_.deadline_missed(Phase::kQueued);
    cpu_.deadline_missed(Phase::kRunning);
    cpu_.deadline_missed(Phase::kRunning);
    cpu_.cancelled(Phase::kRunning);
    cpu_.hedged();
    cpu_.hedged();
    cpu_.hedge_won();
    for (const Code code : {Code::kDeadline, Code::kOverloaded, Code::kCancelled, Code::kWorkerLost,
                            Code::kInvalid, Code::kInvalid}) {
      values_.failed(code);
    }
    server_.failed(Code::kNotFound);

    const std::vector<std::string_view> states = {"loading", "ready"};
    const std::vector<std::string_view> breakers = {"closed", "open"};
    ModelView model;
    model.name = "m\"odd\\";
    model.version = "3";
    model.values = &values_;
    model.current = 1;
    model.degraded = true;
    model.levels = {{0, &gpu_, {states, "loading"}, {breakers, "open"}, 0, 32, 0.05},
                    {1, &cpu_, {states, "ready"}, {breakers, "closed"}, 7, 8, 0}};
    model.transitions = {{std::nullopt, 1, "started", 1}, {0, 1, "hard_loss", 2}};
    view_.values = &server_;
    view_.models = {model};
    view_.workers = {{"gpu:0", {{"running", "waiting"}, "waiting"}, 4, 1}};
    view_.receivers = {{"webhook", 10, 2, 3, 7}};
    text_ = exposition(view_);
    series_ = series_of(text_);
  }

  // Of the model's series with these further labels; -99 if there is none.
  double value(const std::string& name, const std::string& labels = "") const {
    const std::string all = R"({model="m\"odd\\",version="3")" + labels + "}";
    const auto found = series_.find(name + all);
    return found == series_.end() ? -99 : found->second;
  }

  LevelMetrics gpu_, cpu_;
  ModelMetrics values_;
  ServerMetrics server_;
  View view_;
  std::string text_;
  std::map<std::string, double> series_;
};

TEST_F(ExpositionTest, CountsRequestsAndRunsByLevel) {
  const std::string on_cpu = R"(,level="1")";
  EXPECT_EQ(value("gradus_serving_requests_total", on_cpu), 2);
  EXPECT_EQ(value("gradus_serving_requests_total", R"(,level="0")"), 0);
  EXPECT_EQ(value("gradus_serving_runs_total", on_cpu), 1);
  EXPECT_EQ(value("gradus_serving_samples_total", on_cpu), 8);
  EXPECT_DOUBLE_EQ(value("gradus_serving_busy_seconds_total", on_cpu), 0.0045);
  EXPECT_EQ(value("gradus_serving_failed_runs_total", on_cpu + R"(,class="internal")"), 1);
  EXPECT_EQ(value("gradus_serving_deadline_misses_total", on_cpu + R"(,phase="queued")"), 1);
  EXPECT_EQ(value("gradus_serving_deadline_misses_total", on_cpu + R"(,phase="running")"), 2);
  EXPECT_EQ(value("gradus_serving_cancelled_total", on_cpu + R"(,phase="running")"), 1);
  EXPECT_EQ(value("gradus_serving_hedges_total", on_cpu), 2);
  EXPECT_EQ(value("gradus_serving_hedges_won_total", on_cpu), 1);
  EXPECT_EQ(value("gradus_serving_waiting_requests", on_cpu), 7);
  EXPECT_EQ(value("gradus_serving_batch_size_samples", on_cpu), 8);
}

TEST_F(ExpositionTest, CountsFailuresByClass) {
  const std::string name = "gradus_serving_failures_total";
  EXPECT_EQ(value(name, R"(,class="invalid")"), 2);
  EXPECT_EQ(value(name, R"(,class="cancelled")"), 1);
  EXPECT_EQ(value(name, R"(,class="unavailable")"), 0);
  EXPECT_EQ(series_.at(R"(gradus_serving_unknown_model_total{class="not_found"})"), 1);
}

TEST_F(ExpositionTest, BucketsHoldWhatIsNoLongerThanTheirBound) {
  const std::string name = "gradus_serving_latency_seconds";
  const auto bucket = [&](const std::string& bound) {
    return value(name + "_bucket", R"(,level="1",le=")" + bound + "\"");
  };
  EXPECT_EQ(bucket("1e-05"), 0);
  EXPECT_EQ(bucket("0.005"), 0);
  EXPECT_EQ(bucket("0.01"), 2);
  EXPECT_EQ(bucket("50"), 2);
  EXPECT_EQ(bucket("+Inf"), 2);
  EXPECT_EQ(value(name + "_count", R"(,level="1")"), 2);
  EXPECT_DOUBLE_EQ(value(name + "_sum", R"(,level="1")"), 0.013);
  EXPECT_DOUBLE_EQ(value("gradus_serving_queue_seconds_sum", R"(,level="1")"), 0.003);
  EXPECT_DOUBLE_EQ(value("gradus_serving_run_seconds_sum", R"(,level="1")"), 0.008);
}

TEST_F(ExpositionTest, ShowsHowLaddersAndWorkersStand) {
  EXPECT_EQ(value("gradus_ladder_current_level"), 1);
  EXPECT_EQ(value("gradus_ladder_degraded"), 1);
  EXPECT_EQ(value("gradus_ladder_saturated"), 0);
  EXPECT_EQ(value("gradus_ladder_urgent"), 0);
  EXPECT_EQ(value("gradus_ladder_level_state", R"(,level="0",state="loading")"), 1);
  EXPECT_EQ(value("gradus_ladder_level_state", R"(,level="0",state="ready")"), 0);
  EXPECT_EQ(value("gradus_ladder_breaker_state", R"(,level="0",state="open")"), 1);
  EXPECT_DOUBLE_EQ(value("gradus_ladder_canary_share", R"(,level="0")"), 0.05);
  const std::string moves = "gradus_ladder_transitions_total";
  EXPECT_EQ(value(moves, R"(,from="none",to="1",cause="started")"), 1);
  EXPECT_EQ(value(moves, R"(,from="0",to="1",cause="hard_loss")"), 2);
  EXPECT_EQ(series_.at(R"(gradus_worker_restarts_total{device="gpu:0"})"), 4);
  EXPECT_EQ(series_.at(R"(gradus_worker_state{device="gpu:0",state="waiting"})"), 1);
  EXPECT_EQ(series_.at(R"(gradus_worker_abandoned_processes{device="gpu:0"})"), 1);
}

TEST_F(ExpositionTest, ShowsWhetherAlertsGetThrough) {
  EXPECT_EQ(series_.at(R"(gradus_alerts_sent_events_total{receiver="webhook"})"), 10);
  EXPECT_EQ(series_.at(R"(gradus_alerts_dropped_events_total{receiver="webhook"})"), 2);
  EXPECT_EQ(series_.at(R"(gradus_alerts_waiting_events{receiver="webhook"})"), 3);
  EXPECT_EQ(series_.at(R"(gradus_alerts_failed_tries_total{receiver="webhook"})"), 7);
}

TEST_F(ExpositionTest, ALadderThatCannotAnswerStandsOnLevelMinusOne) {
  view_.models[0].current.reset();
  series_ = series_of(exposition(view_));
  EXPECT_EQ(value("gradus_ladder_current_level"), -1);
}

TEST_F(ExpositionTest, SpeaksTritonsNamesToo) {
  EXPECT_EQ(value("nv_inference_request_success"), 2);
  EXPECT_EQ(value("nv_inference_request_failure", R"(,reason="REJECTED")"), 2);
  EXPECT_EQ(value("nv_inference_request_failure", R"(,reason="CANCELED")"), 1);
  EXPECT_EQ(value("nv_inference_request_failure", R"(,reason="BACKEND")"), 1);
  EXPECT_EQ(value("nv_inference_request_failure", R"(,reason="OTHER")"), 2);
  EXPECT_EQ(value("nv_inference_count"), 8);
  EXPECT_EQ(value("nv_inference_exec_count"), 1);
  EXPECT_EQ(value("nv_inference_request_duration_us"), 13'000);
  EXPECT_EQ(value("nv_inference_queue_duration_us"), 3'000);
  EXPECT_EQ(value("nv_inference_compute_infer_duration_us"), 8'000);
  EXPECT_EQ(value("nv_inference_pending_request_count"), 7);
}

// `| `name` | type |` of each row of docs/metrics.md, against `# TYPE name type`.
TEST_F(ExpositionTest, DocsHaveTheNamesAndNoOthers) {
  std::map<std::string, std::string> shown, documented;
  std::istringstream lines(text_);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, name, type;
    words >> hash >> what >> name >> type;
    if (what == "TYPE") shown[name] = type;
  }
  std::ifstream page(std::string(GRADUS_DOCS) + "/metrics.md");
  for (std::string line; std::getline(page, line);) {
    std::istringstream words(line);
    std::string bar, name, type;
    words >> bar >> name >> bar >> type;
    if (name.starts_with("`gradus_") || name.starts_with("`nv_")) {
      documented[name.substr(1, name.size() - 2)] = type;
    }
  }
  EXPECT_EQ(documented, shown);
}

}  // namespace
}  // namespace gradus::metrics
