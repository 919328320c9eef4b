#include "runtime/ort/input_dims.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace gradus::runtime {
namespace {

// A file's bytes for as long as it lives; empty when it cannot be mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd >= 0 && ::fstat(fd, &info) == 0 && info.st_size > 0) {
      size_ = static_cast<std::size_t>(info.st_size);
      void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) data_ = static_cast<const char*>(at);
    }
    if (fd >= 0) ::close(fd);
  }
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view() : std::string_view(data_, size_);
  }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

// One field of a protobuf message after the other (protobuf's encoding guide).
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  /// False at the end, and for ever once the bytes are no message.
  bool next() {
    if (rest_.empty() || broken_) return false;
    const auto tag = varint();
    if (!tag) return fail();
    number_ = static_cast<std::uint32_t>(*tag >> 3);
    bytes_ = {};
    switch (*tag & 7) {
      case 0: {
        const auto skipped = varint();
        value_ = skipped.value_or(0);
        return skipped ? true : fail();
      }
      case 1:
        return take(8);
      case 2: {
        const auto length = varint();
        return length ? take(*length) : fail();
      }
      case 5:
        return take(4);
      default:
        return fail();
    }
  }
  std::uint32_t number() const { return number_; }
  std::uint64_t value() const { return value_; }     // of a varint
  std::string_view bytes() const { return bytes_; }  // of a string or message
  bool broken() const { return broken_; }

 private:
  bool fail() {
    broken_ = true;
    return false;
  }
  bool take(std::uint64_t length) {
    if (length > rest_.size()) return fail();
    bytes_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
  std::uint32_t number_ = 0;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
  bool broken_ = false;
};

// The last field of that number in a message; empty without one.
std::string_view field(std::string_view message, std::uint32_t number) {
  std::string_view found;
  for (Fields fields(message); fields.next();) {
    if (fields.number() == number) found = fields.bytes();
  }
  return found;
}

// TensorShapeProto: dim = 1; TensorShapeProto.Dimension: dim_value = 1.
bool varies(std::string_view shape) {
  bool first = true;
  for (Fields dims(shape); dims.next();) {
    if (dims.number() != 1) continue;
    std::uint64_t size = 0;
    for (Fields dim(dims.bytes()); dim.next();) {
      if (dim.number() == 1) size = dim.value();
    }
    if (size == 0 && !first) return true;
    first = false;
  }
  return false;
}

// ValueInfoProto: name = 1, type = 2; TypeProto: tensor_type = 1; TypeProto.Tensor: shape = 2.
bool input_varies(std::string_view value_info) {
  const std::string_view tensor = field(field(value_info, 2), 1);
  bool has_shape = false;
  for (Fields fields(tensor); fields.next();) {
    if (fields.number() != 2) continue;
    has_shape = true;
    if (varies(fields.bytes())) return true;
  }
  return !has_shape;
}

}  // namespace

bool shapes_vary(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  const std::string_view graph = field(mapped.bytes(), 7);
  if (graph.empty()) return true;
  // GraphProto: initializer = 5 (TensorProto: name = 8), input = 11.
  std::set<std::string_view> varying;
  Fields fields(graph);
  while (fields.next()) {
    if (fields.number() == 11 && input_varies(fields.bytes())) {
      varying.insert(field(fields.bytes(), 1));
    }
  }
  if (fields.broken()) return true;
  if (varying.empty()) return false;
  for (Fields again(graph); again.next();) {
    if (again.number() == 5) varying.erase(field(again.bytes(), 8));
  }
  return !varying.empty();
}

}  // namespace gradus::runtime
