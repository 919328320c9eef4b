#include "worker/wire.h"

#include <algorithm>

namespace gradus::worker {
namespace {

constexpr std::size_t kMaxText = 16 * 1024;

}  // namespace

Writer& Writer::text(std::string_view value) {
  value = value.substr(0, kMaxText);
  put(static_cast<std::uint32_t>(value.size()));
  append(value.data(), value.size());
  return *this;
}

void Writer::append(const void* from, std::size_t bytes) {
  const std::size_t at = body_.size();
  body_.resize(at + bytes);
  if (bytes > 0) std::memcpy(body_.data() + at, from, bytes);
}

std::span<const std::byte> Reader::take(std::size_t bytes) {
  if (!ok_ || bytes > rest_.size()) {
    ok_ = false;
    return {};
  }
  const auto taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

std::string Reader::text() {
  const auto bytes = take(get<std::uint32_t>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t Reader::count(std::size_t least_bytes) {
  const auto entries = get<std::uint32_t>();
  if (entries > rest_.size() / least_bytes) ok_ = false;
  return ok_ ? entries : 0;
}

std::size_t alignment_of(DType dtype) { return std::max(element_size(dtype), std::size_t{1}); }

std::vector<std::uint64_t> layout(std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(sizes.size() + 1);
  std::uint64_t end = 0;
  for (const std::uint64_t size : sizes) {
    offsets.push_back(end);
    end = (end + size + kAlignment - 1) / kAlignment * kAlignment;
  }
  offsets.push_back(end);
  return offsets;
}

void put_shape(Writer& writer, const Shape& shape) {
  writer.put(static_cast<std::uint32_t>(shape.size()));
  for (const std::int64_t dim : shape) writer.put(dim);
}

Shape get_shape(Reader& reader, std::int64_t least) {
  const std::uint32_t rank = reader.count(sizeof(std::int64_t));
  if (rank > kMaxRank) reader.refuse();
  Shape shape;
  for (std::uint32_t i = 0; i < rank && reader.ok(); ++i) {
    shape.push_back(reader.get<std::int64_t>());
    if (shape.back() < least) reader.refuse();
  }
  return shape;
}

void put_dtype(Writer& writer, DType dtype) { writer.put(static_cast<std::uint32_t>(dtype)); }

DType get_dtype(Reader& reader) {
  const auto value = reader.get<std::uint32_t>();
  if (value > static_cast<std::uint32_t>(DType::kBytes)) {
    reader.refuse();
    return DType::kFp32;
  }
  return static_cast<DType>(value);
}

void put_placed(Writer& writer, const std::vector<Placed>& tensors) {
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  for (const Placed& tensor : tensors) {
    put_dtype(writer, tensor.dtype);
    put_shape(writer, tensor.shape);
    writer.put(tensor.offset).put(tensor.bytes);
  }
}

std::vector<Placed> get_placed(Reader& reader) {
  constexpr std::size_t kLeast = 24;  // a scalar
  std::vector<Placed> tensors;
  for (std::uint32_t left = reader.count(kLeast); left > 0 && reader.ok(); --left) {
    Placed tensor;
    tensor.dtype = get_dtype(reader);
    tensor.shape = get_shape(reader, 0);
    tensor.offset = reader.get<std::uint64_t>();
    tensor.bytes = reader.get<std::uint64_t>();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<std::vector<TensorView>> views_in(std::span<const std::byte> segment,
                                         const std::vector<Placed>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const Placed& tensor : tensors) {
    if (tensor.offset % alignment_of(tensor.dtype) != 0 || tensor.offset > segment.size() ||
        tensor.bytes > segment.size() - tensor.offset) {
      return fail(Code::kInternal, "a tensor of " + std::to_string(tensor.bytes) + " bytes at " +
                                       std::to_string(tensor.offset) + " is not in a segment of " +
                                       std::to_string(segment.size()));
    }
    TensorView view{tensor.dtype, tensor.shape, segment.subspan(tensor.offset, tensor.bytes)};
    if (tensor.dtype == DType::kBytes) {
      const auto elements = element_count(tensor.shape);
      if (!elements || *elements > tensor.bytes / sizeof(std::uint32_t)) {
        return fail(Code::kInternal, "a BYTES tensor of shape " + shape_text(tensor.shape) +
                                         " cannot have " + std::to_string(tensor.bytes) + " bytes");
      }
    } else if (const auto fits = check_byte_size(view); !fits) {
      return fail(Code::kInternal, fits.error().message);
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace gradus::worker
