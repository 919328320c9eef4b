// The ladder is fed for every execution and asked for every request: neither may allocate.
#include <atomic>
#include <cstdlib>
#include <new>

#include "ladder/estimates.h"
#include "story.h"

namespace {
std::atomic<std::size_t> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

// Not inline: GCC warns of mixed pairs where it inlines one of a pair only.
[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return counted(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace gradus::ladder {
namespace {

TEST(Cost, AnOutcomeAndARouteAllocateNothingInSteadyState) {
  auto story = Story::all_ready();
  const auto traffic = [&](int executions) {
    for (int i = 0; i < executions; ++i) {
      story.pass(1ms);
      story.outcome(0, i % 10 != 0, 2ms, 1ms, static_cast<std::uint64_t>(i % 50));
      story.planned(1, 1, i % 20 == 0);
      story.route_of();  // allocates once: the test's own vector
      story.outcome(1, true, 1ms);
    }
  };
  traffic(2000);
  const std::size_t before = allocations;
  traffic(10'000);
  EXPECT_EQ(allocations - before, 10'000u);
  EXPECT_EQ(story.current(), 0);
}

TEST(Cost, EstimatesOfKnownSizesAndGuessesAllocateNothing) {
  Estimates estimates;
  Duration sum{};
  const auto traffic = [&](int runs) {
    for (int i = 0; i < runs; ++i) {
      const Size size{1 + static_cast<std::uint32_t>(i % 32), static_cast<std::uint64_t>(i % 7)};
      estimates.add(size, 10ms, Story::kStart + i * 1ms);
      sum += estimates.predict(size, Story::kStart + i * 1ms).tail;
      sum += estimates.predict({size.samples + 100, size.shape}, Story::kStart).tail;
      sum += estimates.predict({1, 1000}, Story::kStart).tail;
    }
  };
  traffic(1000);
  const std::size_t before = allocations;
  traffic(10'000);
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_GT(sum, 0ns);
}

}  // namespace
}  // namespace gradus::ladder
