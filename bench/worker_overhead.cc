// What isolation costs beyond the run itself: a session that computes nothing, in a worker, with
// inputs of several sizes and a small answer or one as large. Inputs lie in memory that the worker
// maps, as a request's body does, or elsewhere, so that they are copied first. An answer is copied
// once, by the worker.
//
//   worker_overhead [ROUNDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/host.h"
#include "worker/shared_pool.h"
#include "worker/worker.h"

namespace {

using namespace gradus;
using namespace std::chrono_literals;

constexpr const char* kBenchVersion = "bench";
constexpr int kWarmUp = 50;

// Output 0 is small, output 1 as large as the input; the bytes lie ready.
class Nothing final : public runtime::Backend {
 public:
  const runtime::Signature& signature() const override { return signature_; }
  const std::vector<runtime::Placement>& placement() const override { return placement_; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs, runtime::Stop*) override {
    if (outputs[0] == 0) return std::vector{small_};
    if (large_.data.size() != inputs.views[0].data.size()) {
      large_ = make_tensor(DType::kUint8, inputs.views[0].shape,
                           std::vector<std::byte>(inputs.views[0].data.size()));
    }
    return std::vector{large_};
  }

 private:
  const Tensor small_ = make_tensor(DType::kUint8, {40}, std::vector<std::byte>(40));
  Tensor large_;
  const runtime::Signature signature_{
      .inputs = {{"x", DType::kUint8, {-1}}},
      .outputs = {{"small", DType::kUint8, {40}}, {"large", DType::kUint8, {-1}}}};
  const std::vector<runtime::Placement> placement_;
};

Result<worker::LoadFn> make_load(const worker::Greeting&) {
  return worker::LoadFn([](const runtime::LoadSpec&) -> Result<runtime::Loaded> {
    return runtime::Loaded{std::make_unique<Nothing>(), "none", 1, {}};
  });
}

struct Spread {
  double p50, p99;  // us
};

template <class Work>
Spread measure(int rounds, Work&& work) {
  std::vector<double> times;
  for (int i = -kWarmUp; i < rounds; ++i) {
    const TimePoint begun = steady_clock().now();
    work();
    const TimePoint ended = steady_clock().now();
    if (i >= 0) times.push_back(to_ms(ended - begun) * 1000);
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

void one_size(worker::Worker& worker, std::uint64_t session, worker::SharedPool& pool,
              std::size_t bytes, int rounds) {
  // A body of a few bytes would be plain memory: here each lies in a block.
  const auto body = pool.acquire(std::max(bytes, std::size_t{64} << 10));
  if (body.owner == nullptr) std::abort();
  std::memset(body.data, 1, bytes);
  const std::vector<std::byte> elsewhere(bytes, std::byte{1});
  const auto run = [&](std::span<const std::byte> input, std::size_t output) {
    const std::vector inputs{TensorView{DType::kUint8, {static_cast<std::int64_t>(bytes)}, input}};
    const std::vector<std::size_t> outputs{output};
    return measure(rounds, [&] {
      if (!worker.run(session, inputs, outputs, 30s)) std::abort();
    });
  };
  const Spread there = run({body.data, bytes}, 0);
  const Spread copied = run(elsewhere, 0);
  const Spread large = run({body.data, bytes}, 1);
  std::printf("%9zu  %8.1f %8.1f  %8.1f %8.1f  %8.1f %8.1f\n", bytes, there.p50, there.p99,
              copied.p50, copied.p99, large.p50, large.p99);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "worker") {
    worker::host(std::atoi(argv[2]), kBenchVersion, make_load);
  }
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2000;
  worker::SharedPool pool(worker::SharedPool::Options{});
  worker::Worker::Options options;
  options.pool = &pool;
  options.greeting.version = kBenchVersion;
  options.greeting.device = "bench:0";
  const auto worker = worker::Worker::start(options);
  if (!worker) {
    std::fprintf(stderr, "%s\n", worker.error().message.c_str());
    return 1;
  }
  const auto session = (*worker)->load({}, 30s);
  if (!session) {
    std::fprintf(stderr, "%s\n", session.error().message.c_str());
    return 1;
  }
  std::printf("us; %d rounds\n", rounds);
  std::printf("           input in the pool  input copied       in the pool, large answer\n");
  std::printf("    bytes       p50      p99       p50      p99       p50      p99\n");
  for (const std::size_t bytes : {4'096UL, 600'000UL, 6'000'000UL}) {
    one_size(**worker, session->id, pool, bytes, rounds);
  }
  return 0;
}
