// The control file as it lies in memory: what the provider is told to do, and what it counts. Every
// process that has it open maps these same words, so each is a lock-free atomic, and a process that
// dies in the middle of anything leaves nothing held. tests/support/fault_control.py reads and
// writes the same layout.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gradus::fault {

using Word = std::atomic<std::uint32_t>;
using Counter = std::atomic<std::uint64_t>;

constexpr std::uint32_t kMagic = 0x544c4647;  // "GFLT"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kTextBytes = 256;  // of an order's text, with the NUL that ends it
constexpr std::size_t kPlaces = 3;

/// One `Order` (control.h). `fault` is written last and cleared first.
struct OrderWords {
  Word fault;
  Word skip;
  Word count;
  Word every;
  Word turn;  // occasions since `skip` ran out; `every` is reckoned from it
  Word devices;
  Word code;
  Word sticky;
  std::array<Counter, kTextBytes / sizeof(Counter)> text;
};

struct Layout {
  Word magic;  // written last by who makes the file
  Word version;
  Word devices;  // how many the library presents, 1..8; read when it is registered
  Word gone;     // bit i: device i is absent
  Word delay_us;
  Word releases;  // what hung before this changed goes on
  std::array<OrderWords, kPlaces> orders;
  Word last_pid;
  Word run_batch;  // the order for runs strikes those of at least so many samples
  Counter created;
  Counter compiled;
  Counter runs;
  Counter ok;
  Counter hung;
  Counter injected;
  Counter injected_at_ns;
};

static_assert(Word::is_always_lock_free && Counter::is_always_lock_free);
static_assert(std::is_standard_layout_v<Layout>);
static_assert(sizeof(OrderWords) == 288 && sizeof(Layout) == 952, "a new layout is a new version");

}  // namespace gradus::fault
