#include "api/codec/shared_tensor.h"

#include <new>
#include <utility>

namespace gradus::api {
namespace {

tl::unexpected<Error> refuse(std::string text) { return fail(Code::kInvalid, std::move(text)); }

}  // namespace

Result<RegionRange> find_range(const SharedMemory* memory, const RegionName& name) {
  if (!name.any()) return RegionRange{};
  if (memory == nullptr) {
    return refuse(
        "parameters 'shared_memory_…' are not allowed here: the server was started without "
        "--allow-client-shm; send and take the tensor in the message");
  }
  if (!name.region) return refuse("parameter 'shared_memory_region' is missing");
  if (!name.byte_size) return refuse("parameter 'shared_memory_byte_size' is missing");
  RegionRange range{memory->find(*name.region), name.offset.value_or(0), *name.byte_size};
  if (!range.region) {
    return fail(Code::kNotFound, "there is no shared memory region '" + name.region->substr(0, 80) +
                                     "'; register it first");
  }
  if (auto inside = range.region->check_range(range.offset, range.byte_size); !inside) {
    return tl::unexpected(std::move(inside.error()));
  }
  return range;
}

Result<Tensor> read_shared(const RegionRange& range, DType dtype, Shape shape, std::uint64_t count,
                           std::uint64_t& bytes_left) {
  const std::uint64_t size = range.byte_size;
  const std::uint64_t element = element_size(dtype);  // 0: BYTES
  if (element > 0 && (size % element != 0 || size / element != count)) {
    return refuse("parameter 'shared_memory_byte_size' is " + std::to_string(size) + ", shape " +
                  shape_text(shape) + " needs " + std::to_string(count) + " x " +
                  std::to_string(element) + " bytes");
  }
  if (size > bytes_left) {
    return refuse("the request's inputs in shared memory are over max_input_size: " +
                  std::to_string(size) + " bytes, " + std::to_string(bytes_left) + " are left");
  }
  bytes_left -= size;
  Tensor tensor{dtype, std::move(shape), {}, nullptr};
  std::shared_ptr<std::byte[]> copy;
  try {
    copy = std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    return fail(Code::kUnavailable, "no memory for " + std::to_string(size) + " bytes");
  }
  const std::span bytes(copy.get(), static_cast<std::size_t>(size));
  if (auto read = range.region->read(range.offset, bytes); !read) {
    return tl::unexpected(std::move(read.error()));
  }
  tensor.data = bytes;
  tensor.owner = std::move(copy);
  if (auto fits = check_byte_size({dtype, tensor.shape, tensor.data}); !fits) {
    return tl::unexpected(std::move(fits.error()));
  }
  return tensor;
}

}  // namespace gradus::api
