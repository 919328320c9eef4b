#include "api/http/body_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace gradus::api {
namespace {

constexpr std::size_t kSmall = 32 << 10;  // up to here the C library's own pools do well
constexpr std::size_t kAlignment = 64;
constexpr int kFirstClass = 16;  // 64 KiB; class i holds 2^(kFirstClass + i) bytes
constexpr int kClasses = 32;

// One mapping. Its size is a power of two, of which only `touched` bytes are ever resident.
struct Block {
  std::byte* data;
  std::size_t capacity;
  std::size_t touched;
};

void unmap(const Block& block) { ::munmap(block.data, block.capacity); }

}  // namespace

struct BodyPool::State {
  struct Class {
    std::vector<Block> free;      // the last one back is the first one out: its pages are warm
    std::size_t idle_blocks = 0;  // the fewest that were free since the last trim
  };

  explicit State(std::size_t keep) : keep_bytes(keep) {}
  ~State() {
    for (Class& c : classes) std::for_each(c.free.begin(), c.free.end(), unmap);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void give_back(int index, const Block& block) {
    {
      const MutexLock lock(mutex);
      if (kept + block.touched <= keep_bytes) {
        classes[static_cast<std::size_t>(index)].free.push_back(block);
        kept += block.touched;
        return;
      }
    }
    unmap(block);
  }

  const std::size_t keep_bytes;
  Mutex mutex;
  std::array<Class, kClasses> classes GUARDED_BY(mutex);
  std::size_t kept GUARDED_BY(mutex) = 0;
};

BodyPool::BodyPool(std::size_t keep_bytes) : state_(std::make_shared<State>(keep_bytes)) {}

BodyBuffer BodyPool::acquire(std::size_t size) {
  if (size <= kSmall) {
    std::size_t room = size + kAlignment;
    auto bytes = std::make_shared_for_overwrite<std::byte[]>(room);
    void* data = bytes.get();
    std::align(kAlignment, size, data, room);
    return {static_cast<std::byte*>(data), size, std::move(bytes)};
  }
  const int index = std::max(0, static_cast<int>(std::bit_width(size - 1)) - kFirstClass);
  if (index >= kClasses) return {};
  Block block{nullptr, std::size_t{1} << (index + kFirstClass), 0};
  {
    const MutexLock lock(state_->mutex);
    State::Class& c = state_->classes[static_cast<std::size_t>(index)];
    if (!c.free.empty()) {
      block = c.free.back();
      c.free.pop_back();
      c.idle_blocks = std::min(c.idle_blocks, c.free.size());
      state_->kept -= block.touched;
    }
  }
  if (block.data == nullptr) {
    void* const fresh = ::mmap(nullptr, block.capacity, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return {};
    block.data = static_cast<std::byte*>(fresh);
  }
  block.touched = std::max(block.touched, size);
  std::shared_ptr<void> owner(
      block.data, [state = state_, index, block](void*) { state->give_back(index, block); });
  return {block.data, block.capacity, std::move(owner)};
}

void BodyPool::trim() {
  std::vector<Block> unused;
  {
    const MutexLock lock(state_->mutex);
    for (State::Class& c : state_->classes) {
      // The coldest lie at the front.
      const auto end = c.free.begin() + static_cast<std::ptrdiff_t>(c.idle_blocks);
      for (auto block = c.free.begin(); block != end; ++block) {
        unused.push_back(*block);
        state_->kept -= block->touched;
      }
      c.free.erase(c.free.begin(), end);
      c.idle_blocks = c.free.size();
    }
  }
  std::for_each(unused.begin(), unused.end(), unmap);
}

std::size_t BodyPool::kept_bytes() const {
  const MutexLock lock(state_->mutex);
  return state_->kept;
}

}  // namespace gradus::api
