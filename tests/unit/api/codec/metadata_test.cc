#include "api/codec/metadata.h"

#include <gtest/gtest.h>

#include "api/codec/status.h"
#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

TEST(Metadata, HealthBodiesAreWhatClientsParse) {
  EXPECT_EQ(live_json(true), R"({"live":true})");
  EXPECT_EQ(live_json(false), R"({"live":false})");
  EXPECT_EQ(ready_json(true), R"({"ready":true})");
  EXPECT_EQ(ready_json(false), R"({"ready":false})");
  EXPECT_EQ(model_ready_json("a\"b", true), R"({"name":"a\"b","ready":true})");
}

TEST(Metadata, ErrorsAreValidJsonWhateverTheirText) {
  EXPECT_EQ(error_json("input 'x': no"), R"({"error":"input 'x': no"})");
  EXPECT_EQ(json_fault(error_json(std::string_view("\"\n\0\xff\\", 5))), "");
}

TEST(Metadata, ServerNamesOnlyExtensionsThatWork) {
  EXPECT_EQ(server_metadata_json("1.2.3"),
            R"({"name":"gradus","version":"1.2.3","extensions":["binary_tensor_data",)"
            R"("classification","model_repository","schedule_policy","model_configuration",)"
            R"("parameters","statistics","trace","logging"]})");
}

TEST(Metadata, ModelShapesKeepVariableDimensions) {
  serving::ModelInfo info;
  info.name = "fashion";
  info.versions = {"1", "2"};
  info.signature = {{{"image", DType::kFp32, {-1, 1, 28, 28}}, {"words", DType::kBytes, {}}},
                    {{"logits", DType::kFp32, {-1, 10}}}};
  EXPECT_EQ(model_metadata_json(info),
            R"({"name":"fashion","versions":["1","2"],"platform":"onnxruntime_onnx","inputs":[)"
            R"({"name":"image","datatype":"FP32","shape":[-1,1,28,28]},)"
            R"({"name":"words","datatype":"BYTES","shape":[]}],"outputs":[)"
            R"({"name":"logits","datatype":"FP32","shape":[-1,10]}]})");
}

TEST(Status, EachCodeHasItsOwn) {
  EXPECT_EQ(http_status(Code::kInvalid), 400);
  EXPECT_EQ(http_status(Code::kNotFound), 404);
  EXPECT_EQ(http_status(Code::kOverloaded), 429);
  EXPECT_EQ(http_status(Code::kDeadline), 504);
  EXPECT_EQ(http_status(Code::kUnavailable), 503);
  EXPECT_EQ(http_status(Code::kInternal), 500);
  EXPECT_EQ(http_status(Code::kWorkerLost), 503);
}

}  // namespace
}  // namespace gradus::api
