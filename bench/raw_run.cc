// ONNX Runtime alone: Session::Run in a loop with the threads of the server's level (one intra-op
// thread a run, several runs at once, no spinning) and ONNX Runtime's own defaults for all else.
// What a server is measured against.
//
//   raw_run MODEL SHAPE INPUT_FILE OUTPUT_FILE        SHAPE like 1x3x48x192, the input is FP32
//
// Runs once and writes the outputs' bytes to OUTPUT_FILE, prints `ready`, and then answers each
// line `THREADS SECONDS` of standard input with one line of JSON. Ends with standard input.
#include <onnxruntime_cxx_api.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cpu_count.h"
#include "files.h"
#include "latencies.h"

namespace gradus::bench {
namespace {

Duration cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

Ort::SessionOptions threads_as_in_the_server() {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  options.AddConfigEntry("session.intra_op.allow_spinning", "0");
  return options;
}

class Raw {
 public:
  Raw(const std::string& model, std::vector<std::int64_t> shape, std::string input)
      : session_(env_, model.c_str(), threads_as_in_the_server()),
        shape_(std::move(shape)),
        input_(std::move(input)) {
    Ort::AllocatorWithDefaultOptions allocator;
    input_name_ = session_.GetInputNameAllocated(0, allocator).get();
    for (std::size_t i = 0; i < session_.GetOutputCount(); ++i) {
      output_names_.emplace_back(session_.GetOutputNameAllocated(i, allocator).get());
    }
    for (const std::string& name : output_names_) output_pointers_.push_back(name.c_str());
  }

  std::vector<Ort::Value> run_once() {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const Ort::Value input =
        Ort::Value::CreateTensor(memory, input_.data(), input_.size(), shape_.data(), shape_.size(),
                                 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    const char* name = input_name_.c_str();
    return session_.Run(Ort::RunOptions{nullptr}, &name, &input, 1, output_pointers_.data(),
                        output_pointers_.size());
  }

  void measure(int threads, Duration time) {
    const Clock& clock = steady_clock();
    std::vector<std::vector<Duration>> times(static_cast<std::size_t>(threads));
    std::vector<double> rates(times.size());
    const Duration cpu_before = cpu_time();
    {
      std::vector<std::jthread> runners;
      for (std::size_t i = 0; i < times.size(); ++i) {
        runners.emplace_back([&, i] {
          const TimePoint start = clock.now();
          TimePoint now = start;
          while (now < start + time) {
            run_once();
            const TimePoint end = clock.now();
            times[i].push_back(end - now);
            now = end;
          }
          rates[i] = static_cast<double>(times[i].size()) /
                     std::chrono::duration<double>(now - start).count();
        });
      }
    }
    const Duration cpu = cpu_time() - cpu_before;
    std::vector<Duration> all;
    for (const auto& part : times) all.insert(all.end(), part.begin(), part.end());
    double rate = 0;
    for (const double part : rates) rate += part;
    std::printf(
        "{\"requests\": %zu, \"requests_per_second\": %.3f, \"p50_us\": %.2f, \"p99_us\": %.2f, "
        "\"cpu_us\": %.2f}\n",
        all.size(), rate, percentile_us(all, 0.5), percentile_us(all, 0.99),
        std::chrono::duration<double, std::micro>(cpu).count() / static_cast<double>(all.size()));
    std::fflush(stdout);
  }

 private:
  Ort::Env env_{ORT_LOGGING_LEVEL_WARNING, "raw_run"};
  Ort::Session session_;
  std::vector<std::int64_t> shape_;
  std::string input_;
  std::string input_name_;
  std::vector<std::string> output_names_;
  std::vector<const char*> output_pointers_;
};

Result<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  while (true) {
    const auto x = text.find('x');
    const auto dimension = parse_number<std::int64_t>(text.substr(0, x));
    if (!dimension) return tl::unexpected(dimension.error());
    shape.push_back(*dimension);
    if (x == std::string_view::npos) return shape;
    text.remove_prefix(x + 1);
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fprintf(stderr, "usage: raw_run MODEL SHAPE INPUT_FILE OUTPUT_FILE\n");
    return 2;
  }
  const auto shape = parse_shape(arguments[1]);
  auto input = read_file(arguments[2]);
  if (!shape || !input) {
    std::fprintf(stderr, "%s\n", (shape ? input.error() : shape.error()).message.c_str());
    return 2;
  }
  Raw raw(arguments[0], *shape, std::move(*input));
  std::ofstream output(arguments[3], std::ios::binary);
  for (const Ort::Value& value : raw.run_once()) {
    output.write(static_cast<const char*>(value.GetTensorRawData()),
                 static_cast<std::streamsize>(value.GetTensorSizeInBytes()));
  }
  output.close();
  if (!output) {
    std::fprintf(stderr, "%s: cannot be written\n", arguments[3].c_str());
    return 1;
  }
  const int cpus = usable_cpus();
  std::printf("ready %d\n", cpus);
  std::fflush(stdout);
  int concurrency = 0;
  double seconds = 0;
  while (std::cin >> concurrency >> seconds) {
    raw.measure(std::min(concurrency, cpus),
                std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  }
  return 0;
}

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  try {
    return gradus::bench::run({argv + 1, argv + argc});
  } catch (const Ort::Exception& error) {
    std::fprintf(stderr, "ONNX Runtime: %s\n", error.what());
    return 1;
  }
}
