#include "ladder/estimates.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHalfLife = 10s;
constexpr double kForget = 1.0 / 256;      // of a weight, for each later outcome
constexpr double kTailShare = 0.01;        // weight above the tail
constexpr double kLeastOutcome = 0.5;      // an outcome that weighs less than this makes no tail
constexpr double kMostTails = 4;           // so much one run counts in a mean
constexpr double kWarmWeight = 3;          // outcomes that the warm-up stands for where they lack
constexpr double kProbeGain = 1.0 / 8;     // of a probe in the warm-up's figures
constexpr std::uint32_t kFirstRuns = 2;    // replaced by the next one
constexpr double kLargestWeight = 0x1p40;  // then all are scaled down
constexpr int kFirstOctave = 12;           // 2^12 ns, about 4 us
constexpr int kBinsAnOctave = 8;

constexpr double ns(Duration d) { return static_cast<double>(d.count()); }
Duration duration(double time) { return Duration(static_cast<std::int64_t>(time + 0.5)); }

/// Of a weight after so long.
double left_of(Duration age) {
  constexpr Duration kShort = kHalfLife / 200;  // where a line is exact to 1e-5, and much quicker
  if (age <= 0s) return 1;
  if (age <= kShort) return 1 - std::numbers::ln2 / ns(kHalfLife) * ns(age);
  return std::exp2(-ns(age) / ns(kHalfLife));
}

/// Octaves by the highest bit, eighths of them by the three bits below it.
std::size_t bin_of(double run, std::size_t bins) {
  const auto whole = static_cast<std::uint64_t>(run);
  const int octave = static_cast<int>(std::bit_width(whole)) - 1;
  if (octave < kFirstOctave) return 0;
  const std::uint64_t eighth = (whole >> (octave - 3)) & 7;
  const std::size_t bin =
      static_cast<std::size_t>((octave - kFirstOctave) * kBinsAnOctave) + eighth;
  return std::min(bin, bins - 1);
}

double middle_of(std::size_t bin) {
  const auto octave = static_cast<int>(bin) / kBinsAnOctave + kFirstOctave;
  const double eighths = kBinsAnOctave + static_cast<double>(bin % kBinsAnOctave) + 0.5;
  return eighths * static_cast<double>(std::uint64_t{1} << (octave - 3));
}

Estimate scaled(const Estimate& e, double by) {
  return {duration(ns(e.mean) * by), duration(ns(e.deviation) * by), duration(ns(e.tail) * by), 0};
}

Estimate between(const Estimate& below, const Estimate& above, double share) {
  const auto mix = [share](Duration a, Duration b) {
    return duration(ns(a) + share * (ns(b) - ns(a)));
  };
  return {mix(below.mean, above.mean), mix(below.deviation, above.deviation),
          mix(below.tail, above.tail), 0};
}

double share(std::uint32_t part, std::uint32_t whole) {
  return whole > 0 ? static_cast<double>(part) / whole : 1;
}

/// Where the first place with so many samples or more is, or would be.
template <class Places>
auto place_of(Places& places, std::uint32_t samples) {
  return std::lower_bound(places.begin(), places.end(), samples,
                          [](const auto& place, std::uint32_t n) { return place.samples < n; });
}

}  // namespace

void Estimates::Record::count(double run, double variance_of, double by) {
  const std::size_t bin = bin_of(run, kBins);
  bins[bin] += static_cast<float>(by);
  top = std::max(top, bin);
  total += by;
  const double gain = by / total;
  const double off = (tail > 0 ? std::min(run, kMostTails * tail) : run) - mean;
  mean += gain * off;
  variance = (1 - gain) * (variance + gain * off * off) + gain * variance_of;
}

/// From above: the bin of the run with 1 % of the weight over it, or half an outcome's weight.
void Estimates::Record::find_tail() {
  while (top > 0 && bins[top] < 1e-6 * total) --top;
  const double beyond = std::max(kTailShare * total, kLeastOutcome * weight);
  std::size_t bin = top;
  for (double above = bins[bin]; bin > 0 && above <= beyond;) above += bins[--bin];
  tail = std::max(mean, middle_of(bin));
}

/// Older outcomes lose weight because newer ones get more of it.
void Estimates::Record::age(Duration by) {
  weight *= (1 + kForget) / (unproved * left_of(by));
  if (weight < kLargestWeight) return;
  for (float& bin : bins) bin = static_cast<float>(bin / weight);
  total /= weight;
  weight = 1;
}

void Estimates::Record::forget() {
  bins.fill(0);
  top = 0;
  total = mean = variance = tail = 0;
  weight = 1;
}

void Estimates::Record::warm_up(double run) {
  if (++warm_runs <= kFirstRuns) {
    warm_mean = warm_tail = run;
    warm_deviation = 0;
  } else {
    const double gain = 1.0 / (warm_runs - kFirstRuns + 1);
    const double off = run - warm_mean;
    warm_mean += gain * off;
    const double variance_before = warm_deviation * warm_deviation;
    warm_deviation = std::sqrt((1 - gain) * (variance_before + gain * off * off));
    warm_tail = std::max(warm_tail, run);
  }
  has_base = true;
}

void Estimates::Record::probe(double run) {
  unproved *= 1 - kProbeGain;
  if (!has_base) return warm_up(run);
  const double off = run - warm_mean;
  warm_mean += kProbeGain * off;
  const double variance_before = warm_deviation * warm_deviation;
  warm_deviation = std::sqrt((1 - kProbeGain) * (variance_before + kProbeGain * off * off));
  warm_tail = std::max(run, warm_tail - kProbeGain * (warm_tail - warm_mean));
}

void Estimates::Record::add(double run, TimePoint at) {
  const TimePoint now = std::max(fed_at, at);
  if (outcomes > 0) age(now - fed_at);
  unproved = 1;
  if (warm_runs + outcomes < kFirstRuns) {
    forget();
  } else if (has_base && total < kWarmWeight * weight) {  // few, or long ago
    if (outcomes == 0) tail = warm_tail;
    count(warm_mean, warm_deviation * warm_deviation, kWarmWeight * weight - total);
  }
  count(run, 0, weight);
  ++outcomes;
  ++used;
  fed_at = now;
  find_tail();
}

Estimate Estimates::Record::at(TimePoint now, const Record* otherwise) const {
  const Record& base = has_base || otherwise == nullptr ? *this : *otherwise;
  if (outcomes == 0) return {duration(warm_mean), duration(warm_deviation), duration(warm_tail), 0};
  const double live = base.has_base ? unproved * left_of(now - fed_at) : 1;
  const auto mix = [live](double warm, double fed) { return duration(warm + live * (fed - warm)); };
  return {mix(base.warm_mean, mean), mix(base.warm_deviation, std::sqrt(variance)),
          mix(base.warm_tail, tail), outcomes};
}

Estimates::Record& Estimates::find_or_make(Size size) {
  std::vector<Place>* places = &by_shape_[size.shape];
  auto place = place_of(*places, size.samples);
  if (place != places->end() && place->samples == size.samples) return records_[place->record];

  if (in_use_ == kMaxSizes) {
    forget_some();
    places = &by_shape_[size.shape];
  }
  Record made;
  if (const std::optional<Estimate> base = of_shape(size, TimePoint::max(), nullptr)) {
    made.warm_mean = ns(base->mean);
    made.warm_deviation = ns(base->deviation);
    made.warm_tail = ns(base->tail);
    made.has_base = true;
  }
  auto index = static_cast<std::uint32_t>(records_.size());
  if (free_.empty()) {
    records_.push_back(made);
  } else {
    index = free_.back();
    free_.pop_back();
    records_[index] = made;
  }
  ++in_use_;
  places->insert(place_of(*places, size.samples), {size.samples, index});
  return records_[index];
}

void Estimates::forget_some() {
  // Warmed up ones are what the others fall back to; they go last.
  const auto less = [this](std::uint32_t a, std::uint32_t b) {
    const Record& x = records_[a];
    const Record& y = records_[b];
    const bool x_warm = x.warm_runs > 0;
    const bool y_warm = y.warm_runs > 0;
    return x_warm != y_warm ? y_warm : x.used != y.used ? x.used < y.used : x.fed_at < y.fed_at;
  };
  std::vector<std::uint32_t> least(records_.size());
  std::iota(least.begin(), least.end(), 0u);
  const auto end = least.begin() + static_cast<std::ptrdiff_t>(least.size() / 4);
  std::nth_element(least.begin(), end, least.end(), less);
  free_.assign(least.begin(), end);
  in_use_ -= free_.size();

  std::vector<bool> gone(records_.size());
  for (const std::uint32_t record : free_) gone[record] = true;
  for (auto shape = by_shape_.begin(); shape != by_shape_.end();) {
    std::erase_if(shape->second, [&](const Place& place) { return gone[place.record]; });
    shape = shape->second.empty() ? by_shape_.erase(shape) : std::next(shape);
  }
  for (Record& record : records_) record.used /= 2;
}

void Estimates::warm_up(Size size, Duration run) {
  find_or_make(size).warm_up(ns(run));
  all_.warm_up(ns(run));
}

void Estimates::probe(Size size, Duration run) {
  find_or_make(size).probe(ns(run));
  all_.probe(ns(run));
}

void Estimates::add(Size size, Duration run, TimePoint at) {
  find_or_make(size).add(ns(run), at);
  all_.add(ns(run), at);
}

const Estimates::Record* Estimates::find(Size size) const {
  const auto shape = by_shape_.find(size.shape);
  if (shape == by_shape_.end()) return nullptr;
  const auto place = place_of(shape->second, size.samples);
  if (place == shape->second.end() || place->samples != size.samples) return nullptr;
  return &records_[place->record];
}

Estimate Estimates::predict(Size size, TimePoint now) const {
  if (const Record* const record = find(size)) return record->at(now, &all_);
  if (const std::optional<Estimate> guess = of_shape(size, now, &all_)) return *guess;
  Estimate like_all = all_.at(now, nullptr);
  like_all.outcomes = 0;
  return like_all;
}

/// At the end of time only the figures of the warm-up are left, where there are any.
std::optional<Estimate> Estimates::of_shape(Size size, TimePoint now,
                                            const Record* otherwise) const {
  const auto shape = by_shape_.find(size.shape);
  if (shape == by_shape_.end() || shape->second.empty()) return std::nullopt;
  const std::vector<Place>& places = shape->second;
  const auto above = place_of(places, size.samples);
  const auto at = [&](const Place& place) { return records_[place.record].at(now, otherwise); };
  if (above == places.begin()) return scaled(at(*above), share(size.samples, above->samples));
  const Place& below = *std::prev(above);
  if (above == places.end()) return scaled(at(below), share(size.samples, below.samples));
  return between(at(below), at(*above),
                 share(size.samples - below.samples, above->samples - below.samples));
}

}  // namespace gradus::ladder
