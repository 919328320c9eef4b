#include "simulate/lane.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTryAgain = 1s;

std::uint32_t join_size(const Level& level) {
  std::vector<batch::Measured> sizes;
  for (std::uint32_t samples = 1; samples <= level.max_batch_size; samples *= 2) {
    const double times = 1 + (samples - 1) * level.each_more;
    sizes.push_back({samples, std::chrono::duration_cast<Duration>(level.mean * times)});
  }
  return batch::worthwhile_size(sizes, level.max_batch_size).samples;
}

}  // namespace

Duration Lane::wait(TimePoint now) const {
  Duration first_free = idle() > 0 ? Duration::zero() : Duration::max();
  for (const Seat& seat : seats) {
    if (seat.taken) first_free = std::min(first_free, std::chrono::abs(seat.ends - now));
  }
  return first_free + backlog / instances();
}

std::size_t Lane::take_seat(TimePoint ends) {
  ++running;
  const auto seat = std::ranges::find(seats, false, &Seat::taken);
  *seat = {true, ends};
  return static_cast<std::size_t>(seat - seats.begin());
}

void Lane::free_seat(std::size_t seat) {
  --running;
  seats[seat].taken = false;
}

LevelLane::LevelLane(std::size_t index, const Level& level, Lane& lane,
                     std::uint32_t max_queue_size, bool refuses)
    : index_(index),
      level_(level),
      lane_(lane),
      refuses_(refuses),
      queue_(batch::QueueLimits{.entries = max_queue_size}) {
  rules_.max_size = join_size(level);
}

void LevelLane::learn(ladder::Size size, Duration run, bool stopped, TimePoint now) {
  busy_.ran(run, now);
  // One that was stopped took at least so long: news only if that is longer than expected.
  if (!stopped || run > estimates_.predict(size, now).mean) estimates_.add(size, run, now);
}

std::uint32_t LevelLane::likely_size() const {
  return std::min(rules_.max_size, static_cast<std::uint32_t>(queue_.size()) + 1);
}

ladder::Prospect LevelLane::prospect(std::uint64_t shape, TimePoint now) const {
  return {lane_.wait(now), estimates_.predict({likely_size(), shape}, now)};
}

Pushed LevelLane::push(Attempt& attempt, Admission admission, bool bounded, TimePoint now) {
  typical_ = attempt.shape;
  const ladder::Prospect here = prospect(attempt.shape, now);
  attempt.on_trial = false;
  if (admission != Admission::kAlways && refuses_ &&
      !ladder::makes_it(here, now, attempt.deadline)) {
    if (admission == Admission::kByEstimate) return Pushed::kTooLate;
    const bool idle = lane_.idle() > 0 && lane_.waiting == 0;
    if (here.run.trusted() && (!idle || now + here.run.mean > attempt.deadline)) {
      if (now - tried_at_ < kTryAgain) return Pushed::kTooLate;
      tried_at_ = now;
      attempt.on_trial = true;
    }
  }
  attempt.group = level_.max_batch_size > 1 ? 1 : 0;
  const Duration cost = here.run.mean / likely_size();
  if (!bounded) {
    queue_.push_anyway(attempt, now);
  } else if (!queue_.push(attempt, now, lane_.idle()).taken) {
    return Pushed::kFull;
  }
  attempt.cost = cost;
  ++lane_.waiting;
  lane_.backlog += cost;
  return Pushed::kTaken;
}

void LevelLane::forget(Attempt& attempt) {
  --lane_.waiting;
  lane_.backlog -= attempt.cost;
}

void LevelLane::remove(Attempt& attempt) {
  if (!attempt.waiting()) return;
  queue_.remove(attempt);
  forget(attempt);
}

void LevelLane::drain(std::vector<Attempt*>& out) {
  for (batch::Entry* const entry : queue_.drain()) {
    out.push_back(static_cast<Attempt*>(entry));
    forget(*out.back());
  }
}

std::optional<std::pair<config::Tier, TimePoint>> LevelLane::rank(TimePoint now) {
  for (const batch::Entry& entry : queue_.in_order(now)) {
    if (entry.deadline <= now) continue;
    const batch::Entry& first = *queue_.first(now);
    return std::pair(first.counts_as(), first.queued_at);
  }
  return std::nullopt;
}

std::uint32_t LevelLane::fitting(const batch::Candidate& seen, const Attempt& first,
                                 TimePoint now) const {
  const std::uint32_t instances = std::max(1U, lane_.instances() - (lane_.running - own_runs));
  const std::uint64_t share = batch::fair_share(queue_.samples() + running, instances);
  auto samples = static_cast<std::uint32_t>(std::min<std::uint64_t>(seen.samples, share));
  while (refuses_ && samples > 1 && queue_.samples() <= seen.samples) {
    const ladder::Estimate run = estimates_.predict({samples, first.shape}, now);
    if (now + run.mean + run.deviation <= seen.deadline) break;
    samples /= 2;
  }
  return std::max(1U, samples);
}

Duration LevelLane::take(std::vector<Attempt*>& members, std::vector<Attempt*>& doomed,
                         TimePoint now) {
  Duration cost{};
  while (members.empty() && !queue_.empty()) {
    const batch::Candidate seen = batch::look(queue_, rules_, now);
    if (seen.samples == 0) break;  // all past their deadline
    const std::uint32_t most = fitting(seen, static_cast<const Attempt&>(*queue_.first(now)), now);
    const batch::Taken taken = batch::take(queue_, rules_, most, now);
    for (batch::Entry* const entry : taken.expired) forget(static_cast<Attempt&>(*entry));
    for (batch::Entry* const entry : taken.entries) {
      members.push_back(static_cast<Attempt*>(entry));
      forget(*members.back());
    }
    const ladder::Estimate run = estimates_.predict({taken.samples, members.front()->shape}, now);
    cost = run.mean;
    if (!refuses_ || !run.trusted()) break;
    const auto late = std::ranges::stable_partition(members, [&](const Attempt* member) {
      return member->on_trial || now + run.mean <= member->deadline;
    });
    doomed.insert(doomed.end(), late.begin(), late.end());
    members.erase(late.begin(), late.end());
  }
  return cost;
}

std::optional<Duration> LevelLane::predicted_p99(double arrivals, TimePoint now) {
  double others = 0;
  for (const LevelLane* const other : lane_.levels) {
    if (other != this) others += other->busy_.at(now);
  }
  const auto here = [&](std::uint32_t samples) {
    return ladder::stretched(estimates_.predict({samples, typical_}, now), lane_.instances(),
                             others);
  };
  const std::uint32_t most = rules_.max_size;
  const std::array<ladder::BatchRun, 2> runs = {{{1, here(1)}, {most, here(most)}}};
  return ladder::predict_p99({.arrivals = arrivals,
                              .backlog = static_cast<double>(queue_.size()),
                              .instances = lane_.instances(),
                              .runs = std::span(runs.data(), most > 1 ? 2 : 1)});
}

}  // namespace gradus::simulate
