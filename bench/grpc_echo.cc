// gRPC with nothing behind it, as the server uses it (src/api/grpc/call_queue.h): bytes in and
// bytes out. What gRPC alone costs for the sizes of a model's requests.
//
// ModelInfer's request begins with two numbers of bytes, each an uint32 (little endian), HEAD and
// TAIL, and is answered with HEAD + TAIL bytes, in the two pieces in which the server sends an
// answer. Prints `listening PORT`; ends with standard input.
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/grpc/call_queue.h"

namespace gradus::bench {
namespace {

using grpc::ByteBuffer;

constexpr std::uint32_t kMostTail = 4 << 20;

class Echo {
 public:
  void answer(const std::shared_ptr<api::Call>& call) const {
    api::read_request(call, [this, call](const ByteBuffer& request) {
      ByteBuffer answer;
      const grpc::Status status = echo(request, answer);
      status.ok() ? call->finish(std::move(answer)) : call->finish(status);
    });
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
  const Echo echo;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  constexpr int kMost = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(kMost);
  api::CallQueue queue(builder, kMost, [&echo](const auto& call) { echo.answer(call); });
  const auto server = builder.BuildAndStart();
  if (!server) {
    std::fprintf(stderr, "grpc_echo: cannot listen\n");
    return 1;
  }
  queue.start(1);
  std::printf("listening %d\n", port);
  std::fflush(stdout);
  while (std::cin.get() != std::istream::traits_type::eof()) {
  }
  server->Shutdown();
  queue.stop();
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
