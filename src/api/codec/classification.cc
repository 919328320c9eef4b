#include "api/codec/classification.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

namespace gradus::api {
namespace {

struct Samples {
  std::size_t count;   // of samples
  std::size_t values;  // of each
};

template <class Number>
bool better(Number a, Number b) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
  }
  return a > b;
}

template <class Number>
void append_sample(std::span<const std::byte> bytes, std::size_t best,
                   std::span<const std::string> labels, std::vector<std::byte>& out) {
  std::vector<Number> values(bytes.size() / sizeof(Number));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto first = [&](std::size_t a, std::size_t b) {
    if (better(values[a], values[b])) return true;
    return !better(values[b], values[a]) && a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(best), order.end(),
                    first);
  for (std::size_t i = 0; i < best; ++i) {
    const std::size_t index = order[i];
    std::string text = std::to_string(values[index]) + ":" + std::to_string(index);
    if (index < labels.size() && !labels[index].empty()) text += ":" + labels[index];
    append_bytes_element(out, text);
  }
}

template <class Number>
std::vector<std::byte> all_samples(const Tensor& tensor, Samples samples, std::size_t best,
                                   std::span<const std::string> labels) {
  std::vector<std::byte> out;
  if (samples.values == 0) return out;  // however many there are of them
  const std::size_t size = samples.values * sizeof(Number);
  for (std::size_t i = 0; i < samples.count; ++i) {
    append_sample<Number>(tensor.data.subspan(i * size, size), best, labels, out);
  }
  return out;
}

using Write = std::vector<std::byte> (*)(const Tensor&, Samples, std::size_t,
                                         std::span<const std::string>);

Write writer_for(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return all_samples<std::uint8_t>;
    case DType::kUint16:
      return all_samples<std::uint16_t>;
    case DType::kUint32:
      return all_samples<std::uint32_t>;
    case DType::kUint64:
      return all_samples<std::uint64_t>;
    case DType::kInt8:
      return all_samples<std::int8_t>;
    case DType::kInt16:
      return all_samples<std::int16_t>;
    case DType::kInt32:
      return all_samples<std::int32_t>;
    case DType::kInt64:
      return all_samples<std::int64_t>;
    case DType::kFp32:
      return all_samples<float>;
    case DType::kFp64:
      return all_samples<double>;
    case DType::kBool:
    case DType::kFp16:
    case DType::kBf16:
    case DType::kBytes:
      break;
  }
  return nullptr;
}

}  // namespace

Result<Tensor> best_classes(const Tensor& values, std::uint32_t count, bool batched,
                            std::span<const std::string> labels) {
  const Write write = writer_for(values.dtype);
  if (write == nullptr) {
    return fail(Code::kInvalid, "parameter 'classification': values of type " +
                                    std::string(dtype_name(values.dtype)) + " have no classes");
  }
  if (auto fits = check_byte_size({values.dtype, values.shape, values.data}); !fits) {
    return fail(Code::kInternal, fits.error().message);
  }
  const bool has_batch = batched && !values.shape.empty();
  const std::size_t elements = values.data.size() / element_size(values.dtype);
  const auto batch = has_batch ? static_cast<std::size_t>(values.shape.front()) : 1;
  const Samples samples{batch, batch == 0 ? 0 : elements / batch};
  const std::size_t best = std::min<std::size_t>(count, samples.values);
  Shape shape;
  if (has_batch) shape.push_back(values.shape.front());
  shape.push_back(static_cast<std::int64_t>(best));
  return make_tensor(DType::kBytes, std::move(shape), write(values, samples, best, labels));
}

}  // namespace gradus::api
