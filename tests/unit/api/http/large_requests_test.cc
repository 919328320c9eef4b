// Large binary tensors go from the socket through the engine to the socket in memory that is used
// again: no request allocates for its tensor's size.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "api/http/v2_routes.h"
#include "serving/ladder_engine.h"
#include "test_server.h"

namespace {
constexpr std::size_t kLargeAllocation = 64 << 10;
std::atomic<std::size_t> large_allocations{0};
thread_local bool is_client_thread = false;

void* counted(std::size_t size) noexcept {
  if (size >= kLargeAllocation && !is_client_thread) ++large_allocations;
  return std::malloc(size);
}
void* allocated(std::size_t size) {
  if (void* memory = counted(size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

// Not inline: GCC warns of mixed pairs where it inlines one of a pair only.
[[gnu::noinline]] void* operator new(std::size_t size) { return allocated(size); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return allocated(size); }
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace gradus::api {
namespace {

constexpr std::size_t kValues = 150'000;

/// Answers with its input, in memory that it has had from the start.
class Mirror final : public runtime::Backend {
 public:
  const runtime::Signature& signature() const override { return signature_; }
  const std::vector<runtime::Placement>& placement() const override { return placement_; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs, std::span<const std::size_t>,
                                  runtime::Stop*) override {
    std::memcpy(memory_->data(), inputs.views[0].data.data(), inputs.views[0].data.size());
    const auto bytes = std::as_bytes(std::span(*memory_)).first(inputs.views[0].data.size());
    return std::vector<Tensor>{{DType::kFp32, inputs.views[0].shape, bytes, memory_}};
  }

 private:
  const std::shared_ptr<std::vector<float>> memory_ = std::make_shared<std::vector<float>>(kValues);
  const runtime::Signature signature_{.inputs = {{"x", DType::kFp32, {-1}}},
                                      .outputs = {{"y", DType::kFp32, {-1}}}};
  const std::vector<runtime::Placement> placement_{{"CPUExecutionProvider", 1}};
};

TEST(LargeRequests, AllocateNothingOfTheirTensorsSize) {
  is_client_thread = true;
  config::LevelConfig level;
  level.name = "cpu";
  level.file = "cpu.onnx";
  level.providers = {{"CPUExecutionProvider", {}}};
  serving::ModelFolder folder;
  folder.name = "m";
  folder.versions.resize(1);
  folder.versions[0].number = 1;
  folder.versions[0].config.levels = {level};
  worker::SharedPool pool{{}};
  serving::LadderEngine engine(
      {folder}, std::nullopt, config::ServerConfig{},
      [](const runtime::LoadSpec&) -> Result<runtime::Loaded> {
        return runtime::Loaded{.backend = std::make_unique<Mirror>(),
                               .provider_used = "CPUExecutionProvider",
                               .node_share = 1};
      },
      serving::LadderEngine::Options{.cpus = 2}, steady_clock(), pool);
  ASSERT_TRUE(eventually([&] { return !engine.loading(); }));
  V2Routes routes(engine, {}, "1");
  HttpServer server(on_free_port(), routes, 2, steady_clock(), pool);
  const auto port = server.start();
  ASSERT_TRUE(port) << port.error().message;

  const std::vector<float> values(kValues, 1.5F);
  const std::string tensor(reinterpret_cast<const char*>(values.data()), 4 * kValues);
  std::string json = R"({"inputs":[{"name":"x","shape":[150000],"datatype":"FP32",)"
                     R"("parameters":{"binary_data_size":600000}}],)"
                     R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  if (json.size() % 2 == 0) json += ' ';  // no multiple of the tensor's alignment
  const std::string request =
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: " +
      std::to_string(json.size() + tensor.size()) +
      "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n\r\n" + json +
      tensor;
  RawClient client(*port);
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(client.send(request));
      const auto answer = client.read_answer();
      ASSERT_TRUE(answer);
      ASSERT_EQ(answer->status, 200) << answer->body;
      ASSERT_TRUE(answer->body.ends_with(tensor));
    }
  };
  ask(20);
  const std::size_t before = large_allocations;
  const std::uint64_t gone = pool.gone();
  ask(100);
  EXPECT_EQ(large_allocations - before, 0u);
  EXPECT_LT(pool.gone() - gone, 5u) << "but for a trim, blocks are used again";
}

}  // namespace
}  // namespace gradus::api
