// Traces of requests: which are taken, what is written of them, and where.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/control/tracer.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using config::TraceLevel;
using testing::HasSubstr;
using testing::Not;

constexpr Duration kLimit = 10s;

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TimePoint at(Duration time) { return TimePoint(time); }

class TraceTest : public testing::Test {
 protected:
  TraceTest()
      : folder_(testing::TempDir() + "traces_" + std::to_string(::getpid())),
        file_(folder_ / "trace.json") {
    std::filesystem::create_directories(folder_);
  }
  ~TraceTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Tracer> open(std::uint32_t rate = 1, std::int64_t count = -1,
                               TraceLevel level = TraceLevel::kTimestamps) {
    auto tracer = Tracer::make({file_.string(), level, rate, count, 0}).value();
    const auto started = tracer->start();
    EXPECT_TRUE(started) << started.error().message;
    return tracer;
  }
  // How many of so many requests are traced.
  static int taken(Tracer& tracer, int requests, std::string_view model = "m") {
    int count = 0;
    for (int i = 0; i < requests; ++i) count += tracer.sample(model) ? 1 : 0;
    return count;
  }
  static std::string shown(const Tracer& tracer, const std::string& name,
                           const std::string& model = "") {
    for (const auto& [key, texts] : tracer.settings(model)) {
      if (key == name) return texts.front();
    }
    return "none";
  }
  static TraceValues set(const std::string& name, const std::string& text) {
    return {{name, std::vector{text}}};
  }
  static std::string fault(Tracer& tracer, const TraceValues& values) {
    const auto changed = tracer.change("", values);
    return changed ? "" : changed.error().message;
  }

  const std::filesystem::path folder_, file_;
};

TEST_F(TraceTest, AFileHasTheTimelineOfEachRequest) {
  const auto tracer = open();
  EXPECT_EQ(content(file_), "[\n]\n") << "an array from the start";
  serving::Response response{.model = "m", .version = "3", .id = "7", .outputs = {}, .origin = {}};
  response.origin = {.level = 1,
                     .level_name = "cpu",
                     .variant = "model.onnx",
                     .degraded = true,
                     .queue = 1ns,
                     .run = 5ns,
                     .latency = 9ns,
                     .queued = at(11ns),
                     .begun = at(12ns),
                     .joining = 1ns,
                     .splitting = 2ns};
  auto trace = tracer->sample("m");
  trace->stamp("REQUEST_START", at(10ns));
  trace->answered(response, at(19ns));
  auto sent = Trace::send_times(trace, "HTTP_SEND_START", "HTTP_SEND_END");
  trace = tracer->sample("gone\"");
  sent->begun = at(22ns);
  sent->ended = at(23ns);
  sent = nullptr;  // whoever wrote the answer was the last to hold it
  trace->stamp("REQUEST_START", at(20ns));
  trace->answered(fail(Code::kNotFound, "no model"), at(21ns));
  trace = nullptr;
  tracer->flush(kLimit);
  EXPECT_EQ(content(file_),
            R"([
{"id":1,"model_name":"m","model_version":3,"request_id":"7","level":1,"level_name":"cpu",)"
            R"("variant":"model.onnx","degraded":true},
{"id":1,"timestamps":[{"name":"REQUEST_START","ns":10},{"name":"QUEUE_START","ns":11},)"
            R"({"name":"COMPUTE_START","ns":12},{"name":"COMPUTE_INPUT_END","ns":13},)"
            R"({"name":"COMPUTE_OUTPUT_START","ns":15},{"name":"COMPUTE_END","ns":17},)"
            R"({"name":"INFER_RESPONSE_COMPLETE","ns":19},{"name":"REQUEST_END","ns":19},)"
            R"({"name":"HTTP_SEND_START","ns":22},{"name":"HTTP_SEND_END","ns":23}]},
{"id":2,"model_name":"gone\"","model_version":-1,"request_id":"","error":"no model"},
{"id":2,"timestamps":[{"name":"REQUEST_START","ns":20},{"name":"REQUEST_END","ns":21}]}
]
)");
}

TEST_F(TraceTest, WhatWasRefusedSaysWhyAndWhatItsClientSaid) {
  const auto tracer = open();
  auto trace = tracer->sample("m");
  trace->about("2", "7");
  trace->refused({Code::kInvalid, "'inputs' is missing"}, at(10ns));
  Trace::send_times(trace, "GRPC_SEND_START", "GRPC_SEND_END")->begun = at(11ns);  // never taken
  trace = nullptr;
  tracer->flush(kLimit);
  EXPECT_EQ(content(file_),
            R"([
{"id":1,"model_name":"m","model_version":2,"request_id":"7","error":"'inputs' is missing"},
{"id":1,"timestamps":[{"name":"REQUEST_START","ns":10},{"name":"REQUEST_END","ns":10},)"
            R"({"name":"GRPC_SEND_START","ns":11}]}
]
)");
}

TEST_F(TraceTest, OneOfSoManyIsTakenUntilTheCountIsUsedUp) {
  const auto tracer = open(3, 2);
  EXPECT_EQ(taken(*tracer, 2), 0);
  EXPECT_EQ(taken(*tracer, 2), 1);
  EXPECT_EQ(shown(*tracer, "trace_count"), "1");
  EXPECT_EQ(taken(*tracer, 100), 1);
  EXPECT_EQ(shown(*tracer, "trace_count"), "0");
  ASSERT_TRUE(tracer->change("", set("trace_count", "1")));
  EXPECT_EQ(taken(*tracer, 100), 1);
}

TEST_F(TraceTest, AModelGoesItsOwnWayUntilThatIsTakenBack) {
  const auto tracer = open(1, -1, TraceLevel::kOff);
  EXPECT_EQ(taken(*tracer, 5), 0);
  ASSERT_TRUE(tracer->change("m", {{"trace_level", std::vector<std::string>{"TIMESTAMPS"}},
                                   {"trace_rate", std::vector<std::string>{"2"}}}));
  EXPECT_EQ(taken(*tracer, 10, "m"), 5);
  EXPECT_EQ(taken(*tracer, 10, "other"), 0);
  EXPECT_EQ(shown(*tracer, "trace_rate", "m"), "2");
  EXPECT_EQ(shown(*tracer, "trace_rate", "other"), "1");
  ASSERT_TRUE(tracer->change("m", {{"trace_rate", std::nullopt}}));
  EXPECT_EQ(taken(*tracer, 10, "m"), 10);
  ASSERT_TRUE(tracer->change("m", {{"trace_level", std::nullopt}}));
  EXPECT_EQ(taken(*tracer, 10, "m"), 0);
  EXPECT_EQ(shown(*tracer, "trace_level", "m"), "OFF");
}

TEST_F(TraceTest, WhatCannotBeSetIsNamedAndChangesNothing) {
  const auto tracer = open();
  const std::pair<TraceValues, const char*> table[] = {
      {set("trace_level", "TENSORS"), "not written to files"},
      {set("trace_level", "ALL"), "'trace_level' is 'ALL'; expected OFF or TIMESTAMPS"},
      {set("trace_rate", "0"), "'trace_rate' is '0'; expected an integer in [1, 4294967295]"},
      {set("trace_rate", "4294967296"), "'trace_rate'"},
      {set("trace_rate", "1x"), "'trace_rate'"},
      {set("trace_count", "-2"), "'trace_count' is '-2'"},
      {set("log_frequency", "-1"), "'log_frequency' is '-1'"},
      {set("trace_mode", "opentelemetry"), "there is no trace setting 'trace_mode'"},
      {{{"trace_rate", std::vector<std::string>{"5"}}, {"trace_zzz", std::nullopt}}, "'trace_zzz'"},
  };
  for (const auto& [values, text] : table) EXPECT_THAT(fault(*tracer, values), HasSubstr(text));
  EXPECT_EQ(shown(*tracer, "trace_rate"), "1");
  Tracer none;
  EXPECT_THAT(fault(none, set("trace_level", "TIMESTAMPS")), HasSubstr("--trace-file"));
  EXPECT_FALSE(Tracer::make({.level = TraceLevel::kTimestamps}));
  EXPECT_FALSE(Tracer::make({.file = (folder_ / "none" / "t.json").string()}));
}

TEST_F(TraceTest, BeforeItsStartItTracesNothingAndLeavesAnOlderFileAlone) {
  std::ofstream(file_) << "of another server";
  const auto tracer = Tracer::make({file_.string(), TraceLevel::kTimestamps, 1, -1, 0}).value();
  EXPECT_EQ(taken(*tracer, 3), 0);
  EXPECT_EQ(content(file_), "of another server");
  ASSERT_TRUE(tracer->start());
  EXPECT_EQ(taken(*tracer, 3), 3);
}

TEST_F(TraceTest, AFifoIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const auto fault = [&] {
    const auto made = Tracer::make({.file = file_.string()});
    return made ? "" : made.error().message;
  };
  const std::string refused =
      "trace_file '" + file_.string() + "' cannot be made: must be a regular file";
  EXPECT_EQ(fault(), refused);
  const int reader = ::open(file_.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(fault(), refused) << "with a reader";
  ::close(reader);
}

TEST_F(TraceTest, ClientsFilesLieBesideTheOperatorsAndWereNotThereBefore) {
  const auto tracer = open();
  const auto precious = folder_ / "precious";
  std::ofstream(precious) << "keep";
  std::filesystem::create_symlink(precious, folder_ / "link");
  for (const std::string& name :
       {std::string("../x"), std::string("/tmp/gradus-x"), std::string("a/b"), std::string(".."),
        std::string(".hidden"), std::string(), std::string(101, 'a'),
        (folder_ / "sub" / "x").string()}) {
    EXPECT_THAT(fault(*tracer, set("trace_file", name)), HasSubstr("expected a plain name"))
        << name;
  }
  EXPECT_THAT(fault(*tracer, set("trace_file", "precious")), HasSubstr("File exists"));
  EXPECT_THAT(fault(*tracer, set("trace_file", "link")), HasSubstr("cannot be made"));
  EXPECT_EQ(content(precious), "keep");
  ASSERT_TRUE(tracer->change("m", set("trace_file", "mine.json")));
  EXPECT_EQ(shown(*tracer, "trace_file", "m"), (folder_ / "mine.json").string());
  EXPECT_EQ(shown(*tracer, "trace_file"), file_.string());
  EXPECT_EQ(taken(*tracer, 1), 1);
  tracer->flush(kLimit);
  EXPECT_THAT(content(folder_ / "mine.json"), HasSubstr("\"id\":1"));
  EXPECT_EQ(content(file_), "[\n]\n");
  EXPECT_EQ(fault(*tracer, set("trace_file", (folder_ / "mine.json").string())), "")
      << "as it was shown";
  EXPECT_EQ(fault(*tracer, set("trace_file", "trace.json")), "");
}

TEST_F(TraceTest, WithALogFrequencyThereAreNumberedFilesOfSoManyTraces) {
  const auto tracer = open();
  const auto ids = [](const std::filesystem::path& file) {
    std::string found;
    const std::string text = content(file);
    for (std::size_t at = 0; (at = text.find("{\"id\":", at)) != text.npos; at += 7) {
      if (text.compare(at + 7, 13, ",\"model_name\"") == 0) found += text[at + 6];
    }
    return found;
  };
  ASSERT_TRUE(tracer->change("", set("log_frequency", "2")));
  EXPECT_EQ(taken(*tracer, 5), 5);
  ASSERT_TRUE(tracer->change("", set("log_frequency", "0")));
  EXPECT_EQ(taken(*tracer, 1), 1);
  ASSERT_TRUE(tracer->change("", set("log_frequency", "1")));
  EXPECT_EQ(taken(*tracer, 1), 1);
  tracer->flush(kLimit);
  EXPECT_EQ(ids(file_.string() + ".0"), "12");
  EXPECT_EQ(ids(file_.string() + ".1"), "34");
  EXPECT_EQ(ids(file_.string() + ".2"), "5");
  EXPECT_EQ(ids(file_), "6");
  EXPECT_EQ(ids(file_.string() + ".3"), "7");
  EXPECT_FALSE(std::filesystem::exists(file_.string() + ".4"));
}

}  // namespace
}  // namespace gradus::api
