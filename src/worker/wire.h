// What server and worker say to each other: a fixed header and a bounded body, one packet each, the
// same layout on both sides because both are the same binary (the handshake makes sure of it). No
// pointer travels, and what was read is checked before it is used: a worker may be broken.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::worker {

inline constexpr std::uint32_t kMagic = 0x53445247;       // "GRDS"
inline constexpr std::uint32_t kWireVersion = 2;          // of everything in this room that crosses
inline constexpr std::size_t kMaxBody = 128UL * 1024;     // bytes; fits the default socket buffers
inline constexpr std::uint32_t kMaxRank = 64;             // dimensions of a tensor
inline constexpr std::uint64_t kMaxSegment = 1ULL << 40;  // bytes

enum class Kind : std::uint32_t {
  // On the control socket, answered at once whatever else the worker does.
  kHello = 1,  // -> kHelloReply
  kPing,       // -> kPong
  kOpen,       // carries the socket of a new channel; no reply
  kStop,       // the worker exits; no reply
  // On a channel, one at a time, in turns.
  kLoad,    // -> kLoadReply
  kUnload,  // -> kUnloadReply
  kRun,     // -> kRunReply
  kHelloReply = 101,
  kPong,
  kLoadReply,
  kUnloadReply,
  kRunReply,
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  std::uint32_t kind = 0;
  std::uint32_t body_bytes = 0;  // what follows, exactly
  std::uint64_t request = 0;     // a reply carries its request's
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 24, "new version?");

/// Appends values to a message's body.
class Writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Writer& put(T value) {
    append(&value, sizeof value);
    return *this;
  }
  Writer& text(std::string_view value);  // cut at 16 KiB
  std::span<const std::byte> body() const { return body_; }

 private:
  void append(const void* from, std::size_t bytes);

  std::vector<std::byte> body_;
};

/// Takes values from a body that may hold anything. After the first value that is not there it has
/// failed and gives zeros; ask ok() before using what was read.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> body) : rest_(body) {}

  template <class T>
  requires std::is_arithmetic_v<T> T get() {
    T value{};
    if (const auto bytes = take(sizeof value); !bytes.empty()) {
      std::memcpy(&value, bytes.data(), sizeof value);
    }
    return value;
  }
  std::string text();
  /// How many entries of at least `least_bytes` follow; fails when they cannot all be there.
  std::uint32_t count(std::size_t least_bytes);
  void refuse() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes);

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

/// A tensor's type, shape and place in a segment of shared memory.
struct Placed {
  DType dtype = DType::kFp32;
  Shape shape;
  std::uint64_t offset = 0;  // bytes, a multiple of the element's alignment
  std::uint64_t bytes = 0;
};

inline constexpr std::uint64_t kAlignment = 64;  // as ONNX Runtime aligns its own

/// Of one element: what a tensor's address must be a multiple of.
std::size_t alignment_of(DType dtype);

/// Where each of `sizes` begins in a segment when laid one after the other, each at a multiple of
/// kAlignment; the end comes last.
std::vector<std::uint64_t> layout(std::span<const std::uint64_t> sizes);

void put_shape(Writer& writer, const Shape& shape);
Shape get_shape(Reader& reader, std::int64_t least);  // each dimension >= `least`
void put_dtype(Writer& writer, DType dtype);
DType get_dtype(Reader& reader);

void put_placed(Writer& writer, const std::vector<Placed>& tensors);
std::vector<Placed> get_placed(Reader& reader);

/// The tensors as views of `segment`. kInternal: one reaches over the segment's end, is not aligned
/// for its type, or its bytes do not fit type and shape. What BYTES elements say of their length is
/// not looked at: the other side may change it still.
Result<std::vector<TensorView>> views_in(std::span<const std::byte> segment,
                                         const std::vector<Placed>& tensors);

}  // namespace gradus::worker
