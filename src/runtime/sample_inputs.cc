#include "runtime/sample_inputs.h"

#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace gradus::runtime {
namespace {

constexpr std::array<std::int64_t, 9> kSizes = {64, 32, 128, 224, 256, 16, 8, 512, 1};

// splitmix64 (Steele, Lea, Flood 2014): good bits from a counter, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-24F; }

 private:
  std::uint64_t state_;
};

// Half precision of a value in [0, 1], truncated; values under 2^-14 become 0.
std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto exponent = static_cast<int>(bits >> 23) - 127;
  if (exponent < -14) return 0;
  return static_cast<std::uint16_t>((static_cast<unsigned>(exponent + 15) << 10) |
                                    ((bits >> 13) & 0x3ffU));
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void append_value(std::vector<std::byte>& out, DType dtype, bool ones, Random& random) {
  const float unit = ones ? 1.0F : random.unit();
  const auto whole = static_cast<std::uint8_t>(ones ? 1 : random.next() >> 63);
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
    case DType::kInt8:
      return append(out, whole);
    case DType::kUint16:
    case DType::kInt16:
      return append(out, static_cast<std::uint16_t>(whole));
    case DType::kUint32:
    case DType::kInt32:
      return append(out, static_cast<std::uint32_t>(whole));
    case DType::kUint64:
    case DType::kInt64:
      return append(out, static_cast<std::uint64_t>(whole));
    case DType::kFp16:
      return append(out, half_bits(unit));
    case DType::kBf16:
      return append(out, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(unit) >> 16));
    case DType::kFp32:
      return append(out, unit);
    case DType::kFp64:
      return append(out, static_cast<double>(unit));
    case DType::kBytes:
      return append_bytes_element(out, "1");
  }
}

bool has_free_size(const Signature& signature) {
  for (const TensorSpec& input : signature.inputs) {
    for (std::size_t i = 1; i < input.shape.size(); ++i) {
      if (input.shape[i] < 0) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Tensor> sample_inputs(const Signature& signature, std::int64_t size,
                                  std::int64_t batch) {
  std::vector<Tensor> tensors;
  Random random(1);
  for (const TensorSpec& input : signature.inputs) {
    Shape shape = input.shape;
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) shape[i] = i == 0 ? batch : size;
      count *= static_cast<std::uint64_t>(shape[i]);
    }
    std::vector<std::byte> bytes;
    bytes.reserve(count * element_size(input.dtype));
    const bool ones = input.name == "attention_mask";
    for (std::uint64_t i = 0; i < count; ++i) append_value(bytes, input.dtype, ones, random);
    tensors.push_back(make_tensor(input.dtype, std::move(shape), std::move(bytes)));
  }
  return tensors;
}

std::vector<TensorView> views_of(std::span<const Tensor> tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const Tensor& tensor : tensors) views.push_back({tensor.dtype, tensor.shape, tensor.data});
  return views;
}

Result<Sample> find_sample(Backend& backend) {
  const Signature& signature = backend.signature();
  std::vector<std::size_t> outputs(signature.outputs.size());
  std::iota(outputs.begin(), outputs.end(), std::size_t{0});
  std::optional<Error> first_error;
  for (const std::int64_t size : kSizes) {
    Sample sample{size, sample_inputs(signature, size)};
    const auto answer = backend.run(views_of(sample.inputs), outputs);
    if (answer) return sample;
    const Code code = answer.error().code;
    const bool not_the_sizes =
        code == Code::kUnavailable || code == Code::kWorkerLost || code == Code::kNotFound;
    if (not_the_sizes) return tl::unexpected(answer.error());
    if (!first_error) first_error = answer.error();
    if (!has_free_size(signature)) break;
  }
  return tl::unexpected(*first_error);
}

}  // namespace gradus::runtime
