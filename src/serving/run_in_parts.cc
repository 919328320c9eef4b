#include "serving/run_in_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "batch/split.h"
#include "worker/shared_pool.h"

namespace gradus::serving {
namespace {

// One output of all parts, in memory that is there from the first part on. Only BYTES, whose size
// nobody knows before, may outgrow it.
class WholeOutput {
 public:
  WholeOutput(const std::string& name, std::uint32_t samples, worker::SharedPool& memory)
      : name_(name), samples_(samples), memory_(memory) {}

  Result<void> append(const Tensor& part, std::uint32_t rows) {
    if (const auto checked = check(part, rows); !checked) return checked;
    std::uint64_t needed = bytes_ + part.data.size();
    if (element_size(part.dtype) != 0) {
      const std::uint64_t row = part.data.size() / rows;
      needed = std::min(row, kMostBytes / samples_) * samples_;
    }
    if (const auto made = make_room(needed); !made) return made;
    std::ranges::copy(part.data, buffer_.data + bytes_);
    bytes_ += part.data.size();
    return {};
  }

  Tensor take() {
    part_shape_[0] = samples_;
    return {dtype_, std::move(part_shape_), {buffer_.data, bytes_}, std::move(buffer_.owner)};
  }

 private:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;  // more than any memory holds

  Result<void> check(const Tensor& part, std::uint32_t rows) {
    const auto fault = [&](const std::string& what) {
      return fail(Code::kUnavailable, "output '" + name_ + "' " + what);
    };
    if (part.shape.empty() || part.shape[0] != rows) {
      return fault("has shape " + shape_text(part.shape) +
                   ", expected dimension 0 = " + std::to_string(rows) + ", the part's samples");
    }
    if (buffer_.owner == nullptr) {
      dtype_ = part.dtype;
      part_shape_ = part.shape;
    }
    part_shape_[0] = rows;
    if (part.dtype != dtype_ || part.shape != part_shape_) {
      return fault("has " + text(part.dtype, part.shape) + ", expected " +
                   text(dtype_, part_shape_) + " as in the parts before");
    }
    const auto sized = check_byte_size({part.dtype, part.shape, part.data});
    if (!sized) return fault(sized.error().message);
    return {};
  }

  Result<void> make_room(std::uint64_t bytes) {
    if (buffer_.owner != nullptr && bytes <= buffer_.capacity) return {};
    worker::PoolBuffer larger =
        memory_.acquire(std::max<std::uint64_t>({bytes, 2 * buffer_.capacity, 1}));
    if (larger.owner == nullptr) {
      return fail(Code::kUnavailable,
                  "no memory for output '" + name_ + "' of " + std::to_string(bytes) + " bytes");
    }
    std::copy_n(buffer_.data, bytes_, larger.data);
    buffer_ = std::move(larger);
    return {};
  }

  static std::string text(DType dtype, const Shape& shape) {
    return std::string(dtype_name(dtype)) + " " + shape_text(shape);
  }

  const std::string& name_;
  const std::uint32_t samples_;
  worker::SharedPool& memory_;
  worker::PoolBuffer buffer_;  // none before the first part
  std::uint64_t bytes_ = 0;    // of it, that the parts so far have filled
  DType dtype_ = DType::kFp32;
  Shape part_shape_;
};

}  // namespace

Result<std::vector<Tensor>> run_in_parts(const LevelRuntime& level,
                                         const runtime::RunInputs& inputs, std::uint32_t samples,
                                         std::uint32_t max_size,
                                         std::span<const std::size_t> wanted, runtime::Stop* stop) {
  std::vector<batch::RowReader> readers(inputs.views.begin(), inputs.views.end());
  std::vector<WholeOutput> wholes;
  for (const std::size_t output : wanted) {
    wholes.emplace_back(level.signature().outputs[output].name, samples, *level.memory);
  }
  std::vector<TensorView> views(readers.size());
  for (std::uint32_t done = 0, count = 0; done < samples; done += count) {
    if (stop != nullptr && stop->requested()) return fail(Code::kCancelled, "the run was ended");
    count = std::min(max_size, samples - done);
    std::ranges::transform(readers, views.begin(),
                           [&](batch::RowReader& reader) { return reader.next(count); });
    const auto outputs = level.run({views, inputs.optional}, wanted, stop);
    if (!outputs) return outputs;
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      const auto added = wholes[i].append((*outputs)[i], count);
      if (!added) return tl::unexpected(added.error());
    }
  }
  std::vector<Tensor> answer;
  for (WholeOutput& whole : wholes) answer.push_back(whole.take());
  return answer;
}

}  // namespace gradus::serving
