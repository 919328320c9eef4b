#include "ladder/window.h"

#include <algorithm>

namespace gradus::ladder {

Window::Window(const config::PolicyConfig& policy, Duration target)
    : capacity_(policy.window_runs),
      span_(policy.window),
      target_(target),
      slow_limit_(std::chrono::duration_cast<Duration>(target * policy.slow_factor)) {}

void Window::add(const Run& run) {
  expire(run.ended);
  if (size_ == capacity_) drop_oldest();
  if (size_ == ring_.size()) grow();
  std::size_t at = first_ + size_;
  if (at >= ring_.size()) at -= ring_.size();
  ring_[at] = run;
  ++size_;
  count(run, 1);
}

void Window::expire(TimePoint now) {
  while (size_ > 0 && now - ring_[first_].ended > span_) drop_oldest();
}

void Window::clear() {
  first_ = size_ = 0;
  counts_ = {};
}

bool Window::p99_under_target() const {
  return counts_.timed > 0 && counts_.over_target <= counts_.timed / 100;
}

std::optional<Duration> Window::p99_run() const {
  return p99_of([](const Run& run) { return run.run; });
}

std::optional<Duration> Window::p99_queue_and_run() const {
  return p99_of([](const Run& run) { return run.queue + run.run; });
}

/// `by` is 1 or, modulo 2^32, -1.
void Window::count(const Run& run, std::uint32_t by) {
  if (!run.probe) {
    counts_.outcomes += by;
    if (!run.ok) counts_.failures += by;
  }
  if (!run.ok) return;
  counts_.timed += by;
  if (run.run >= target_) counts_.over_target += by;
  if (run.probe || !run.steady) return;
  counts_.samples += by;
  if (run.run > slow_limit_) counts_.slow += by;
}

void Window::drop_oldest() {
  count(ring_[first_], ~std::uint32_t{0});
  if (++first_ == ring_.size()) first_ = 0;
  --size_;
}

void Window::grow() {
  std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(first_), ring_.end());
  first_ = 0;
  ring_.resize(std::min(capacity_, std::max<std::size_t>(16, 2 * ring_.size())));
}

template <class Value>
std::optional<Duration> Window::p99_of(Value value) const {
  std::vector<Duration> values;
  values.reserve(counts_.timed);
  for (std::size_t i = 0; i < size_; ++i) {
    const Run& run = ring_[(first_ + i) % ring_.size()];
    if (run.ok) values.push_back(value(run));
  }
  if (values.empty()) return std::nullopt;
  const std::size_t rank = values.size() - 1 - values.size() / 100;  // 0-based
  const auto p99 = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), p99, values.end());
  return *p99;
}

}  // namespace gradus::ladder
