#include "serving/warmup.h"

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sample_inputs.h"
#include "serving/request_check.h"

namespace gradus::serving {
namespace {

using Data = config::WarmupInput::Data;

Result<std::vector<std::byte>> bytes_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return fail(Code::kInvalid, file.string() + ": cannot be read");
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(bytes, bytes + text.size());
}

/// One sample of the input, without the batch's dimension.
Result<std::vector<std::byte>> one_sample(const config::WarmupInput& input, DType dtype) {
  if (input.data == Data::kFile) return bytes_of_file(input.file);
  if (input.data == Data::kRandom && dtype != DType::kBytes) {
    const auto made = runtime::sample_inputs({.inputs = {{input.name, dtype, input.dims}}}, 1);
    return std::vector<std::byte>(made[0].data.begin(), made[0].data.end());
  }
  const auto count = element_count(input.dims);
  if (!count) return tl::unexpected(count.error());
  constexpr std::size_t kEmptyText = 4;  // its length
  return std::vector<std::byte>(*count *
                                (dtype == DType::kBytes ? kEmptyText : element_size(dtype)));
}

Result<NamedTensor> make_input(const config::WarmupInput& input, std::uint32_t batch_size,
                               bool has_batch) {
  const auto dtype = parse_dtype(input.datatype);
  if (!dtype) return fail(Code::kInvalid, "input '" + input.name + "' has no datatype");
  const auto sample = one_sample(input, *dtype);
  if (!sample) return tl::unexpected(sample.error());
  std::vector<std::byte> all;
  for (std::uint32_t i = 0; i < batch_size; ++i) {
    all.insert(all.end(), sample->begin(), sample->end());
  }
  Shape shape = input.dims;
  if (has_batch) shape.insert(shape.begin(), batch_size);
  return NamedTensor{input.name, make_tensor(*dtype, std::move(shape), std::move(all))};
}

Result<void> run_sample(const LevelRuntime& level, const config::Declared& declared,
                        const config::WarmupSample& sample) {
  std::vector<NamedTensor> tensors;
  Request request;
  for (const config::WarmupInput& input : sample.inputs) {
    auto made = make_input(input, sample.batch_size, declared.has_batch());
    if (!made) return tl::unexpected(made.error());
    const Tensor& tensor = tensors.emplace_back(std::move(*made)).tensor;
    request.inputs.push_back({input.name, {tensor.dtype, tensor.shape, tensor.data}});
  }
  const auto bound = bind_request(request, level.signature(), declared);
  if (!bound) return tl::unexpected(bound.error());
  for (std::uint32_t i = 0; i < sample.runs; ++i) {
    if (const auto run = level.run(bound->run_inputs(), bound->outputs); !run) {
      return tl::unexpected(run.error());
    }
  }
  return {};
}

}  // namespace

Result<void> run_warmup(const LevelRuntime& level, const config::ModelConfig& config) {
  for (const config::WarmupSample& sample : config.warmup) {
    if (const auto ran = run_sample(level, config.declared, sample); !ran) {
      return fail(ran.error().code, "warm-up sample '" + sample.name + "': " + ran.error().message);
    }
  }
  return {};
}

}  // namespace gradus::serving
