#include "malformed_requests.h"

#include <thread>

#include "test_server.h"

namespace gradus::api {
namespace {

class MalformedRequests : public testing::TestWithParam<MalformedRequest> {};

TEST_P(MalformedRequests, AreAnsweredInJsonAndTheConnectionEnds) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  client.send(GetParam().bytes);
  const auto answer = client.read_answer();
  expect_json_error(answer, GetParam().status);
  EXPECT_EQ(answer->header("connection"), "close");
  EXPECT_TRUE(client.ends());
  EXPECT_EQ(handler.requests, 0);
}

INSTANTIATE_TEST_SUITE_P(Table, MalformedRequests, testing::ValuesIn(malformed_requests()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace gradus::api
