#include "worker/wire.h"

#include <gtest/gtest.h>

#include "worker/run_wire.h"
#include "worker/socket.h"
#include "worker/spec_wire.h"

namespace gradus::worker {
namespace {

runtime::LoadSpec some_spec() {
  runtime::LoadSpec spec;
  spec.file = "/models/a b/1/model.onnx";
  spec.providers = {{"CUDAExecutionProvider", {{"device_id", "1"}, {"x", ""}}}, {"Other", {}}};
  spec.device_ids = {0, 3};
  spec.threads = 5;
  spec.execution_mode = config::ExecutionMode::kParallel;
  spec.inter_op_threads = 6;
  spec.allow_software_gpu = true;
  spec.check_outputs = config::CheckOutputs::kFinite;
  spec.overridable = {"scale", "shift"};
  return spec;
}

TEST(Wire, ASpecArrivesAsItWas) {
  const runtime::LoadSpec sent = some_spec();
  Writer writer;
  put_spec(writer, sent);
  Reader reader(writer.body());
  const runtime::LoadSpec came = get_spec(reader);
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(came.file, sent.file);
  EXPECT_EQ(came.providers, sent.providers);
  EXPECT_EQ(came.device_ids, sent.device_ids);
  EXPECT_EQ(came.threads, sent.threads);
  EXPECT_EQ(came.execution_mode, sent.execution_mode);
  EXPECT_EQ(came.inter_op_threads, sent.inter_op_threads);
  EXPECT_EQ(came.allow_software_gpu, sent.allow_software_gpu);
  EXPECT_EQ(came.check_outputs, sent.check_outputs);
  EXPECT_EQ(came.overridable, sent.overridable);
}

TEST(Wire, AGreetingArrivesAsItWas) {
  const Greeting sent{"1.2.3", "webgpu:0",          log::Severity::kDebug, log::Format::kJson,
                      true,    {{"P", "/lib/p.so"}}};
  Writer writer;
  put_greeting(writer, sent);
  Reader reader(writer.body());
  EXPECT_EQ(get_greeting(reader), sent);
  EXPECT_TRUE(reader.at_end());
}

TEST(Wire, EveryTruncationIsNoticed) {
  Writer spec;
  put_spec(spec, some_spec());
  Writer loaded;
  put_loaded(loaded, {.signature = {{{"x", DType::kFp32, {-1, 3}}},
                                    {{"y", DType::kBytes, {}}},
                                    {{"scale", DType::kFp32, {4}}}},
                      .placement = {{"P", 3}},
                      .provider_used = "P",
                      .node_share = 0.75,
                      .failures = {{"Q", "why"}}});
  Writer run;
  put_run(run, {1, 4, {5}, 2, {3}, {0, 1}, {2}, {{DType::kFp32, {2, 2}, 0, 16}}});
  for (std::size_t size = 0; size < spec.body().size(); ++size) {
    Reader reader(spec.body().first(size));
    get_spec(reader);
    EXPECT_FALSE(reader.at_end()) << size;
  }
  for (std::size_t size = 0; size < loaded.body().size(); ++size) {
    Reader reader(loaded.body().first(size));
    get_loaded(reader);
    EXPECT_FALSE(reader.at_end()) << size;
  }
  for (std::size_t size = 0; size < run.body().size(); ++size) {
    Reader reader(run.body().first(size));
    get_run(reader);
    EXPECT_FALSE(reader.at_end()) << size;
  }
}

TEST(Wire, ACountThatCannotBeTrueReservesNothing) {
  Writer writer;
  writer.put(std::uint32_t{0xffffffff}).put(std::uint64_t{0});
  Reader reader(writer.body());
  EXPECT_EQ(reader.count(4), 0U);
  EXPECT_FALSE(reader.ok());
}

TEST(Wire, UnknownTypesAndNegativeDimensionsAreRefused) {
  Writer type;
  type.put(std::uint32_t{14});
  Reader reader(type.body());
  get_dtype(reader);
  EXPECT_FALSE(reader.ok());
  Writer shape;
  put_shape(shape, {2, -1});
  Reader strict(shape.body());
  get_shape(strict, 0);
  EXPECT_FALSE(strict.ok());
  Reader variable(shape.body());
  EXPECT_EQ(get_shape(variable, -1), (Shape{2, -1}));
}

TEST(ViewsIn, RefusesWhatIsNotInTheSegment) {
  const std::vector<std::byte> segment(256);
  const auto ok = [&](Placed tensor) { return views_in(segment, {std::move(tensor)}).has_value(); };
  EXPECT_TRUE(ok({DType::kFp32, {4}, 64, 16}));
  EXPECT_TRUE(ok({DType::kFp32, {64}, 0, 256}));
  EXPECT_TRUE(ok({DType::kFp32, {0}, 256, 0}));
  EXPECT_FALSE(ok({DType::kFp32, {4}, 256, 16}));
  EXPECT_FALSE(ok({DType::kFp32, {65}, 0, 260}));
  EXPECT_FALSE(ok({DType::kFp32, {16}, ~std::uint64_t{63}, 64}));
  EXPECT_TRUE(ok({DType::kFp32, {4}, 4, 16}));
  EXPECT_TRUE(ok({DType::kUint8, {4}, 3, 4}));
  EXPECT_FALSE(ok({DType::kFp32, {4}, 6, 16}));  // not aligned
  EXPECT_FALSE(ok({DType::kInt64, {2}, 4, 16}));
  EXPECT_FALSE(ok({DType::kFp32, {5}, 0, 16}));                     // shape and bytes disagree
  EXPECT_FALSE(ok({DType::kFp32, {1LL << 62, 1LL << 62}, 0, 16}));  // overflows
  EXPECT_FALSE(ok({DType::kBytes, {1LL << 40}, 0, 16}));            // more elements than bytes
}

TEST(Layout, TensorsAreAlignedAndDoNotOverlap) {
  EXPECT_EQ(layout(std::vector<std::uint64_t>{1, 64, 65, 0, 3}),
            (std::vector<std::uint64_t>{0, 64, 128, 256, 256, 320}));
}

TEST(Socket, AMessageArrivesWithItsDescriptor) {
  auto [here, there] = Socket::pair().value();
  Writer writer;
  writer.text("hello");
  ASSERT_TRUE(here.send(Kind::kRun, 42, writer.body(), here.fd()));
  const auto message = there.receive();
  ASSERT_TRUE(message && *message);
  EXPECT_EQ((*message)->kind, Kind::kRun);
  EXPECT_EQ((*message)->request, 42U);
  EXPECT_TRUE((*message)->fd);
  Reader reader((*message)->body);
  EXPECT_EQ(reader.text(), "hello");
}

TEST(Socket, TheLargestMessagePassesAndALargerOneIsRefused) {
  auto [here, there] = Socket::pair().value();
  const std::vector<std::byte> body(kMaxBody + 1);
  EXPECT_EQ(here.send(Kind::kLoadReply, 1, body).error().code, Code::kInternal);
  ASSERT_TRUE(here.send(Kind::kLoadReply, 1, std::span(body).first(kMaxBody)));
  EXPECT_EQ((*there.receive())->body.size(), kMaxBody);
}

TEST(Socket, SendingNeverWaitsForAPeerThatDoesNotRead) {
  auto [here, there] = Socket::pair().value();
  const std::vector<std::byte> body(kMaxBody);
  Result<void> sent;
  for (int i = 0; i < 1000 && sent; ++i) sent = here.send(Kind::kPing, 1, body);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kUnavailable);
}

TEST(Socket, TheEndOfThePeerIsNoMessage) {
  auto [here, there] = Socket::pair().value();
  there = Socket();
  EXPECT_FALSE(here.receive().value());
}

}  // namespace
}  // namespace gradus::worker
