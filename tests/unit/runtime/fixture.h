// What the runtime's tests share: a runtime, paths of models, tensors made and read in one line.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ort/ort_runtime.h"

namespace gradus::runtime {

constexpr const char* kCpu = "CPUExecutionProvider";
constexpr const char* kOpenVino = "OpenVINOExecutionProvider";
constexpr const char* kWebGpu = "WebGpuExecutionProvider";

inline std::string demo(const std::string& file) { return GRADUS_DEMO "/" + file; }
inline std::string shared_model(const std::string& file) { return GRADUS_TEST_MODELS "/" + file; }
inline std::string own_model(const std::string& file) {
  return GRADUS_RUNTIME_TEST_MODELS "/" + file;
}

// OpenVINO's TBB opens a library with RTLD_DEEPBIND, which ends a process with a sanitizer: there a
// library that does not exist takes the plugin's place.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

inline std::unique_ptr<OrtRuntime> make_runtime(OrtRuntime::Options options = {}) {
  if (kSanitized) options.provider_libraries.try_emplace(kOpenVino, "/nonexistent/sanitized.so");
  auto made = OrtRuntime::create(options);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

inline LoadSpec on(std::vector<config::ProviderConfig> providers, const std::string& file) {
  LoadSpec spec;
  spec.file = file;
  spec.providers = std::move(providers);
  return spec;
}

/// The model on the CPU provider.
inline std::unique_ptr<Backend> load_cpu(const OrtRuntime& runtime, const std::string& file,
                                         config::CheckOutputs check = config::CheckOutputs::kNone) {
  LoadSpec spec = on({{kCpu, {}}}, file);
  spec.check_outputs = check;
  auto loaded = runtime.load(spec);
  if (!loaded) throw std::runtime_error(loaded.error().message);
  return std::move(loaded->backend);
}

/// The only model of a test, on the CPU provider; the backend outlives the runtime that made it.
inline std::unique_ptr<Backend> load_cpu(const std::string& file) {
  return load_cpu(*make_runtime(), file);
}

/// How many more threads there are while what `load` returns is there. Tried again until there are
/// as many as expected: a thread that has ended is listed a moment longer, and a sanitizer starts
/// one of its own.
template <class Load>
long threads_started(long expected, const Load& load) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  long started = 0;
  for (int tries = 0; tries < 50 && started != expected; ++tries) {
    const long before = threads();
    const auto loaded = load();
    started = threads() - before;
  }
  return started;
}

template <class T>
TensorView view(DType dtype, Shape shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), std::as_bytes(std::span(values))};
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

inline Result<std::vector<Tensor>> run_all(Backend& backend,
                                           const std::vector<TensorView>& inputs) {
  std::vector<std::size_t> outputs(backend.signature().outputs.size());
  std::iota(outputs.begin(), outputs.end(), std::size_t{0});
  return backend.run(inputs, outputs);
}

inline std::vector<std::uint8_t> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The first `count` Fashion-MNIST test images, [count, 1, 28, 28] in 0..1.
inline std::vector<float> fashion_images(std::size_t count) {
  const auto bytes = file_bytes(demo("samples/fashion-images.idx3"));
  std::vector<float> pixels(count * 28 * 28);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<float>(bytes.at(16 + i)) / 255;
  }
  return pixels;
}

/// The index of the greatest value in each row of `width`.
inline std::vector<int> best_of_rows(const std::vector<float>& values, std::size_t width) {
  std::vector<int> best;
  for (auto row = values.begin(); row != values.end(); row += static_cast<std::ptrdiff_t>(width)) {
    best.push_back(
        static_cast<int>(std::max_element(row, row + static_cast<std::ptrdiff_t>(width)) - row));
  }
  return best;
}

/// The labels that the model gives the first `count` test images, asked for in one batch.
inline std::vector<int> fashion_labels(Backend& backend, std::size_t count) {
  const auto images = fashion_images(count);
  const auto answer =
      run_all(backend, {view(DType::kFp32, {static_cast<std::int64_t>(count), 1, 28, 28}, images)});
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? best_of_rows(values_of<float>(answer->at(0)), 10) : std::vector<int>{};
}

}  // namespace gradus::runtime
