// What clients set over HTTP, who may, and what it does to inference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <sstream>

#include "base/log.h"
#include "fake_engine.h"
#include "unit/api/shared_object.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kInfer = "/v2/models/m/infer";

class ControlRoutesTest : public testing::Test {
 protected:
  HttpResponse get(std::string_view target) { return Call("GET", target).on(routes_); }
  HttpResponse post(std::string_view target, std::string body = "",
                    std::string_view peer = "127.0.0.1") {
    Call call("POST", target);
    call.request.peer = peer;
    return call.body(std::move(body)).on(routes_);
  }
  // What names a region is decoded by another thread.
  HttpResponse infer(std::string body) {
    struct Sink final : ReplySink {
      void send(HttpResponse response) override { answer.set_value(std::move(response)); }
      std::promise<HttpResponse> answer;
    };
    const auto sink = std::make_shared<Sink>();
    Call call("POST", kInfer);
    routes_.handle(call.body(std::move(body)).request, Reply(sink));
    return sink->answer.get_future().get();
  }
  static std::string region_of(const SharedObject& object, int offset, int size) {
    return R"({"key":")" + object.key + R"(","offset":)" + std::to_string(offset) +
           R"(,"byte_size":)" + std::to_string(size) + "}";
  }
  static std::shared_ptr<Control> control() {
    auto made = std::make_shared<Control>();
    made->shared_memory = std::make_unique<SharedMemory>(8);
    return made;
  }

  static std::filesystem::path trace_file() {
    return testing::TempDir() + "routes_trace_" + std::to_string(::getpid());
  }
  // What is in the file, which is removed.
  std::string traces(const std::filesystem::path& file) {
    control_->tracer->flush(10s);
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    std::filesystem::remove(file);
    return text.str();
  }

  FakeEngine engine_;
  std::shared_ptr<Control> control_ = control();
  V2Routes routes_{engine_, {}, "1", Admin::open({.allow_from_loopback = true}).value(), control_};
};

TEST_F(ControlRoutesTest, TensorsGoThroughSharedMemoryBothWays) {
  const SharedObject object(64);
  object.write(floats({1.5f, -2.5f}), 16);
  EXPECT_EQ(post("/v2/systemsharedmemory/region/in/register", region_of(object, 8, 24)).status,
            200);
  EXPECT_EQ(post("/v2/systemsharedmemory/region/out/register", region_of(object, 32, 32)).status,
            200);
  const HttpResponse response = infer(
      R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":)"
      R"({"shared_memory_region":"in","shared_memory_offset":8,"shared_memory_byte_size":8}}],)"
      R"("outputs":[{"name":"y","parameters":)"
      R"({"shared_memory_region":"out","shared_memory_offset":4,"shared_memory_byte_size":20}}]})");
  ASSERT_EQ(response.status, 200) << response.head;
  EXPECT_THAT(response.head,
              HasSubstr(R"("shape":[2],"parameters":{"shared_memory_region":"out",)"
                        R"("shared_memory_byte_size":8,"shared_memory_offset":4}})"));
  EXPECT_THAT(response.head, Not(HasSubstr("\"data\"")));
  EXPECT_EQ(object.read(8, 36), floats({1.5f, -2.5f}));
}

TEST_F(ControlRoutesTest, WhatDoesNotFitItsRegionIsSaidWithSizes) {
  const SharedObject object(64);
  ASSERT_EQ(post("/v2/systemsharedmemory/region/r/register", region_of(object, 0, 64)).status, 200);
  const auto input = [](std::string_view rest) {
    return R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32",)" + std::string(rest);
  };
  const std::string data = input(R"("data":[1,2]}],"outputs":[{"name":"y","parameters":)");
  const std::pair<std::string, const char*> table[] = {
      {input(R"("parameters":{"shared_memory_region":"r","shared_memory_byte_size":12}}]})"),
       "input 'x': parameter 'shared_memory_byte_size' is 12, shape [2] needs 2 x 4 bytes"},
      {input(R"("parameters":{"shared_memory_region":"r","shared_memory_byte_size":8,)"
             R"("shared_memory_offset":57}}]})"),
       "region 'r' has 64 bytes; 8 at offset 57 are beyond it"},
      {input(R"("parameters":{"shared_memory_region":"r"}}]})"),
       "parameter 'shared_memory_byte_size' is missing"},
      {input(R"("parameters":{"shared_memory_byte_size":8}}]})"),
       "parameter 'shared_memory_region' is missing"},
      {input(R"("data":[1,2],"parameters":{"shared_memory_region":"r",)"
             R"("shared_memory_byte_size":8}}]})"),
       "has both a place in shared memory and 'data'"},
      {data + R"({"shared_memory_region":"r","shared_memory_byte_size":7}}]})",
       "output 'y': it has 8 bytes, parameter 'shared_memory_byte_size' leaves room for 7"},
      {data + R"({"shared_memory_region":"r","shared_memory_byte_size":8,"classification":1}}]})",
       "do not go together"},
  };
  for (const auto& [json, text] : table) {
    const HttpResponse response = infer(json);
    EXPECT_EQ(response.status, 400) << json;
    EXPECT_THAT(response.head, HasSubstr(text));
  }
  const std::string elsewhere = R"({"shared_memory_region":"q","shared_memory_byte_size":8}}]})";
  for (const std::string& json : {input(R"("parameters":)" + elsewhere), data + elsewhere}) {
    const HttpResponse response = infer(json);
    EXPECT_EQ(response.status, 404) << json;
    EXPECT_THAT(response.head, AllOf(HasSubstr("put '"), HasSubstr("no shared memory region 'q'")));
  }
  object.resize(4);
  EXPECT_THAT(infer(data + R"({"shared_memory_region":"r","shared_memory_byte_size":8}}]})").head,
              HasSubstr("is shorter than when it was registered"));
}

TEST_F(ControlRoutesTest, RegionsAreListedAndLeave) {
  const SharedObject object(64);
  ASSERT_EQ(post("/v2/systemsharedmemory/region/a/register", region_of(object, 8, 24)).status, 200);
  EXPECT_EQ(post("/v2/systemsharedmemory/region/a/register", region_of(object, 0, 8)).status, 400);
  ASSERT_EQ(post("/v2/systemsharedmemory/region/b/register", region_of(object, 0, 8)).status, 200);
  const std::string a = R"({"name":"a","key":")" + object.key + R"(","offset":8,"byte_size":24})";
  EXPECT_EQ(get("/v2/systemsharedmemory/region/a/status").head, "[" + a + "]");
  EXPECT_THAT(get("/v2/systemsharedmemory/status").head, HasSubstr("[" + a + ",{\"name\":\"b\""));
  EXPECT_EQ(get("/v2/systemsharedmemory/region/c/status").status, 404);
  EXPECT_EQ(post("/v2/systemsharedmemory/region/a/unregister").status, 200);
  EXPECT_EQ(get("/v2/systemsharedmemory/region/a/status").status, 404);
  EXPECT_EQ(post("/v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(get("/v2/systemsharedmemory/status").head, "[]");
}

TEST_F(ControlRoutesTest, WithoutTheFlagThereIsNoSharedMemory) {
  V2Routes closed(engine_, {}, "1");
  const SharedObject object(64);
  const auto added =
      Call("POST", "/v2/systemsharedmemory/region/a/register").body(region_of(object, 0, 8));
  EXPECT_THAT(Call(added).on(closed).head, HasSubstr("--allow-client-shm"));
  EXPECT_EQ(Call("GET", "/v2/systemsharedmemory/status").on(closed).head, "[]");
  EXPECT_EQ(Call("POST", "/v2/systemsharedmemory/unregister").on(closed).status, 200);
  EXPECT_THAT(Call("GET", "/v2").on(closed).head, Not(HasSubstr("system_shared_memory")));
  EXPECT_THAT(get("/v2").head, HasSubstr("system_shared_memory"));
}

TEST_F(ControlRoutesTest, OfCudaMemoryOnlyUnregisteringWorks) {
  EXPECT_EQ(post("/v2/cudasharedmemory/unregister").status, 200);
  EXPECT_EQ(get("/v2/cudasharedmemory/status").head, "[]");
  const HttpResponse response = post("/v2/cudasharedmemory/region/a/register", "{}");
  EXPECT_EQ(response.status, 501);
  EXPECT_THAT(response.head, HasSubstr("register system shared memory"));
}

TEST_F(ControlRoutesTest, ClassesComeWithTheModelsLabels) {
  engine_.info.batched = true;
  engine_.info.labels["y"] = {"shirt", "bag"};
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2,4,3]}],)"
      R"("outputs":[{"name":"y","parameters":{"classification":1}}]})";
  EXPECT_THAT(post(kInfer, json).head,
              HasSubstr(R"("name":"y","datatype":"BYTES","shape":[2,1],)"
                        R"("data":["2.000000:1:bag","4.000000:0:shirt"])"));
}

TEST_F(ControlRoutesTest, WhoMayNotChangesNeitherLogNorTraces) {
  for (const std::string path :
       {"/v2/logging", "/v2/trace/setting", "/v2/models/m/trace/setting"}) {
    const HttpResponse response = post(path, R"({"any":"1"})", "10.0.0.7");
    EXPECT_EQ(response.status, 403) << path;
    EXPECT_THAT(response.head, HasSubstr("--admin-token-file"));
    const HttpResponse asked = post(path, "{}", "10.0.0.7");
    EXPECT_EQ(asked.status, 200) << "asking is free: " << path;
    EXPECT_EQ(asked.head, get(path).head);
  }
  EXPECT_EQ(get("/v2/models/other/trace/setting").status, 404);
  EXPECT_EQ(post("/v2/models/other/trace/setting", "{}").status, 404);
}

TEST_F(ControlRoutesTest, TheLogIsSet) {
  const log::Severities before = log::severities();
  const HttpResponse response = post("/v2/logging", R"({"log_warning":false})");
  EXPECT_FALSE(log::enabled(log::Severity::kWarning));
  log::set_severities(before);
  EXPECT_EQ(response.head,
            R"({"log_error":true,"log_file":"","log_format":"default","log_info":true,)"
            R"("log_verbose_level":0,"log_warning":false})");
  EXPECT_EQ(post("/v2/logging", R"({"log_file":"x"})").status, 400);
}

TEST_F(ControlRoutesTest, ATracedRequestIsWrittenWithItsTimes) {
  const std::filesystem::path file = trace_file();
  control_->tracer = Tracer::make({.file = file.string()}).value();
  ASSERT_TRUE(control_->tracer->start());
  ASSERT_EQ(post("/v2/models/m/trace/setting",
                 R"({"trace_level":["TIMESTAMPS"],"trace_rate":"1","trace_count":"1"})")
                .status,
            200);
  const std::string json =
      R"({"id":"7","inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})";
  HttpResponse traced = post(kInfer, json);
  EXPECT_EQ(traced.status, 200);
  ASSERT_TRUE(traced.send_times) << "who writes the answer says when";
  traced.send_times->begun = TimePoint(5ns);
  traced = post(kInfer, json);
  EXPECT_EQ(traced.status, 200);
  EXPECT_FALSE(traced.send_times);
  EXPECT_THAT(get("/v2/models/m/trace/setting").head, HasSubstr(R"("trace_count":"0")"));
  EXPECT_THAT(traces(file),
              AllOf(HasSubstr(R"("request_id":"7","level":2)"), HasSubstr("HTTP_RECV_START"),
                    HasSubstr("REQUEST_START"), HasSubstr("COMPUTE_END"),
                    HasSubstr("HTTP_SEND_START"), Not(HasSubstr("\"id\":2"))));
}

TEST_F(ControlRoutesTest, ARefusedRequestIsTracedWithItsErrorAndWhatItsClientSaid) {
  const std::filesystem::path file = trace_file();
  control_->tracer =
      Tracer::make({.file = file.string(), .level = config::TraceLevel::kTimestamps, .rate = 1})
          .value();
  ASSERT_TRUE(control_->tracer->start());
  const std::string no_data = R"({"id":"7","inputs":[{"name":"x","shape":[1]}]})";
  const std::string classes =
      R"({"id":"8","inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],)"
      R"("outputs":[{"name":"y","parameters":{"classification":1}}]})";
  EXPECT_EQ(post("/v2/models/m/versions/3/infer", no_data).status, 400);
  EXPECT_EQ(post("/v2/models/gone/infer", classes).status, 404);
  EXPECT_EQ(Call("POST", kInfer).with("Content-Encoding", "br").body("x").on(routes_).status, 415);
  EXPECT_EQ(Call("POST", kInfer).with("gradus-strict", "1").body("x").on(routes_).status, 400);
  engine_.on_infer = [](const serving::Request&, const serving::Done& done) {
    done(fail(Code::kOverloaded, "full"));
  };
  const std::string good =
      R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"id":"9"})";
  EXPECT_EQ(post("/v2/models/m/versions/1/infer", good).status, 429);
  const std::string text = traces(file);
  for (const std::string about :
       {R"("model_name":"m","model_version":3,"request_id":"7","error":"input 'x')",
        R"("model_name":"gone","model_version":-1,"request_id":"8","error":"no model 'gone'"})",
        R"("model_version":-1,"request_id":"","error":"Content-Encoding is 'br')",
        R"("model_version":-1,"request_id":"","error":"header gradus-strict)",
        R"("model_name":"m","model_version":1,"request_id":"9","error":"full"})"}) {
    EXPECT_THAT(text, HasSubstr(about));
  }
  std::size_t at = 0;
  for (int trace = 0; trace < 5; ++trace) {
    for (const char* const name :
         {"HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "REQUEST_END"}) {
      at = text.find(name, at);
      ASSERT_NE(at, std::string::npos) << name << " of trace " << trace;
    }
  }
}

}  // namespace
}  // namespace gradus::api
