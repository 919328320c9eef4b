// The folders of tests/repositories/triton, read and loaded.
#pragma once
#include <filesystem>
#include <string>

#include "config/load.h"
#include "runtime/ort/ort_runtime.h"
#include "triton/read.h"

namespace gradus::triton {

inline const std::filesystem::path kRepository =
    std::filesystem::path(GRADUS_REPOSITORIES) / "triton";

inline serving::ConfigSource source_of(const std::string& model) {
  return {.model_folder = kRepository / model,
          .version_folder = kRepository / model / "1",
          .config = std::nullopt,
          .model = model};
}

/// A config that must be good.
inline config::ModelConfig read_good(const serving::ConfigSource& source) {
  const auto config = read_config(source, {});
  EXPECT_TRUE(config) << source.model << ": " << (config ? "" : config.error().front());
  return config ? *config : config::ModelConfig{};
}

/// The signature of the model's file, as ONNX Runtime has it.
inline runtime::Signature signature_of(const std::filesystem::path& file,
                                       const config::Declared& declared) {
  static const auto runtime = runtime::OrtRuntime::create({});
  if (!runtime) {
    ADD_FAILURE() << runtime.error().message;
    return {};
  }
  runtime::LoadSpec spec{
      .file = file, .providers = {{"CPUExecutionProvider", {}}}, .device_ids = {}};
  for (const config::DeclaredTensor& input : declared.inputs) {
    spec.overridable.push_back(input.name);
  }
  const auto loaded = (*runtime)->load(spec);
  EXPECT_TRUE(loaded) << file << ": " << (loaded ? "" : loaded.error().message);
  return loaded ? loaded->backend->signature() : runtime::Signature{};
}

}  // namespace gradus::triton
