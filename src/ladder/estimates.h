// How long a run of one level takes, by its size: what admission, plans and predictions go by.
//
// A size that was run before tells of itself. One that was not is guessed from sizes of the same
// shape, else from all that the level ever ran, and such a guess is never trusted to refuse.
//
// Formulas. Outcomes are weighted: a weight halves with each 10 s of age, and shrinks by 1/256 with
// each later outcome of its size; so what was slow heals in time even when hardly anything is let
// through. Mean and deviation are the weighted ones; one run counts in them as 4 tails at most. The
// tail is the weighted p99 of a histogram with 8 bins an octave from 4 us on; of fewer than 100
// outcomes it is the longest that still weighs half of the latest. Without outcomes an estimate
// falls back to the figures of the warm-up with a half-life of 10 s (their mean, and the longest
// for a tail; each later probe moves them by an eighth, and takes an eighth of the outcomes'
// weight), or of all sizes if its own has none. The first two runs of a size, warming up included,
// count only until the next one: they compile, plan and allocate.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"

namespace gradus::ladder {

/// What makes two runs alike.
struct Size {
  std::uint32_t samples = 1;  // in the batch, padding included
  std::uint64_t shape = 0;    // hash of everything else: dtypes, padded length, …
};

struct Estimate {
  Duration mean{};
  Duration deviation{};
  Duration tail{};             // about the p99
  std::uint32_t outcomes = 0;  // of just this size, warming up apart; 0: a guess

  static constexpr std::uint32_t kTrusted = 10;
  /// It may refuse a request; a guess never does.
  bool trusted() const { return outcomes >= kTrusted; }
};

/// The estimates of one level: a value, one owner at a time. Bounded: of more than kMaxSizes sizes
/// the least used quarter is forgotten, those of the warm-up last.
class Estimates {
 public:
  static constexpr std::size_t kMaxSizes = 2048;  // about 1 KiB each

  /// A run before the level was ready.
  void warm_up(Size size, Duration run);
  /// A good probe: what the size falls back to follows it, so that one bad moment while the level
  /// warmed up does not speak against it for ever; and outcomes from before it weigh less.
  void probe(Size size, Duration run);
  /// A good run of live traffic that ended at `at`. Amortised constant; allocates for a size that
  /// is new only. An earlier `at` than the last one counts as that.
  void add(Size size, Duration run, TimePoint at);

  /// The time in the runtime of such a run, queueing apart. A known size: constant. Else from the
  /// nearest smaller and greater batch of its shape, in between or in proportion; else like all
  /// runs of the level. All zero: nothing ever ran. Allocates nothing.
  Estimate predict(Size size, TimePoint now) const;

  std::size_t sizes() const { return in_use_; }

 private:
  static constexpr std::size_t kBins = 200;  // 25 octaves

  /// Weighted outcomes of one size, and what they fall back to.
  struct Record {
    std::array<float, kBins> bins{};
    double total = 0;   // of all weights …
    double weight = 1;  // … of which the last outcome had this one
    double mean = 0;    // ns, as all here
    double variance = 0;
    double tail = 0;
    std::size_t top = 0;  // no bin above it is in use
    TimePoint fed_at{};
    double unproved = 1;  // what probes since then have left of the outcomes' weight
    std::uint32_t outcomes = 0;
    std::uint32_t used = 0;  // outcomes, halved whenever sizes are forgotten

    bool has_base = false;        // the warm figures are known: measured, or guessed from others
    std::uint32_t warm_runs = 0;  // so many measured them
    double warm_mean = 0;
    double warm_deviation = 0;
    double warm_tail = 0;

    void warm_up(double run);
    void probe(double run);
    void add(double run, TimePoint at);
    /// @param otherwise what it falls back to if it has no figures of its own; may be null
    Estimate at(TimePoint now, const Record* otherwise) const;

   private:
    void count(double run, double variance_of, double by);
    void find_tail();
    void age(Duration by);
    void forget();
  };
  struct Place {
    std::uint32_t samples;
    std::uint32_t record;
  };

  const Record* find(Size size) const;
  Record& find_or_make(Size size);
  std::optional<Estimate> of_shape(Size size, TimePoint now, const Record* otherwise) const;
  void forget_some();

  std::unordered_map<std::uint64_t, std::vector<Place>> by_shape_;  // ascending by samples
  std::vector<Record> records_;
  std::vector<std::uint32_t> free_;  // records not in use
  std::size_t in_use_ = 0;
  Record all_;  // whatever the size
};

}  // namespace gradus::ladder
