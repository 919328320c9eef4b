// gRPC with nothing behind it, as the server uses it: the callback interface, bytes in and bytes
// out. What gRPC alone costs for the sizes of a model's requests.
//
// ModelInfer's request begins with two numbers of bytes, each an uint32 (little endian), HEAD and
// TAIL, and is answered with HEAD + TAIL bytes, in the two pieces in which the server sends an
// answer. Prints `listening PORT`; ends with standard input.
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

namespace gradus::bench {
namespace {

using grpc::ByteBuffer;
using Handler = grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>;

constexpr std::uint32_t kMostTail = 4 << 20;

class Echo final : public grpc::Service {
 public:
  Echo() {
    AddMethod(new grpc::internal::RpcServiceMethod("/inference.GRPCInferenceService/ModelInfer",
                                                   grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(0, new Handler([this](grpc::CallbackServerContext* call,
                                                const ByteBuffer* request, ByteBuffer* answer) {
                            auto* const reactor = call->DefaultReactor();
                            reactor->Finish(echo(*request, *answer));
                            return reactor;
                          }));
  }

 private:
  grpc::Status echo(const ByteBuffer& request, ByteBuffer& answer) const {
    std::vector<grpc::Slice> slices;
    std::array<std::uint32_t, 2> sizes{};
    if (request.Length() < sizeof sizes || !request.Dump(&slices).ok()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "the request has no sizes"};
    }
    std::size_t read = 0;
    for (auto slice = slices.begin(); read < sizeof sizes; ++slice) {  // it comes in any pieces
      const std::size_t part = std::min(slice->size(), sizeof sizes - read);
      std::memcpy(reinterpret_cast<char*>(sizes.data()) + read, slice->begin(), part);
      read += part;
    }
    if (sizes[0] > kMostTail || sizes[1] > kMostTail) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "too large"};
    }
    const std::array<grpc::Slice, 2> pieces = {
        grpc::Slice(std::string(sizes[0], ' ')),
        grpc::Slice(bytes_.data(), sizes[1], grpc::Slice::STATIC_SLICE)};
    ByteBuffer(pieces.data(), pieces.size()).Swap(&answer);
    return grpc::Status::OK;
  }

  const std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(kMostTail);
};

int run() {
  Echo echo;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
  builder.RegisterService(&echo);
  const auto server = builder.BuildAndStart();
  if (!server) {
    std::fprintf(stderr, "grpc_echo: cannot listen\n");
    return 1;
  }
  std::printf("listening %d\n", port);
  std::fflush(stdout);
  while (std::cin.get() != std::istream::traits_type::eof()) {
  }
  return 0;
}

}  // namespace
}  // namespace gradus::bench

int main() {
  // As the server does: large buffers are used again, and Abseil does not check the order of locks.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return gradus::bench::run();
}
