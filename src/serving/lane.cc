#include "serving/lane.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace gradus::serving {

Lane::Lane(std::string name, int instances, const Clock& clock)
    : name_(std::move(name)),
      instances_(static_cast<std::uint32_t>(instances)),
      clock_(clock),
      allowed_(instances_),
      seats_(static_cast<std::size_t>(instances)) {
  threads_.reserve(instances_);
  for (std::uint32_t i = 0; i < instances_; ++i) {
    threads_.emplace_back([this] { work(); });
    pthread_setname_np(threads_.back().native_handle(), name_.substr(0, 15).c_str());
  }
}

Lane::~Lane() {
  stop();
  threads_.clear();  // joins
}

void Lane::stop() {
  std::vector<std::shared_ptr<Waiting>> unrun;  // these end outside the lock
  std::vector<std::function<void()>> probes;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& queue : queues_) {
      probes.push_back(std::exchange(queue->probe_, nullptr));
      for (batch::Entry* const entry : queue->queue_.drain()) {
        unrun.push_back(queue->forget(static_cast<Waiting&>(*entry)));
      }
    }
  }
  ready_.notify_all();
}

LevelQueue& Lane::open(LevelQueue::Options options) {
  std::unique_ptr<LevelQueue> queue(new LevelQueue(*this, std::move(options)));
  const MutexLock lock(mutex_);
  queues_.push_back(std::move(queue));
  return *queues_.back();
}

void Lane::close(LevelQueue& queue) {
  std::vector<std::shared_ptr<Waiting>> unrun;  // these end outside the lock
  std::function<void()> probe;
  std::unique_ptr<LevelQueue> closed;
  const MutexLock lock(mutex_);
  for (batch::Entry* const entry : queue.queue_.drain()) {
    unrun.push_back(queue.forget(static_cast<Waiting&>(*entry)));
  }
  if (queue.probe_) --probes_;
  probe = std::exchange(queue.probe_, nullptr);
  queue.closing_ = true;
  while (queue.running_ > 0) closed_.wait(mutex_);
  const auto place = std::ranges::find(queues_, &queue, &std::unique_ptr<LevelQueue>::get);
  closed = std::move(*place);
  queues_.erase(place);
}

void Lane::allow(std::uint32_t runs) {
  {
    const MutexLock lock(mutex_);
    allowed_ = runs;
  }
  ready_.notify_all();
}

std::uint32_t Lane::allowed() const {
  const MutexLock lock(mutex_);
  return allowed_;
}

void Lane::wake_one() {
  if (sleeping_ > 0) ready_.notify_one();
}

// A run that should be over and is not may hang: it is given as long again as it has been overdue.
Duration Lane::wait_of(config::Tier tier, TimePoint now) const {
  Duration first_free = idle() > 0 ? Duration::zero() : Duration::max();
  Duration ahead{};
  for (const Seat& seat : seats_) {
    if (seat.begun == TimePoint::max()) continue;
    first_free = std::min(first_free, seat.ends > now ? seat.ends - now : now - seat.ends);
  }
  for (std::size_t better = 0; better <= static_cast<std::size_t>(tier); ++better) {
    ahead += backlog_[better];
  }
  return first_free + ahead / allowed_;
}

std::size_t Lane::take_seat(TimePoint begun, TimePoint ends) {
  ++running_;
  std::size_t seat = 0;
  while (seats_[seat].begun != TimePoint::max()) ++seat;  // one is free: nothing runs without
  seats_[seat] = {begun, ends};
  return seat;
}

void Lane::free_seat(std::size_t seat) {
  --running_;
  seats_[seat].begun = TimePoint::max();
}

Lane::Choice Lane::choose(TimePoint now) {
  Choice choice;
  if (idle() == 0) return choice;
  std::pair<config::Tier, TimePoint> best{};
  for (const auto& candidate : queues_) {
    LevelQueue& queue = *candidate;
    if (queue.probe_) return {&queue, 0, {}};
    if (queue.queue_.empty()) continue;
    const batch::Rules rules = queue.rules(queue.queue_.first(now)->length);
    const batch::Candidate seen = batch::look(queue.queue_, rules, now);
    if (seen.samples == 0) continue;
    batch::Situation situation{.now = now, .idle = idle()};
    const batch::Entry& first = *queue.queue_.first(now);
    if (rules.max_delay > Duration::zero()) {
      situation.expected = queue.arrivals_.expected(now);
      const ladder::Size size =
          size_of(static_cast<const Waiting&>(first), seen.samples, seen.longest);
      situation.run = queue.estimates_.predict(size, now).mean;
    }
    const batch::Decision decision = batch::decide(seen, rules, situation);
    if (!decision.close) {
      choice.look_again = std::min(choice.look_again, decision.look_again);
      continue;
    }
    const std::pair rank{first.counts_as(), first.queued_at};
    if (choice.queue == nullptr || rank < best) {
      choice.queue = &queue;
      choice.samples =
          std::min(decision.samples, queue.fitting(seen, static_cast<const Waiting&>(first), now));
      best = rank;
    }
  }
  return choice;
}

void Lane::work() {
  mutex_.lock();
  while (!stopping_) {
    const TimePoint now = clock_.now();
    const Choice choice = choose(now);
    if (choice.queue == nullptr) {
      ++sleeping_;
      if (choice.look_again == TimePoint::max()) {
        ready_.wait(mutex_);
      } else {
        ready_.wait_for(mutex_, choice.look_again - now);
      }
      --sleeping_;
      continue;
    }
    LevelQueue& queue = *choice.queue;
    if (choice.samples == 0) {
      const std::function<void()> probe = std::exchange(queue.probe_, nullptr);
      --probes_;
      const std::size_t seat = queue.begin({}, now);
      mutex_.unlock();
      queue.run_probe(probe, seat);
    } else {
      Duration cost{};
      Batch batch = queue.take(choice.samples, now, cost);
      const bool runs = !batch.members.empty();
      const std::size_t seat = runs ? queue.begin(cost, now) : 0;
      mutex_.unlock();
      batch.late.clear();  // what ends with it must not end under the lock
      for (const auto& one : std::exchange(batch.doomed, {})) {
        one->evicted("its deadline is nearer than a run is long");
      }
      if (runs) queue.run(std::move(batch), seat);
    }
    mutex_.lock();
  }
  mutex_.unlock();
}

}  // namespace gradus::serving
