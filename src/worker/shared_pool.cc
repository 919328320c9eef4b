#include "worker/shared_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "worker/fd.h"
#include "worker/segment.h"
#include "worker/wire.h"

namespace gradus::worker {
namespace {

constexpr int kFirstClass = 16;  // 64 KiB; class i holds 2^(kFirstClass + i) bytes
constexpr std::size_t kSmallest = std::size_t{1} << kFirstClass;
constexpr int kClasses = 32;

// Connections, models and devices need descriptors too: the HTTP server leaves twice as many free.
std::size_t most_shared() {
  constexpr std::size_t kMost = 256;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return std::min(static_cast<std::size_t>(limit.rlim_cur) / 8, kMost);
}

// One mapping. Its size is a power of two, of which only `touched` bytes are ever resident.
struct Block {
  explicit Block(std::size_t bytes) : capacity(bytes) {}
  ~Block() {
    if (data != nullptr) munmap(data, capacity);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // False: no memory, or no descriptor.
  bool map_shared(std::uint64_t new_id) {
    if (capacity > kMaxSegment) return false;
    Fd made(memfd_create("gradus-body", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!made || ftruncate(made.get(), static_cast<off_t>(capacity)) != 0) return false;
    void* const at = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, made.get(), 0);
    if (at == MAP_FAILED) return false;
    data = static_cast<std::byte*>(at);
    if (!seal_for_readers(made)) return false;
    fd = std::move(made);
    id = new_id;
    return true;
  }
  bool map_alone() {
    if (data != nullptr) munmap(std::exchange(data, nullptr), capacity);
    void* const at = mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data = static_cast<std::byte*>(at);
    return data != nullptr;
  }
  bool shared() const { return id != 0; }

  const std::size_t capacity;
  std::byte* data = nullptr;
  std::size_t touched = 0;
  std::uint64_t id = 0;
  Fd fd;
};
using Blocks = std::vector<std::shared_ptr<Block>>;

}  // namespace

struct SharedPool::State : std::enable_shared_from_this<SharedPool::State> {
  struct Class {
    Blocks free;                  // the last one back is the first one out: its pages are warm
    std::size_t idle_blocks = 0;  // the fewest that were free since the last trim
  };
  struct Entry {
    std::shared_ptr<Block> block;
    std::weak_ptr<void> lease;  // of its present owners; empty while it has none
  };

  explicit State(const Options& of) : options(of) {}

  std::shared_ptr<Block> take(std::size_t index, std::size_t size) {
    const MutexLock lock(mutex);
    Class& c = classes[index];
    if (c.free.empty()) return nullptr;
    const auto block = std::move(c.free.back());
    c.free.pop_back();
    c.idle_blocks = std::min(c.idle_blocks, c.free.size());
    kept -= block->touched;
    block->touched = std::max(block->touched, size);
    return block;
  }

  std::shared_ptr<Block> make(std::size_t capacity, std::size_t size) {
    auto block = std::make_shared<Block>(capacity);
    std::uint64_t id = 0;
    if (options.shared) {
      const MutexLock lock(mutex);
      if (by_address.size() < limit) id = next_id++;
    }
    if (!(id != 0 && block->map_shared(id)) && !block->map_alone()) return nullptr;
    block->touched = size;
    return block;
  }

  std::shared_ptr<void> lease(std::size_t index, const std::shared_ptr<Block>& block) {
    std::shared_ptr<void> owner(block->data, [state = shared_from_this(), index, block](void*) {
      state->give_back(index, block);
    });
    if (block->shared()) {
      const MutexLock lock(mutex);
      if (by_address.insert_or_assign(block->data, Entry{block, owner}).second) {
        known.insert(block->id);
      }
    }
    return owner;
  }

  void give_back(std::size_t index, const std::shared_ptr<Block>& block) {
    const MutexLock lock(mutex);
    if (kept + block->touched > options.keep_bytes) return forget(*block);
    // What is left of the lease holds this state.
    if (block->shared()) by_address.at(block->data).lease.reset();
    kept += block->touched;
    Blocks& free = classes[index].free;
    // Shared ones go out again before others.
    free.insert(block->shared() ? free.end() : free.begin(), block);
  }

  // It is unmapped when its last pointer goes.
  void forget(const Block& block) REQUIRES(mutex) {
    if (!block.shared()) return;
    known.erase(block.id);
    by_address.erase(block.data);
    ++gone;
  }

  const Options options;
  const std::size_t limit = most_shared();
  std::atomic<std::uint64_t> gone{0};
  Mutex mutex;
  std::array<Class, kClasses> classes GUARDED_BY(mutex);
  std::map<const std::byte*, Entry> by_address GUARDED_BY(mutex);  // shared ones
  std::set<std::uint64_t> known GUARDED_BY(mutex);                 // their numbers
  std::uint64_t next_id GUARDED_BY(mutex) = 1;
  std::size_t kept GUARDED_BY(mutex) = 0;
};

SharedPool::SharedPool(const Options& options) : state_(std::make_shared<State>(options)) {}

PoolBuffer SharedPool::acquire(std::size_t size) {
  if (size < kSmallest) {
    std::size_t room = size + kAlignment;
    auto bytes = std::make_shared_for_overwrite<std::byte[]>(room);
    void* data = bytes.get();
    std::align(kAlignment, size, data, room);
    return {static_cast<std::byte*>(data), size, std::move(bytes)};
  }
  const auto index = static_cast<std::size_t>(std::bit_width(size - 1)) - kFirstClass;
  if (index >= kClasses) return {};
  auto block = state_->take(index, size);
  if (block == nullptr) block = state_->make(std::size_t{1} << (index + kFirstClass), size);
  if (block == nullptr) return {};
  return {block->data, block->capacity, state_->lease(index, block)};
}

std::optional<SharedPool::Place> SharedPool::find(std::span<const std::byte> bytes) const {
  const MutexLock lock(state_->mutex);
  auto found = state_->by_address.upper_bound(bytes.data());
  if (found == state_->by_address.begin()) return std::nullopt;
  --found;
  const Block& block = *found->second.block;
  const auto offset = static_cast<std::size_t>(bytes.data() - block.data);
  if (offset > block.capacity || bytes.size() > block.capacity - offset) return std::nullopt;
  auto hold = found->second.lease.lock();
  if (hold == nullptr) return std::nullopt;
  return Place{block.id, block.fd.get(), offset, std::move(hold)};
}

std::uint64_t SharedPool::gone() const { return state_->gone.load(std::memory_order_relaxed); }

bool SharedPool::has(std::uint64_t block) const {
  const MutexLock lock(state_->mutex);
  return state_->known.contains(block);
}

void SharedPool::trim() {
  Blocks unused;  // unmapped outside the lock
  const MutexLock lock(state_->mutex);
  for (State::Class& c : state_->classes) {
    // The coldest lie at the front.
    const auto end = c.free.begin() + static_cast<std::ptrdiff_t>(c.idle_blocks);
    for (auto block = c.free.begin(); block != end; ++block) {
      state_->kept -= (*block)->touched;
      state_->forget(**block);
      unused.push_back(std::move(*block));
    }
    c.free.erase(c.free.begin(), end);
    c.idle_blocks = c.free.size();
  }
}

std::size_t SharedPool::kept_bytes() const {
  const MutexLock lock(state_->mutex);
  return state_->kept;
}

}  // namespace gradus::worker
