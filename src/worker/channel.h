// A socket to one of a worker's threads, and the memory that the turns on it use, as the server
// sees them. Owned by one thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/backend.h"
#include "tensor/tensor.h"
#include "worker/run_wire.h"
#include "worker/segment.h"
#include "worker/shared_pool.h"
#include "worker/socket.h"

namespace gradus::worker {

inline constexpr std::size_t kMostBlocks = 32;  // of a pool that one channel knows at a time

class Channel {
 public:
  /// @param pool in which inputs need not be copied; borrowed, null: none
  Channel(Socket socket, const SharedPool* pool) : socket_(std::move(socket)), pool_(pool) {}

  Socket& socket() { return socket_; }

  struct Run {
    RunRequest request;
    int fd = -1;  // to be sent along
  };
  /// Puts inputs where the worker can read them: inputs that lie in one block of the pool, each
  /// aligned for its type, stay there, others are copied. Then the worker must be sent the run, or
  /// the channel closed. kUnavailable: no memory for a copy; nothing has changed.
  /// @param new_output number of the segment for outputs if none is free
  Result<Run> begin(std::uint64_t session, const runtime::RunInputs& inputs,
                    std::span<const std::size_t> outputs, std::uint64_t new_output);

  /// The reply to the run that was begun; tensors lie in shared memory, which each of them holds.
  /// The inner error is the session's own; the outer one: the reply makes no sense.
  Result<Result<std::vector<Tensor>>> end(const Message& reply);

  /// Bytes of the slot that inputs were copied to; 0 while none was.
  std::size_t slot_bytes() const { return slot_ == nullptr ? 0 : slot_->size(); }
  /// True when what it keeps is much more than any run needed since the last call.
  bool oversized();

 private:
  struct Output {
    std::uint64_t id;
    std::shared_ptr<const Segment> segment;  // held by tensors too, while somebody reads them
  };
  struct Block {
    std::uint64_t id;
    std::uint64_t used;  // number of the last run that did
  };

  bool in_pool(std::span<const TensorView> inputs, Run& run);
  Result<void> copy(std::span<const TensorView> inputs, Run& run);
  bool knows(std::uint64_t block);
  void forget_blocks(std::vector<std::uint64_t>& dropped);
  Output take_output(std::uint64_t new_id);
  std::vector<std::uint64_t> drop_outputs();

  Socket socket_;
  const SharedPool* const pool_;
  std::shared_ptr<Segment> slot_;
  std::vector<Block> blocks_;  // that the worker has mapped
  std::uint64_t runs_ = 0;
  std::uint64_t gone_ = 0;  // SharedPool::gone() when blocks_ was last looked through
  std::vector<Output> outputs_;
  std::size_t largest_ = 0;  // bytes of slot and outputs that a run needed, since oversized()
  // Of the run under way.
  std::shared_ptr<void> hold_;  // keeps the block from being used again
  Output output_{};
  std::size_t wanted_ = 0;
  std::size_t copied_ = 0;
};

}  // namespace gradus::worker
