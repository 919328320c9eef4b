#include "api/grpc/compressed.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "api/codec/content_coding.h"

namespace gradus::api {
namespace {

// The one way to what gRPC knows of a message.
class CompressionOf final : public grpc::ProtoBufferReader {
 public:
  using ProtoBufferReader::ProtoBufferReader;
  grpc_compression_algorithm get() {
    return status().ok() ? reader()->buffer_in->data.raw.compression : GRPC_COMPRESS_NONE;
  }
};

grpc::Slice slice_of(std::vector<std::byte>&& bytes) {
  auto owned = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  std::vector<std::byte>* const kept = owned.release();
  return {kept->data(), kept->size(),
          [](void* all) { delete static_cast<std::vector<std::byte>*>(all); }, kept};
}

}  // namespace

bool is_compressed(grpc::ByteBuffer& message) {
  return CompressionOf(&message).get() != GRPC_COMPRESS_NONE;
}

Result<void> inflate_message(grpc::ByteBuffer& message, std::size_t most) {
  const auto coding =
      CompressionOf(&message).get() == GRPC_COMPRESS_GZIP ? Coding::kGzip : Coding::kDeflate;
  grpc::Slice whole;
  if (const auto dumped = message.DumpToSingleSlice(&whole); !dumped.ok()) {
    return fail(Code::kInternal, dumped.error_message());
  }
  auto inflated = inflate(coding, std::as_bytes(std::span(whole.begin(), whole.size())), most);
  if (!inflated) return tl::unexpected(inflated.error());
  const grpc::Slice slice = slice_of(std::move(*inflated));
  grpc::ByteBuffer(&slice, 1).Swap(&message);
  return {};
}

}  // namespace gradus::api
