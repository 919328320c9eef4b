#include "trace_faults.h"

#include <algorithm>
#include <chrono>

namespace gradus::ladder {

using namespace std::chrono_literals;

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Duration Random::between(Duration least, Duration most) {
  return least + Duration(below(static_cast<std::uint64_t>((most - least).count()) + 1));
}

Duration Random::about(Duration mean) {
  const Duration once = between(1ns, 2 * mean);
  return chance(20) ? 3 * once : once / 2 + 1ns;
}

bool answers(Mode mode) {
  return mode == Mode::kGood || mode == Mode::kSlow || mode == Mode::kProbesFail;
}

LevelTrace::LevelTrace(Random& random, TimePoint from, TimePoint to) {
  const int good = random.one_of({20, 50, 80, 95});
  const Duration scale = random.one_of<Duration>({500ms, 5s, 25s, 45s, 100s, 400s});
  const bool one_fault = random.chance(50);
  const auto fault = [&] { return static_cast<Mode>(1 + random.below(8)); };
  const Mode only = fault();
  for (TimePoint time = from; time < to; time += random.about(scale)) {
    const Mode mode = random.chance(good) ? Mode::kGood : one_fault ? only : fault();
    intervals_.push_back({time, mode});
  }
}

std::size_t LevelTrace::find(TimePoint time) const {
  const auto after =
      std::upper_bound(intervals_.begin(), intervals_.end(), time,
                       [](TimePoint t, const Interval& interval) { return t < interval.from; });
  return static_cast<std::size_t>(after - intervals_.begin()) - 1;
}

Mode LevelTrace::at(TimePoint time) const { return intervals_[find(time)].mode; }

TimePoint LevelTrace::end_of(TimePoint time) const {
  const std::size_t next = find(time) + 1;
  return next < intervals_.size() ? intervals_[next].from : TimePoint::max();
}

void LevelTrace::force(TimePoint now, Mode mode, Duration for_so_long) {
  const TimePoint end = now + for_so_long;
  const Mode then = at(end);
  const auto inside = [&](const Interval& interval) {
    return interval.from >= now && interval.from <= end;
  };
  intervals_.erase(std::remove_if(intervals_.begin(), intervals_.end(), inside), intervals_.end());
  const auto place = std::find_if(intervals_.begin(), intervals_.end(),
                                  [&](const Interval& interval) { return interval.from > now; });
  intervals_.insert(place, {Interval{now, mode}, Interval{end, then}});
}

}  // namespace gradus::ladder
