// A Backend over one ONNX Runtime session.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <memory>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "runtime/backend.h"
#include "runtime/ort/environment.h"
#include "runtime/ort/shrink_rule.h"

namespace gradus::runtime {

class OrtSession final : public Backend {
 public:
  /// kUnavailable: an input or output is no tensor, has a type that the protocol does not have, or
  /// (an input) any number of dimensions. Throws Ort::Exception.
  /// @param overridable as LoadSpec's
  static Result<std::unique_ptr<OrtSession>> make(std::shared_ptr<Environment> environment,
                                                  Ort::Session session, std::string provider,
                                                  const std::vector<std::string>& overridable);
  ~OrtSession() override;

  const Signature& signature() const override { return signature_; }
  const std::vector<Placement>& placement() const override { return placement_; }

  /// Outputs are checked from now on. Not while runs are going on.
  void set_check_outputs(config::CheckOutputs check) { check_ = check; }

  using Backend::run;
  Result<std::vector<Tensor>> run(const RunInputs& inputs, std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override;

 private:
  OrtSession(std::shared_ptr<Environment> environment, Ort::Session session, bool on_cpu,
             Mutex* one_at_a_time);

  std::vector<const char*> names_with(std::span<const std::size_t> optional) const;
  Result<std::vector<Ort::Value>> bind(const RunInputs& inputs) const;
  Result<std::vector<Tensor>> take(std::vector<Ort::Value> values,
                                   std::span<const std::size_t> outputs) const;

  const std::shared_ptr<Environment> environment_;
  Ort::Session session_;
  config::CheckOutputs check_ = config::CheckOutputs::kNone;
  const bool on_cpu_;
  Mutex* const one_at_a_time_;  // null: runs may overlap
  const Ort::MemoryInfo cpu_memory_;
  Signature signature_;
  std::vector<Placement> placement_;
  std::vector<const char*> input_names_;   // into signature_
  std::vector<const char*> output_names_;  // into signature_
  Ort::RunOptions run_options_;
  Ort::RunOptions shrinking_run_options_;
  ShrinkRule shrink_rule_;
};

}  // namespace gradus::runtime
