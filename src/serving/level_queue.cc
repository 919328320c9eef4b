#include "serving/level_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "batch/worthwhile.h"
#include "serving/lane.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTryAgain = 1s;  // against the estimates
constexpr Duration kNotWorthStopping = 1ms;

ladder::Size size_of(std::uint64_t shape, std::uint32_t samples, std::int64_t length) {
  return {samples, shape ^ (static_cast<std::uint64_t>(length) * 0x9e3779b97f4a7c15)};
}

}  // namespace

ladder::Size size_of(const Waiting& waiter, std::uint32_t samples, std::int64_t length) {
  return size_of(waiter.shape, samples, length);
}

ladder::Size size_of(const batch::Fit& fit, std::span<const TensorView> inputs) {
  return size_of(shape_of(fit, inputs), fit.samples, fit.length);
}

std::uint64_t shape_of(const batch::Fit& fit, std::span<const TensorView> inputs) {
  return fit.group != 0 ? fit.group : shape_bucket(inputs);
}

LevelQueue::LevelQueue(Lane& lane, Options options)
    : lane_(lane),
      options_(std::move(options)),
      queue_(options_.limits),
      size_limit_(options_.rules.max_size, options_.batch_target),
      tier_share_(options_.batch_tier_share) {}

LevelQueue::Pushed LevelQueue::push(const std::shared_ptr<Waiting>& waiter, Admission admission) {
  return add(waiter, admission, true);
}

LevelQueue::Pushed LevelQueue::push_again(const std::shared_ptr<Waiting>& waiter,
                                          Admission admission) {
  return add(waiter, admission, false);
}

LevelQueue::Pushed LevelQueue::add(const std::shared_ptr<Waiting>& waiter, Admission admission,
                                   bool bounded) {
  const TimePoint now = lane_.clock_.now();
  std::optional<std::size_t> here;  // the seat
  std::vector<std::shared_ptr<Waiting>> evicted;
  {
    const MutexLock lock(lane_.mutex_);
    if (lane_.stopping_) return Pushed::kFull;
    typical_ = size_of(*waiter, waiter->samples, waiter->length);
    typical_length_ = waiter->length;
    const std::uint32_t together = likely_size(*waiter);
    const ladder::Prospect seen = prospect(*waiter, together, now);
    if (!in_time(*waiter, seen, admission, now)) return Pushed::kTooLate;
    waiter->usual = seen.usual();
    if (runs_here(seen.run)) {
      waiter->queued_at = now;
      here = begin(seen.run.mean, now);
    } else if (const Pushed pushed = enqueue(waiter, seen.run.mean * waiter->samples / together,
                                             now, bounded, evicted);
               pushed != Pushed::kTaken) {
      return pushed;
    }
    arrivals_.entered(now, waiter->samples);
  }
  for (const auto& one : evicted) one->evicted("its place went to a better tier");
  if (here) {
    Batch batch{.members = {waiter}, .longest = waiter->length, .late = {}, .doomed = {}};
    batch.quick = true;
    run(std::move(batch), *here);
  }
  return Pushed::kTaken;
}

ladder::Prospect LevelQueue::prospect(const Waiting& waiter) {
  const TimePoint now = lane_.clock_.now();
  const MutexLock lock(lane_.mutex_);
  return prospect(waiter, likely_size(waiter), now);
}

ladder::Prospect LevelQueue::prospect(const Waiting& waiter, std::uint32_t together,
                                      TimePoint now) const {
  return {lane_.wait_of(waiter.tier, now),
          estimates_.predict(size_of(waiter, together, waiter.length), now)};
}

// How many samples its run will have, if those that wait now are joined with it.
std::uint32_t LevelQueue::likely_size(const Waiting& waiter) const {
  if (waiter.group == 0) return waiter.samples;
  const auto waiting = static_cast<std::uint32_t>(std::min<std::uint64_t>(queue_.samples(), 1024));
  return std::max(waiter.samples,
                  std::min(join_size(waiter.length).samples, waiting + waiter.samples));
}

LevelQueue::Pushed LevelQueue::enqueue(const std::shared_ptr<Waiting>& waiter, Duration cost,
                                       TimePoint now, bool bounded,
                                       std::vector<std::shared_ptr<Waiting>>& evicted) {
  if (bounded) {
    const batch::Queue::Pushed pushed = queue_.push(*waiter, now, lane_.idle());
    for (batch::Entry* const entry : pushed.evicted) {
      evicted.push_back(forget(static_cast<Waiting&>(*entry)));
      arrivals_.left(now, entry->samples);
    }
    if (!pushed.taken) return pushed.priority_full ? Pushed::kPriorityFull : Pushed::kFull;
  } else {
    queue_.push_anyway(*waiter, now);
  }
  waiter->self_ = waiter;
  waiter->queue_ = this;
  waiter->cost_ = cost;
  ++lane_.waiting_;
  lane_.backlog_[static_cast<std::size_t>(waiter->tier)] += cost;
  lane_.wake_one();
  return Pushed::kTaken;
}

bool LevelQueue::runs_here(const ladder::Estimate& estimate) const {
  return options_.may_run_here && lane_.waiting_ == 0 && lane_.idle() > 0 && estimate.trusted() &&
         estimate.mean < kQuick;
}

bool LevelQueue::in_time(Waiting& waiter, const ladder::Prospect& prospect, Admission admission,
                         TimePoint now) {
  waiter.on_trial_ = false;
  if (admission == Admission::kAlways || !options_.refuses_by_estimate) return true;
  if (ladder::makes_it(prospect, now, waiter.deadline)) return true;
  if (admission == Admission::kByEstimate) return false;
  if (!prospect.run.trusted()) return true;
  const bool idle = lane_.idle() > 0 && lane_.waiting_ == 0;
  if (idle && now + prospect.run.mean <= waiter.deadline) return true;
  if (now - tried_at_ < kTryAgain) return false;
  tried_at_ = now;
  waiter.on_trial_ = true;
  return true;
}

// What it was counted for in the lane is counted no more. The caller lets it go outside the lock.
std::shared_ptr<Waiting> LevelQueue::forget(Waiting& waiter) {
  waiter.queue_ = nullptr;
  --lane_.waiting_;
  lane_.backlog_[static_cast<std::size_t>(waiter.tier)] -= waiter.cost_;
  return std::exchange(waiter.self_, nullptr);
}

bool LevelQueue::remove(Waiting& waiter) {
  if (waiter.queue_ != this) return false;
  std::shared_ptr<Waiting> last;  // ends outside the lock
  const MutexLock lock(lane_.mutex_);
  if (waiter.queue_ != this) return false;  // only under this lock it becomes so, or ceases to be
  queue_.remove(waiter);
  last = forget(waiter);
  arrivals_.left(lane_.clock_.now(), waiter.samples);
  return true;
}

void LevelQueue::probe(std::function<void()> job) {
  const MutexLock lock(lane_.mutex_);
  if (lane_.stopping_) return;
  if (!probe_) ++lane_.probes_;
  std::swap(probe_, job);  // another one's ends with this call's arguments, outside the lock
  lane_.wake_one();
}

bool LevelQueue::has_room_for_batch_tier() {
  const MutexLock lock(lane_.mutex_);
  return running_ == 0 && queue_.empty() && tier_share_.may_run(lane_.clock_.now());
}

Batch LevelQueue::take(std::uint32_t samples, TimePoint now, Duration& cost) {
  Batch batch;
  while (batch.members.empty() && !queue_.empty()) {
    const batch::Taken taken = batch::take(queue_, rules(queue_.first(now)->length), samples, now);
    for (batch::Entry* const entry : taken.expired) {
      arrivals_.left(now, entry->samples);
      batch.late.push_back(forget(static_cast<Waiting&>(*entry)));
    }
    if (taken.entries.empty()) break;
    batch.longest = taken.longest;
    for (batch::Entry* const entry : taken.entries) {
      batch.members.push_back(forget(static_cast<Waiting&>(*entry)));
    }
    const ladder::Size size = size_of(*batch.members.front(), taken.samples, taken.longest);
    const ladder::Estimate estimate = estimates_.predict(size, now);
    cost = estimate.mean;
    batch.quick = estimate.trusted() && estimate.tail < kNotWorthStopping;
    if (options_.refuses_by_estimate && estimate.trusted()) drop_doomed(batch, cost, now);
  }
  return batch;
}

// Run all the same, each would keep the next ones waiting until they were too late as well.
void LevelQueue::drop_doomed(Batch& batch, Duration run, TimePoint now) {
  const auto in_time = [&](const std::shared_ptr<Waiting>& member) {
    return member->on_trial_ || now + run <= member->deadline;
  };
  const auto doomed = std::stable_partition(batch.members.begin(), batch.members.end(), in_time);
  for (auto member = doomed; member != batch.members.end(); ++member) {
    arrivals_.left(now, (*member)->samples);
    batch.doomed.push_back(std::move(*member));
  }
  batch.members.erase(doomed, batch.members.end());
}

// As many of the candidate's samples as can be run before its earliest deadline, and no more than
// leaves the level's other instances as much; at least one request's.
std::uint32_t LevelQueue::fitting(const batch::Candidate& seen, const Waiting& first,
                                  TimePoint now) const {
  std::uint32_t samples = seen.samples;
  if (options_.rules.preferred_sizes.empty()) {
    const std::uint32_t elsewhere = lane_.running_ - running_;  // instances that others' runs hold
    const std::uint32_t instances = lane_.allowed_ > elsewhere ? lane_.allowed_ - elsewhere : 1;
    const std::uint64_t share = batch::fair_share(arrivals_.in_hand(), instances);
    samples = static_cast<std::uint32_t>(
        std::max<std::uint64_t>(first.samples, std::min<std::uint64_t>(samples, share)));
  }
  // With more behind it, small batches would make all of them late.
  while (samples > first.samples && queue_.samples() <= seen.samples) {
    const ladder::Estimate run = estimates_.predict(size_of(first, samples, seen.longest), now);
    if (now + run.mean + run.deviation <= seen.deadline) break;
    samples = std::max(first.samples, samples / 2);
  }
  return samples;
}

const batch::JoinSize& LevelQueue::join_size(std::int64_t length) const {
  static constexpr batch::JoinSize kAlone;
  if (joins_.empty()) return kAlone;
  const auto at_least = std::ranges::lower_bound(joins_, length, {}, &Joins::length);
  return at_least == joins_.end() ? joins_.back().size : at_least->size;
}

std::size_t LevelQueue::begin(Duration cost, TimePoint now) {
  ++running_;
  return lane_.take_seat(now, now + cost);
}

void LevelQueue::end(std::size_t seat) {
  --running_;
  lane_.free_seat(seat);
  if (closing_ && running_ == 0) lane_.closed_.notify_all();
  if (lane_.waiting_ > 0 || lane_.probes_ > 0) lane_.wake_one();
}

void LevelQueue::run_probe(const std::function<void()>& job, std::size_t seat) {
  try {
    job();
  } catch (const std::exception& error) {  // for want of memory
    log::error("a probe was dropped: " + std::string(error.what()));
  }
  const MutexLock lock(lane_.mutex_);
  end(seat);
}

void LevelQueue::run(Batch batch, std::size_t seat) {
  const bool batch_tier = batch.members.front()->tier == config::Tier::kBatch;
  std::uint32_t samples = 0;
  for (const auto& member : batch.members) samples += member->samples;
  bool is_over = false;
  const auto over = [&](const std::optional<Ran>& ran) {
    is_over = true;
    const TimePoint now = lane_.clock_.now();
    const MutexLock lock(lane_.mutex_);
    end(seat);
    arrivals_.left(now, samples);
    if (ran) learn(*ran, batch_tier, now);
  };
  try {
    options_.run(std::move(batch), over);
  } catch (const std::exception& error) {  // for want of memory; requests answer as they die
    log::error("a batch was dropped: " + std::string(error.what()));
  }
  if (!is_over) over(std::nullopt);
}

void LevelQueue::learn(const Ran& ran, bool batch_tier, TimePoint now) {
  busy_.ran(ran.run, now);
  if (batch_tier) tier_share_.pay(ran.run, now);
  if (ran.stopped) {  // at least so long: news only if that is longer than expected
    if (ran.run > estimates_.predict(ran.size, now).mean) estimates_.add(ran.size, ran.run, now);
  } else if (ran.ok) {
    estimates_.add(ran.size, ran.run, now);
    size_limit_.succeeded(ran.size.samples, ran.run);
  } else if (ran.out_of_memory) {
    size_limit_.out_of_memory(ran.size.samples);
  }
}

batch::Rules LevelQueue::rules(std::int64_t length) const {
  constexpr double kStillPays = 0.05;
  const batch::JoinSize& join = join_size(length);
  batch::Rules rules = options_.rules;
  const std::uint32_t most = std::min(size_limit_.now(), join.samples);
  if (most < rules.max_size) {
    rules.max_size = most;
    std::erase_if(rules.preferred_sizes, [&](auto size) { return size > rules.max_size; });
  }
  // Padding must not cost what joining saves.
  const double worth = std::max(0.0, 1 - join.share - kStillPays);
  rules.max_padding_waste = std::min(rules.max_padding_waste, worth);
  return rules;
}

void LevelQueue::warm_up(const ladder::Size& size, std::int64_t length, Duration run) {
  const MutexLock lock(lane_.mutex_);
  estimates_.warm_up(size, run);
  typical_ = size;
  typical_length_ = length;
}

void LevelQueue::measured(std::int64_t length, std::span<const batch::Measured> sizes) {
  const std::uint32_t most = options_.rules.max_size;
  const MutexLock lock(lane_.mutex_);
  joins_.push_back({length, options_.join_always ? batch::JoinSize{most, 0}
                                                 : batch::worthwhile_size(sizes, most)});
}

void LevelQueue::probed(const ladder::Size& size, Duration run) {
  const MutexLock lock(lane_.mutex_);
  estimates_.probe(size, run);
}

std::optional<Duration> LevelQueue::predicted_p99(double arrivals) {
  const MutexLock lock(lane_.mutex_);
  if (estimates_.sizes() == 0) return std::nullopt;
  const TimePoint now = lane_.clock_.now();
  double others = 0;
  for (const auto& queue : lane_.queues_) {
    if (queue.get() != this) others += queue->busy_.at(now);
  }
  const std::uint32_t instances = lane_.allowed_;
  const auto here = [&](const ladder::Size& size) {
    return ladder::stretched(estimates_.predict(size, now), instances, others);
  };
  const std::uint32_t most = std::min(size_limit_.now(), join_size(typical_length_).samples);
  const std::uint32_t requests = std::max(1U, most / typical_.samples);
  const ladder::BatchRun runs[] = {{1, here(typical_)},
                                   {requests, here({requests * typical_.samples, typical_.shape})}};
  return ladder::predict_p99({.arrivals = arrivals,
                              .backlog = static_cast<double>(queue_.size()),
                              .instances = instances,
                              .runs = std::span(runs, requests > 1 ? 2 : 1)});
}

OpenQueue::~OpenQueue() {
  if (queue_ != nullptr) lane_->close(*queue_);
}

LevelQueue::Load LevelQueue::load() const {
  const MutexLock lock(lane_.mutex_);
  std::uint32_t most = 1;
  for (const Joins& joins : joins_) most = std::max(most, joins.size.samples);
  return {queue_.size(), running_, std::min(size_limit_.now(), most)};
}

}  // namespace gradus::serving
