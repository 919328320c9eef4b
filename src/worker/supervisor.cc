#include "worker/supervisor.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "runtime/fault_class.h"
#include "runtime/sample_inputs.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr auto kNotAgain =
    "; not tried again before another worker starts or the model is loaded anew";
constexpr auto kRetireLimit = 1s;

}  // namespace

std::string_view to_string(WorkerState state) {
  switch (state) {
    case WorkerState::kIdle:
      return "idle";
    case WorkerState::kStarting:
      return "starting";
    case WorkerState::kRunning:
      return "running";
    case WorkerState::kWaiting:
      return "waiting";
    case WorkerState::kCrashLoop:
      return "crash_loop";
    case WorkerState::kStopped:
      return "stopped";
  }
  std::abort();
}

Supervisor::Supervisor(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      random_(options_.seed) {
  thread_ = std::jthread([this] { watch(); });
  pthread_setname_np(thread_.native_handle(), "supervisor");
}

Supervisor::~Supervisor() { stop(); }

void Supervisor::stop() {
  std::shared_ptr<Worker> starting;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (state_ == WorkerState::kStarting || blocking_) starting = worker_;
  }
  if (starting != nullptr) starting->lose(Loss::Cause::kStopped, "was stopped");  // ends its loads
  eventfd_write(end_.get(), 1);
  wake();
  if (thread_.joinable()) thread_.join();
}

Result<runtime::Loaded> Supervisor::load(const runtime::LoadSpec& spec, Duration target,
                                         LevelHooks hooks) {
  {
    const MutexLock lock(mutex_);
    ++loading_;
  }
  auto loaded = load_in_worker(spec, target, std::move(hooks));
  {
    const MutexLock lock(mutex_);
    --loading_;
  }
  wake();
  return loaded;
}

Result<runtime::Loaded> Supervisor::load_in_worker(const runtime::LoadSpec& spec, Duration target,
                                                   LevelHooks hooks) {
  std::shared_ptr<Worker> worker;
  {
    const MutexLock lock(mutex_);
    wake();
    const std::uint32_t starts = starts_;
    while (!stopping_ && !usable() && state_ != WorkerState::kCrashLoop &&
           (starts_ == starts || state_ == WorkerState::kStarting)) {
      changed_.wait(mutex_);
    }
    if (!usable()) {
      return fail(Code::kUnavailable, last_fault_ ? last_fault_->text : "the worker was stopped");
    }
    worker = worker_;
  }
  auto files = files_of(spec.file);
  if (!files) return tl::unexpected(files.error());
  const TimePoint begun = clock_.now();
  auto loaded = worker->load(spec, options_.load_limit);
  if (!loaded) return tl::unexpected(loaded.error());
  const Duration again = std::max(options_.reload_limit, 10 * (clock_.now() - begun));
  auto session = std::make_shared<IsolatedSession>(spec, target, loaded->facts, clock_);
  if (const auto moved = session->move_to(worker, *loaded); !moved) {
    return tl::unexpected(moved.error());
  }
  const MutexLock lock(mutex_);
  // Lost in the meantime: its levels have been told, this one among them by this error.
  if (worker_ != worker) {
    const auto loss = worker->loss();
    return fail(Code::kUnavailable, loss ? loss->text : "the worker was replaced");
  }
  seats_.push_back(
      {session, std::move(hooks), std::move(*files), std::min(again, options_.load_limit)});
  return runtime::Loaded{.backend = IsolatedSession::handle(std::move(session)),
                         .provider_used = std::move(loaded->facts.provider_used),
                         .node_share = loaded->facts.node_share,
                         .failures = std::move(loaded->facts.failures)};
}

void Supervisor::adopt(Seat seat) {
  seat.hooks.suspect = nullptr;
  seat.load_limit = options_.load_limit;
  {
    const MutexLock lock(mutex_);
    adopted_.push_back(seat);
    seats_.push_back(std::move(seat));
  }
  wake();
}

void Supervisor::drop_expired() {
  std::erase_if(seats_, [](const Seat& seat) { return seat.session.expired(); });
}

bool Supervisor::wanted() {
  drop_expired();
  return loading_ > 0 || !seats_.empty();
}

// Somebody asked for a load just as the worker was to end for want of any.
bool Supervisor::still_used() const {
  const MutexLock lock(mutex_);
  return !stopping_ && usable();
}

bool Supervisor::retire() {
  std::shared_ptr<Worker> worker;
  {
    const MutexLock lock(mutex_);
    if (stopping_ || wanted() || !usable()) return false;
    worker = std::exchange(worker_, nullptr);
  }
  if (!worker->stop(kRetireLimit)) abandon(std::move(worker));
  return true;
}

bool Supervisor::usable() const { return worker_ != nullptr && !worker_->loss(); }

WorkerStatus Supervisor::status() const {
  const MutexLock lock(mutex_);
  WorkerStatus status{.device = options_.worker.greeting.device,
                      .state = state_,
                      .restarts = starts_ > 0 ? starts_ - 1 : 0,
                      .last_fault = last_fault_,
                      .abandoned = abandoned_count_};
  if (worker_ != nullptr) {
    status.pid = worker_->pid();
    status.uptime = clock_.now() - up_since_;
  }
  return status;
}

void Supervisor::watch() {
  while (wait_wanted()) {
    come_up();
    bool retired = false;
    do {
      run_until_unwanted();
      retired = retire();
    } while (!retired && still_used());
    if (retired) continue;
    std::shared_ptr<Worker> worker;
    {
      const MutexLock lock(mutex_);
      if (stopping_) break;
      worker = std::exchange(worker_, nullptr);
    }
    Loss loss{Loss::Cause::kStart, "it did not start"};
    if (worker != nullptr) {
      loss = *worker->loss();
    } else {
      const MutexLock lock(mutex_);
      if (last_fault_) loss = *last_fault_;
    }
    after_loss(loss);
    if (worker != nullptr && !worker->wait_dead(options_.kill_limit)) {
      log::error(loss.text + ", but does not die; it is left alone");
      abandon(std::move(worker));
    }
  }
  std::shared_ptr<Worker> worker;
  {
    const MutexLock lock(mutex_);
    worker = std::exchange(worker_, nullptr);
    state_ = WorkerState::kStopped;
  }
  for (const Seat& seat : seats()) {
    if (const auto session = seat.session.lock()) session->detach("the worker was stopped");
  }
  if (worker != nullptr && !worker->stop(1s)) log::error("a worker does not die; it is left alone");
  changed_.notify_all();
}

bool Supervisor::wait_wanted() {
  for (;;) {
    reap_abandoned();
    const MutexLock lock(mutex_);
    if (stopping_) return false;
    if (wanted()) return true;
    state_ = WorkerState::kIdle;
    if (abandoned_.empty()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_for(mutex_, options_.ping_every);
    }
  }
}

void Supervisor::come_up() {
  set_state(WorkerState::kStarting);
  auto started = Worker::start(options_.worker, end_.get());
  if (!started) {
    const MutexLock lock(mutex_);
    ++starts_;
    last_fault_ = Loss{Loss::Cause::kStart, started.error().message};
    return;
  }
  const std::shared_ptr<Worker> worker = std::move(*started);
  worker->on_loss = [this] { wake(); };
  log::info("worker of device '" + options_.worker.greeting.device + "' runs",
            {{"pid", std::to_string(worker->pid())}});
  missing_.clear();
  std::size_t back = 0;
  std::vector<std::pair<Seat, Error>> failed;
  std::vector<Seat> waiting;
  {
    const MutexLock lock(mutex_);
    ++starts_;
    up_since_ = clock_.now();
    worker_ = worker;
    waiting = seats_;
    adopted_.clear();
  }
  // So that nobody waits behind one that may take longer.
  std::ranges::stable_sort(waiting, {}, &Seat::load_limit);
  for (const Seat& seat : waiting) {
    if (worker->check_death()) return;
    const auto loaded = reload(worker, seat);
    if (loaded) {
      ++back;
      continue;
    }
    failed.emplace_back(seat, loaded.error());
  }
  const bool fresh_may_help = std::ranges::any_of(
      failed, [](const auto& one) { return one.second.code != Code::kNotFound; });
  if (fresh_may_help && back == 0) {
    worker->lose(Loss::Cause::kStart,
                 "was stopped: nothing could be loaded in it: " + failed.front().second.message);
    return;
  }
  for (const auto& [seat, error] : failed) {
    if (!may_succeed_later(seat, error)) continue;
    missing_.push_back({seat, 1, clock_.now() + backoff(options_.restart, 1, chance()),
                        error.code == Code::kNotFound});
  }
  set_state(WorkerState::kRunning);
  changed_.notify_all();
}

Result<void> Supervisor::reload(const std::shared_ptr<Worker>& worker, const Seat& seat) {
  const auto session = seat.session.lock();
  if (session == nullptr) return {};
  const auto failed = [&](const std::string& why, Code code = Code::kUnavailable) {
    session->unload();  // where it came so far that something is loaded
    session->detach(why);
    log::warning("not loaded again: " + why, {{"file", session->spec().file.string()}});
    if (code == Code::kWorkerLost) suspect_ = seat;
    return fail(code, why);
  };
  const auto lost_or_not = [](const Error& error) {
    return error.code == Code::kWorkerLost ? Code::kWorkerLost : Code::kUnavailable;
  };
  if (const auto same = check_unchanged(seat.files); !same) {
    return failed(same.error().message, same.error().code);
  }
  const auto loaded = worker->load(session->spec(), seat.load_limit);
  if (!loaded) return failed(loaded.error().message, lost_or_not(loaded.error()));
  const auto same = check_unchanged(seat.files);  // they may have been replaced meanwhile
  const auto moved = same ? session->move_to(worker, *loaded) : same;
  if (!moved) {
    worker->unload(loaded->id, kRetireLimit);
    return failed(moved.error().message, moved.error().code);
  }
  if (const auto probe = runtime::find_sample(*session); !probe) {
    return failed("the probe run failed: " + probe.error().message, lost_or_not(probe.error()));
  }
  after_probe(restart_);
  seat.hooks.back();
  return {};
}

// Where not, or not by itself, its level is told.
bool Supervisor::may_succeed_later(const Seat& seat, const Error& error) {
  if (error.code == Code::kNotFound) {
    seat.hooks.lost({Loss::Cause::kStart, error.message});
    return true;
  }
  if (!runtime::is_configuration(error)) return true;
  seat.hooks.lost({Loss::Cause::kStart, error.message + kNotAgain});
  return false;
}

// From now on stop() ends the worker rather than wait for what the thread waits for.
bool Supervisor::begin_blocking() {
  const MutexLock lock(mutex_);
  blocking_ = !stopping_;
  return blocking_;
}

void Supervisor::end_blocking() {
  const MutexLock lock(mutex_);
  blocking_ = false;
}

void Supervisor::retry_missing(const std::shared_ptr<Worker>& worker) {
  if (!begin_blocking()) return;
  std::erase_if(missing_, [&](Missing& missing) {
    if (clock_.now() < missing.again || worker->loss()) return false;
    const auto session = missing.seat.session.lock();
    const bool another =
        missing.file_is_another && session != nullptr && !check_unchanged(missing.seat.files);
    if (!another) {
      const auto loaded = reload(worker, missing.seat);
      if (loaded || !may_succeed_later(missing.seat, loaded.error())) return true;
      missing.file_is_another = loaded.error().code == Code::kNotFound;
    }
    missing.again = clock_.now() + backoff(options_.restart, ++missing.failures, chance());
    return false;
  });
  end_blocking();
}

TimePoint Supervisor::next_retry() const {
  TimePoint next = TimePoint::max();
  for (const Missing& missing : missing_) next = std::min(next, missing.again);
  return next;
}

double Supervisor::chance() { return std::uniform_real_distribution<>(0, 1)(random_); }

void Supervisor::run_until_unwanted() {
  std::shared_ptr<Worker> worker;
  {
    const MutexLock lock(mutex_);
    worker = worker_;
  }
  if (worker == nullptr) return;
  TimePoint next_ping = clock_.now() + options_.ping_every;
  TimePoint next_trim = clock_.now() + options_.trim_every;
  for (;;) {
    if (worker->check_death()) return;
    {
      const MutexLock lock(mutex_);
      if (stopping_ || !wanted()) return;
      for (Seat& seat : std::exchange(adopted_, {})) missing_.push_back({std::move(seat), 0});
    }
    const TimePoint now = clock_.now();
    if (now >= next_ping) {
      if (!worker->ping(options_.ping_limit, end_.get())) tell_unanswered(*worker);
      reap_abandoned();
      if (now >= next_trim) {
        worker->trim();
        next_trim = now + options_.trim_every;
      }
      next_ping = clock_.now() + options_.ping_every;
      continue;
    }
    if (now >= next_retry()) {
      retry_missing(worker);
      continue;
    }
    if (may_be_useless(worker->failed_runs(), options_.restart)) {
      try_failing(*worker);
      continue;
    }
    wait_readable({worker->death_fd(), wake_.get()}, std::min(next_ping, next_retry()) - now);
    drain_wake();
  }
}

void Supervisor::wait_until(TimePoint end) {
  for (;;) {
    reap_abandoned();
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
    }
    const TimePoint now = clock_.now();
    if (now >= end) return;
    wait_readable({wake_.get()}, end - now);
    drain_wake();
  }
}

void Supervisor::set_state(WorkerState state) {
  {
    const MutexLock lock(mutex_);
    state_ = state;
  }
  changed_.notify_all();
}

std::vector<Seat> Supervisor::seats() {
  const MutexLock lock(mutex_);
  return seats_;
}

void Supervisor::wake() {
  eventfd_write(wake_.get(), 1);
  changed_.notify_all();
}

void Supervisor::drain_wake() {
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
}

}  // namespace gradus::worker
