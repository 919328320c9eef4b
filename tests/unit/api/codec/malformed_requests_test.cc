// Every way to get a request wrong that we could think of: each is the client's fault, and the
// text says what is wrong where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string json;
  std::string message;              // a part of it
  std::optional<std::string> tail;  // binary data after the JSON; nothing: no length header
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto decoded = c.tail ? decode(c.json, *c.tail) : decode(c.json);
    ASSERT_FALSE(decoded) << c.json;
    EXPECT_EQ(decoded.error().code, Code::kInvalid) << c.json;
    EXPECT_THAT(decoded.error().message, HasSubstr(c.message)) << c.json;
  }
}

std::string in(std::string_view members) { return "{\"inputs\":[{" + std::string(members) + "}]}"; }

std::string data(std::string_view datatype, std::string_view shape, std::string_view values) {
  return one_input(datatype, shape, "\"data\":" + std::string(values));
}

// A good input, then more members of the request.
std::string with(std::string_view members) {
  return R"({"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1]}],)" +
         std::string(members) + "}";
}

TEST(MalformedRequests, TextThatIsNoJson) {
  expect_refused({
      {"", "malformed JSON"},
      {" ", "malformed JSON"},
      {"{", "malformed JSON"},
      {"}", "the request must be a JSON object"},
      {"null", "the request must be a JSON object"},
      {"[]", "the request must be a JSON object"},
      {"\"inputs\"", "the request must be a JSON object"},
      {"7", "the request must be a JSON object"},
      {"{\"inputs\":[}", "malformed JSON"},
      {"{\"inputs\":[]", "malformed JSON"},
      {"{\"inputs\" []}", "malformed JSON"},
      {"{inputs:[]}", "malformed JSON"},
      {"{'inputs':[]}", "malformed JSON"},
      {"{\"inputs\":[],}", "malformed JSON"},
      {"{\"inputs\":[]}}", "malformed JSON"},
      {"{\"inputs\":[]}{}", "malformed JSON: '{}' follows the request at byte 13"},
      {"{\"inputs\":[]} x", "malformed JSON: 'x' follows the request at byte 14"},
      {R"({"inputs":[],"id":"}\\\"}"}xx)", "malformed JSON: 'xx' follows the request at byte 27"},
      {R"({"inputs":[{"a":2}] x)", "malformed JSON at byte 0"},
      {"{\"inputs\":] x", "malformed JSON at byte 0"},
      {"\xEF\xBB\xBF{\"inputs\":[]}",
       "the request must be a JSON object, without a byte order mark before it"},
      {with("\"id\":\"\xff\""), "malformed JSON: The input is not valid UTF-8"},
      {with("\"id\":\"\xed\xa0\x80\""), "not valid UTF-8"},
      {with("\"id\":\"a\nb\""), "malformed JSON"},
      {with("\"id\":\"\\x\""), "malformed JSON"},
      {with("\"id\":\"\\u12\""), "malformed JSON"},
      {with("\"id\":\"\\ud800\""), "malformed JSON"},
      {with("\"id\":\"\\udc00\""), "malformed JSON"},
      {with("\"id\":\"\\ud800\\u0041\""), "malformed JSON"},
      {with("\"id\":\"\\ud800\\ud800\""), "malformed JSON"},
      {with("\"\\udc00\":1"), "malformed JSON"},
      {with("\"id\":\"open"), "malformed JSON"},
      {with("\"other\":nul"), "malformed JSON"},
      {with("\"other\":truely"), "malformed JSON"},
      {with("\"other\":01"), "malformed JSON"},
      {with("\"other\":NaN"), "malformed JSON"},
      {with("\"other\":[1 2]"), "malformed JSON"},
      {with("\"other\":{\"a\":1,\"b\"}"), "malformed JSON"},
      {with("\"other\":[[1,2}"), "malformed JSON"},
      {with("\"other\":" + std::string(120, '[') + std::string(120, ']')),
       "nested deeper than 100 levels"},
      {with("\"other\":{\"a\":" + std::string(99, '[') + std::string(99, ']') + "}"),
       "nested deeper than 100 levels"},
  });
}

TEST(MalformedRequests, Members) {
  expect_refused({
      {"{}", "'inputs' is missing"},
      {"{\"id\":\"7\"}", "'inputs' is missing"},
      {"{\"inputs\":null}", "'inputs' is null; expected an array"},
      {"{\"inputs\":{}}", "'inputs' is an object; expected an array"},
      {"{\"inputs\":[],\"inputs\":[]}", "'inputs' comes twice"},
      {"{\"inputs\":[7]}", "inputs[0]: it is 7; expected an object"},
      {"{\"inputs\":[[]]}", "inputs[0]: it is an array; expected an object"},
      {with("\"id\":7"), "'id' is 7; expected a string"},
      {with("\"id\":\"a\",\"id\":\"b\""), "'id' comes twice"},
      {with("\"parameters\":[]"), "'parameters' is an array; expected an object"},
      {with("\"parameters\":{},\"parameters\":{}"), "'parameters' comes twice"},
      {in(R"("datatype":"INT8","shape":[1],"data":[1])"), "inputs[0]: 'name' is missing"},
      {in(R"("name":"","datatype":"INT8","shape":[1],"data":[1])"), "inputs[0]: 'name' is empty"},
      {in(R"("name":null,"datatype":"INT8","shape":[1],"data":[1])"), "'name' is null"},
      {in(R"("name":"x","name":"x","datatype":"INT8","shape":[1],"data":[1])"),
       "input 'x': 'name' comes twice"},
      {in(R"("name":"x","datatype":"INT8","data":[1])"), "input 'x': 'shape' is missing"},
      {in(R"("name":"x","shape":[1],"data":[1])"), "input 'x': 'datatype' is missing"},
      {in(R"("name":"x","datatype":"INT8","shape":[1])"),
       "input 'x': has neither 'data' nor parameter 'binary_data_size'; shape [1] needs 1"},
      {in(R"("name":"x","datatype":"INT8","shape":[1],"data":null)"), "has neither 'data'"},
      {in(R"("name":"x","datatype":"INT8","shape":[1],"data":[1],"data":[1])"),
       "'data' comes twice"},
      {in(R"("name":"x","datatype":"INT8","shape":[1],"shape":[1],"data":[1])"),
       "'shape' comes twice"},
      {in(R"("data":[1],"name":"x","datatype":"INT8","datatype":"INT8")"),
       "'datatype' comes twice"},
      {in(R"("name":"x","datatype":"INT8","shape":[1],"data":[1]},{"name":"x","shape":[1],
       "datatype":"INT8","data":[1])"),
       "input 'x': the name comes twice"},
  });
}

TEST(MalformedRequests, TheIdIsFoundAsFarAsTheTextCanBeRead) {
  const std::pair<const char*, const char*> table[] = {
      {R"({"id":"7","inputs":[{"name":"x","shape":"wrong"}]})", "7"},
      {R"({"inputs":[{"name":"x","parameters":{"id":"6"}}],"id":"7"})", "7"},
      {R"({"id":"7","inputs":[tru]})", "7"},
      {R"({"inputs":[}],"id":"7"})", ""},
      {R"({"id":7})", ""},
      {R"(["id"])", ""},
      {"", ""},
  };
  for (const auto& [json, id] : table) EXPECT_EQ(request_id(body_of(json), {}, {}), id) << json;
  const std::string_view binary = R"({"id":"7"}xyz)";
  EXPECT_EQ(request_id(body_of(binary), 10, {}), "7");
  EXPECT_EQ(request_id(body_of(binary), 99, {}), "");
}

TEST(MalformedRequests, DatatypesAndShapes) {
  expect_refused({
      {data("fp32", "[1]", "[1]"), "input 'x': 'datatype' is 'fp32'; expected BOOL, UINT8"},
      {data("FLOAT", "[1]", "[1]"), "'datatype' is 'FLOAT'"},
      {data("", "[1]", "[1]"), "'datatype' is ''"},
      {in(R"("name":"x","datatype":11,"shape":[1],"data":[1])"), "'datatype' is 11"},
      {data("INT8", "1", "[1]"), "input 'x': 'shape' is 1; expected an array"},
      {data("INT8", "\"[1]\"", "[1]"), "'shape' is \"[1]\"; expected an array"},
      {data("INT8", "[-1]", "[1]"), "shape[0] is -1; expected an integer in [0, 92233720368547758"},
      {data("INT8", "[1,1.5]", "[1]"), "shape[1] is 1.5"},
      {data("INT8", "[1e0]", "[1]"), "shape[0] is 1e0"},
      {data("INT8", "[\"1\"]", "[1]"), "shape[0] is \"1\""},
      {data("INT8", "[[1]]", "[1]"), "shape[0] is an array"},
      {data("INT8", "[null]", "[1]"), "shape[0] is null"},
      {data("INT8", "[9223372036854775808]", "[1]"), "shape[0] is 9223372036854775808"},
      {data("INT8", "[99999999999999999999]", "[1]"), "shape[0] is 99999999999999999999"},
      {data("INT8", "[4294967296,4294967296]", "[1]"), "more than 2^62 elements"},
      {data(
           "INT8",
           "[1" +
               [] {
                 std::string ones;
                 for (int i = 0; i < 64; ++i) ones += ",1";
                 return ones;
               }() +
               "]",
           "[1]"),
       "'shape' has more than 64 dimensions"},
  });
}

TEST(MalformedRequests, Elements) {
  expect_refused({
      {data("INT8", "[2]", "[1]"), "input 'x': data has 1 elements, shape [2] needs 2"},
      {data("INT8", "[2]", "[1,2,3]"), "data has more than 2 elements, shape [2] needs 2"},
      {data("INT8", "[2]", "[[1,2],[3]]"), "data has more than 2 elements"},
      {data("INT8", "[1]", "[]"), "data has 0 elements"},
      {data("INT8", "[0]", "[1]"), "data has more than 0 elements, shape [0] needs 0"},
      {data("BYTES", "[1]", "[\"a\",\"b\"]"), "data has more than 1 elements"},
      {data("BYTES", "[3]", "[\"a\",\"b\"]"), "data has 2 elements, shape [3] needs 3"},
      {data("INT8", "[2]", "1"), "data has 1 elements"},
      {data("INT8", "[1]", "{}"), "data element 0 is an object; expected INT8: an integer in"},
      {data("INT8", "[1]", "[128]"),
       "data element 0 is 128; expected INT8: an integer in [-128, 127]"},
      {data("INT8", "[3]", "[1,[2,-129]]"), "data element 2 is -129"},
      {data("UINT8", "[1]", "[256]"), "is 256; expected UINT8: an integer in [0, 255]"},
      {data("UINT8", "[1]", "[-1]"), "is -1; expected UINT8"},
      {data("INT16", "[1]", "[32768]"), "is 32768; expected INT16"},
      {data("UINT16", "[1]", "[65536]"), "is 65536; expected UINT16"},
      {data("INT32", "[1]", "[2147483648]"), "is 2147483648; expected INT32"},
      {data("UINT32", "[1]", "[4294967296]"), "is 4294967296; expected UINT32"},
      {data("INT64", "[1]", "[9223372036854775808]"), "is 9223372036854775808; expected INT64"},
      {data("UINT64", "[1]", "[18446744073709551616]"), "is 18446744073709551616; expected UINT64"},
      {data("INT32", "[1]", "[1.0]"), "is 1.0; expected INT32"},
      {data("INT32", "[1]", "[1e2]"), "is 1e2; expected INT32"},
      {data("INT32", "[1]", "[true]"), "is true; expected INT32"},
      {data("INT32", "[1]", "[\"1\"]"), "is \"1\"; expected INT32"},
      {data("INT32", "[1]", "[null]"), "is null; expected INT32"},
      {data("INT32", "[1]", "[NaN]"), "is NaN; expected INT32"},
      {data("BOOL", "[1]", "[1]"), "is 1; expected BOOL: true or false"},
      {data("BOOL", "[1]", "[\"true\"]"), "is \"true\"; expected BOOL"},
      {data("FP32", "[1]", "[1e39]"), "is 1e39; expected FP32: a number in its range"},
      {data("FP32", "[1]", "[3.4028235677973366e38]"), "expected FP32: a number in its range"},
      {data("FP64", "[1]", "[1e309]"), "is 1e309; expected FP64: a number in its range"},
      {data("FP32", "[1]", "[\"1.5\"]"), "is \"1.5\"; expected FP32"},
      {data("FP32", "[1]", "[\"nan\"]"), "is \"nan\"; expected FP32"},
      {data("FP32", "[1]", "[+1]"), "is +1; expected FP32"},
      {data("FP32", "[1]", "[.5]"), "is .5; expected FP32"},
      {data("FP32", "[1]", "[nan]"), "is nan; expected FP32"},
      {data("FP32", "[1]", "[--Infinity]"), "is --Infinity; expected FP32"},
      {data("FP32", "[1]", "[true]"), "is true; expected FP32"},
      {data("FP32", "[2]", "[1,,2]"), "malformed JSON"},
      {data("FP32", "[2]", "[1,2,]"), "malformed JSON"},
      {data("FP32", "[2]", "[1 2]"), "malformed JSON"},
      {data("FP32", "[2]", "[NaN 2]"), "malformed JSON"},
      {data("FP32", "[2]", "[1,2}"), "malformed JSON"},
      {data("FP32", "[2]", "[1,2"), "malformed JSON"},
      {data("BYTES", "[1]", "[1]"), "data element 0 is 1; expected a string"},
      {data("BYTES", "[1]", "[null]"), "data element 0 is null; expected a string"},
      {data("BYTES", "[1]", "[\"\\ud800x\"]"), "malformed JSON"},
      {data("BYTES", "[1]", "[\"a\",]"), "malformed JSON"},
      {data("BYTES", "[1]", "[\"\\udfff\"]"), "malformed JSON"},
      {data("FP16", "[1]", "[1]"), "FP16 has no JSON form: send it as binary data"},
      {data("BF16", "[1]", "[1]"), "BF16 has no JSON form: send it as binary data"},
      {in(R"("name":"x","data":[1,2},"datatype":"INT8","shape":[2])"), "malformed JSON"},
      {in(R"("name":"x","data":[1,300],"datatype":"INT8","shape":[2])"), "data element 1 is 300"},
  });
}

std::string binary(std::string_view datatype, std::string_view shape, std::string_view size) {
  return one_input(datatype, shape,
                   "\"parameters\":{\"binary_data_size\":" + std::string(size) + "}");
}

TEST(MalformedRequests, BinaryData) {
  expect_refused({
      {binary("FP32", "[2]", "8"),
       "input 'x': parameter 'binary_data_size' is 8, but 0 bytes are left in the body (there is "
       "no header Inference-Header-Content-Length)"},
      {binary("FP32", "[2]", "8"), "is 8, but 4 bytes are left in the body", "four"},
      {binary("FP32", "[1]", "4"), "4 bytes are left over after the binary data", "fourmore"},
      {binary("FP32", "[2]", "4"), "input 'x': has 4 bytes, shape [2] of FP32 needs 2 x 4", "four"},
      {binary("FP32", "[1]", "8"), "has 8 bytes, shape [1] of FP32 needs 1 x 4", "fourmore"},
      {binary("FP32", "[0]", "4"), "has 4 bytes, shape [0] of FP32 needs 0 x 4", "four"},
      {binary("FP64", "[4611686018427387904]", "8"), "needs 4611686018427387904 x 8", "fourmore"},
      {binary("INT8", "[1]", "-1"), "parameter 'binary_data_size' is -1", "x"},
      {binary("INT8", "[1]", "1.0"), "parameter 'binary_data_size' is 1.0", "x"},
      {binary("INT8", "[1]", "\"1\""), "parameter 'binary_data_size' is \"1\"", "x"},
      {binary("INT8", "[1]", "null"), "parameter 'binary_data_size' is null", "x"},
      {binary("INT8", "[1]", "18446744073709551615"), "'binary_data_size' is 1844674407", "x"},
      {binary("INT8", "[1]", "9223372036854775807"), "but 1 bytes are left", "x"},
      {one_input("INT8", "[1]", R"("data":[1],"parameters":{"binary_data_size":1})"),
       "has both 'data' and parameter 'binary_data_size'", "x"},
      {data("INT8", "[1]", "[1]"), "1 bytes are left over", "x"},
      {binary("BYTES", "[1]", "3"), "BYTES element 0 has 3 bytes of its 4-byte length prefix",
       "abc"},
      {binary("BYTES", "[1]", "6"), "BYTES element 0 says 3 bytes, 2 are left",
       std::string("\3\0\0\0ab", 6)},
      {binary("BYTES", "[1]", "5"), "BYTES element 0 says 4294967295 bytes",
       std::string("\xff\xff\xff\xff?", 5)},
      {binary("BYTES", "[2]", "5"), "has 1 BYTES elements, shape [2] needs 2",
       std::string("\1\0\0\0a", 5)},
      {binary("BYTES", "[0]", "5"), "has 1 BYTES elements, shape [0] needs 0",
       std::string("\1\0\0\0a", 5)},
      {one_input("INT8", "[1]", R"("parameters":{"shared_memory_region":"r"})"),
       "input 'x': parameters 'shared_memory_…' are not allowed here: the server was started "
       "without --allow-client-shm"},
      {one_input("INT8", "[1]", R"("data":[1],"parameters":{"custom":{}})"),
       "input 'x': parameter 'custom' is an object; expected a string, number or boolean"},
  });
}

TEST(MalformedRequests, HeaderLength) {
  const std::string json = data("INT8", "[1]", "[1]");
  const auto beyond = decode_infer("m", "", body_of(json), json.size() + 1);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Code::kInvalid);
  EXPECT_EQ(beyond.error().message, "Inference-Header-Content-Length is " +
                                        std::to_string(json.size() + 1) + ", but the body has " +
                                        std::to_string(json.size()) + " bytes");
  EXPECT_FALSE(decode_infer("m", "", body_of(json), SIZE_MAX));
  EXPECT_FALSE(decode_infer("m", "", body_of(json), json.size() - 1));
  EXPECT_FALSE(decode_infer("m", "", body_of(json), 0));
  EXPECT_FALSE(decode_infer("m", "", body_of(""), 0));
}

TEST(MalformedRequests, Parameters) {
  const auto with_parameter = [](std::string_view members) {
    return with("\"parameters\":{" + std::string(members) + "}");
  };
  expect_refused({
      {with_parameter(R"("binary_data_output":1)"),
       "parameter 'binary_data_output' is 1; expected true or false"},
      {with_parameter(R"("binary_data_output":"true")"), "'binary_data_output' is \"true\""},
      {with_parameter(R"("timeout":-5)"),
       "parameter 'timeout' is -5; expected an integer in [0, 3153"},
      {with_parameter(R"("timeout":1.5)"), "parameter 'timeout' is 1.5"},
      {with_parameter(R"("timeout":"")"), "parameter 'timeout' is \"\"; expected microseconds"},
      {with_parameter(R"("timeout":"5ms")"), "parameter 'timeout' is \"5ms\""},
      {with_parameter(R"("timeout":" 5")"), "parameter 'timeout' is \" 5\""},
      {with_parameter(R"("timeout":true)"), "parameter 'timeout' is true"},
      {with_parameter(R"("timeout":31536000000001)"), "parameter 'timeout' is 31536000000001"},
      {with_parameter(R"("timeout":"99999999999999999999")"), "'timeout' is \"99999999999999999"},
      {with_parameter(R"("min_level":-1)"), "parameter 'min_level' is -1"},
      {with_parameter(R"("max_level":"1")"), "parameter 'max_level' is \"1\""},
      {with_parameter(R"("max_level":2147483648)"), "parameter 'max_level' is 2147483648"},
      {with_parameter(R"("min_level":2,"max_level":1)"),
       "parameter 'min_level' is 2; expected at most 'max_level', 1"},
      {with_parameter(R"("custom":[1])"), "parameter 'custom' is an array"},
      {with_parameter(R"("custom":null)"), "parameter 'custom' is null"},
      {with_parameter(R"("custom":tru)"), "malformed JSON"},
  });
}

TEST(MalformedRequests, Outputs) {
  expect_refused({
      {with("\"outputs\":{}"), "'outputs' is an object; expected an array"},
      {with("\"outputs\":[\"y\"]"), "outputs[0]: it is \"y\"; expected an object"},
      {with("\"outputs\":[{}]"), "outputs[0]: 'name' is missing"},
      {with("\"outputs\":[{\"name\":\"\"}]"), "outputs[0]: 'name' is empty"},
      {with("\"outputs\":[{\"name\":7}]"), "outputs[0]: 'name' is 7"},
      {with("\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]"), "output 'y': the name comes twice"},
      {with("\"outputs\":[],\"outputs\":[]"), "'outputs' comes twice"},
      {with(R"("outputs":[{"name":"y","parameters":{"binary_data":0}}])"),
       "output 'y': parameter 'binary_data' is 0; expected true or false"},
      {with(R"("outputs":[{"name":"y","parameters":{"classification":-1}}])"),
       "output 'y': parameter 'classification' is -1"},
      {with(R"("outputs":[{"name":"y","parameters":{"shared_memory_byte_size":1}}])"),
       "output 'y': parameters 'shared_memory_…' are not allowed here"},
      {with(R"("outputs":[{"name":"y","parameters":{"custom":{"a":1}}}])"),
       "parameter 'custom' is an object"},
  });
}

TEST(MalformedRequests, LongNamesAreCutInTheText) {
  const auto decoded = decode(in("\"name\":\"" + std::string(100'000, 'n') + "\""));
  ASSERT_FALSE(decoded);
  EXPECT_LT(decoded.error().message.size(), 200u);
}

}  // namespace
}  // namespace gradus::api
