#include "worker/worker.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "worker/run_wire.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

// What closed its socket without exiting: a kernel that says so late is given this long.
constexpr auto kLateDeath = 50ms;

std::string ms_text(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()) + " ms";
}

// What a run may bring about; a deliberate end, or want of memory that others told of, is not that.
bool may_be_its_fault(Loss::Cause cause) {
  return cause == Loss::Cause::kDied || cause == Loss::Cause::kHung ||
         cause == Loss::Cause::kProtocol || cause == Loss::Cause::kSticky;
}

}  // namespace

std::string_view to_string(Loss::Cause cause) {
  switch (cause) {
    case Loss::Cause::kDied:
      return "died";
    case Loss::Cause::kHung:
      return "hung";
    case Loss::Cause::kProtocol:
      return "protocol";
    case Loss::Cause::kSticky:
      return "sticky";
    case Loss::Cause::kOutOfMemory:
      return "out_of_memory";
    case Loss::Cause::kFailures:
      return "failures";
    case Loss::Cause::kStart:
      return "start";
    case Loss::Cause::kStopped:
      return "stopped";
  }
  std::abort();
}

Worker::Worker(const Options& options, std::unique_ptr<Process> process, Socket control)
    : who_("worker " + std::to_string(process->pid()) + " of device '" + options.greeting.device +
           "'"),
      pool_(options.pool),
      process_(std::move(process)),
      lost_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      control_(std::move(control)) {}

Worker::~Worker() {
  process_->kill();
  if (wait_dead(1s)) return;
  const MutexLock lock(mutex_);
  for (auto& channel : held_) channel.release();  // never given back: it may still read there
}

Result<std::shared_ptr<Worker>> Worker::start(const Options& options, int until) {
  auto sockets = Socket::pair();
  if (!sockets) return tl::unexpected(sockets.error());
  auto process = Process::spawn(options.executable, options.arguments, std::move(sockets->second),
                                options.kill);
  if (!process) return tl::unexpected(process.error());
  std::shared_ptr<Worker> worker(
      new Worker(options, std::move(*process), std::move(sockets->first)));
  if (auto greeted = worker->hello(options, until); !greeted) {
    worker->process_->kill();
    return tl::unexpected(greeted.error());
  }
  return worker;
}

Result<void> Worker::hello(const Options& options, int until) {
  Writer writer;
  put_greeting(writer, options.greeting);
  const std::uint64_t request = next_++;
  if (auto sent = control_.send(Kind::kHello, request, writer.body()); !sent) {
    return tl::unexpected(died());
  }
  const auto ready =
      wait_readable({control_.fd(), process_->death_fd(), until}, options.hello_limit);
  if (ready == 0b100) return tl::unexpected(lose(Loss::Cause::kStopped, "was stopped"));
  if (ready == 0) {
    return tl::unexpected(
        lose(Loss::Cause::kHung, "did not start within " + ms_text(options.hello_limit)));
  }
  if ((ready & 1) == 0) return tl::unexpected(died());
  const auto message = control_.receive();
  if (!message) return tl::unexpected(lose(Loss::Cause::kProtocol, message.error().message));
  if (!*message) return tl::unexpected(died());
  Reader reader((*message)->body);
  const std::string version = reader.text();
  const bool works = reader.get<std::uint8_t>() != 0;
  if (!reader.ok() || (*message)->kind != Kind::kHelloReply || (*message)->request != request ||
      version != options.greeting.version) {
    return tl::unexpected(
        lose(Loss::Cause::kProtocol,
             "gave no answer of version " + options.greeting.version + " to the hello"));
  }
  if (!works) {
    return tl::unexpected(lose(Loss::Cause::kStart, "cannot start: " + get_error(reader).message));
  }
  return {};
}

Error Worker::lose(Loss::Cause cause, const std::string& what) {
  bool first = false;
  Error told{Code::kUnavailable, {}};
  {
    const MutexLock lock(mutex_);
    first = !loss_;
    if (first) loss_ = Loss{cause, who_ + " " + what};
    told.message = loss_->text;
  }
  if (first) {
    process_->kill();
    eventfd_write(lost_.get(), 1);
    if (on_loss) on_loss();
  }
  return told;
}

std::optional<Loss> Worker::loss() const {
  const MutexLock lock(mutex_);
  return loss_;
}

std::optional<Loss> Worker::check_death() {
  if (const auto death = process_->death()) lose(Loss::Cause::kDied, *death);
  return loss();
}

bool Worker::wait_dead(Duration limit) {
  if (!process_->wait_dead(limit)) return false;
  std::vector<std::unique_ptr<Channel>> free;  // end outside the lock
  const MutexLock lock(mutex_);
  free.swap(held_);
  return true;
}

// Its socket is closed, or its death can be waited for. A process that ends says so before its
// sockets close; it is dead only when all of its memory and its devices are given back.
Error Worker::died() {
  if (const auto how = process_->ending()) return lose(Loss::Cause::kDied, *how);
  if (process_->wait_dead(kLateDeath)) return lose(Loss::Cause::kDied, *process_->death());
  return lose(Loss::Cause::kProtocol, "closed its socket and was killed");
}

// The run that it had is over for its caller, but not for the worker before it is dead.
Error Worker::lost_with(std::unique_ptr<Channel> channel, Error error) {
  const bool dead = process_->death().has_value();
  const MutexLock lock(mutex_);
  if (!dead) held_.push_back(std::move(channel));
  error.code = loss_ && may_be_its_fault(loss_->cause) ? Code::kWorkerLost : Code::kNotFound;
  return error;
}

// It has not got the run: if that is because it is lost, nothing has failed but itself.
Error Worker::lost_before(Error error) const {
  if (loss()) error.code = Code::kNotFound;
  return error;
}

Result<std::unique_ptr<Channel>> Worker::take_channel() {
  {
    const MutexLock lock(mutex_);
    if (loss_) return fail(Code::kUnavailable, loss_->text);
    if (!idle_.empty()) {
      auto channel = std::move(idle_.back());
      idle_.pop_back();
      unused_ = std::min(unused_, idle_.size());
      return channel;
    }
  }
  auto sockets = Socket::pair();
  if (!sockets) return tl::unexpected(sockets.error());
  const MutexLock lock(control_mutex_);
  if (!control_.send(Kind::kOpen, next_++, {}, sockets->second.fd())) {
    return tl::unexpected(died());
  }
  return std::make_unique<Channel>(std::move(sockets->first), pool_);
}

void Worker::give_back(std::unique_ptr<Channel> channel, bool run_succeeded) {
  const MutexLock lock(mutex_);
  if (run_succeeded) failed_runs_ = {};
  if (!loss_) idle_.push_back(std::move(channel));
}

void Worker::trim() {
  std::vector<std::unique_ptr<Channel>> closed;  // outside the lock
  const MutexLock lock(mutex_);
  std::size_t index = 0;
  std::erase_if(idle_, [&](std::unique_ptr<Channel>& channel) {
    const bool unused = index++ < unused_;
    if (!channel->oversized() && !unused) return false;
    closed.push_back(std::move(channel));
    return true;
  });
  unused_ = idle_.size();
}

Worker::Idle Worker::idle() const {
  const MutexLock lock(mutex_);
  Idle idle{.channels = idle_.size()};
  for (const auto& channel : idle_) idle.slot_bytes += channel->slot_bytes();
  return idle;
}

Result<Message> Worker::turn(Channel& channel, Kind kind, std::span<const std::byte> body,
                             Kind reply, Duration limit) {
  const auto request = ask(channel, kind, body, -1);
  if (!request) return tl::unexpected(request.error());
  return hear(channel, *request, reply, limit);
}

// An error: the worker has not got it.
Result<std::uint64_t> Worker::ask(Channel& channel, Kind kind, std::span<const std::byte> body,
                                  int fd) {
  const std::uint64_t request = next_++;
  if (const auto sent = channel.socket().send(kind, request, body, fd); !sent) {
    if (sent.error().code == Code::kInternal) return tl::unexpected(sent.error());  // too large
    return tl::unexpected(died());
  }
  return request;
}

// An error: the worker is lost.
Result<Message> Worker::hear(Channel& channel, std::uint64_t request, Kind reply, Duration limit) {
  const auto ready =
      wait_readable({channel.socket().fd(), process_->death_fd(), lost_.get()}, limit);
  if (ready == 0) {
    return tl::unexpected(
        lose(Loss::Cause::kHung, "hung for " + ms_text(limit) + " and was killed"));
  }
  if ((ready & 3) == 0) return fail(Code::kUnavailable, loss()->text);
  if ((ready & 1) == 0) return tl::unexpected(died());
  auto message = channel.socket().receive();
  if (!message) {
    return tl::unexpected(lose(Loss::Cause::kProtocol, "was killed: " + message.error().message));
  }
  if (!*message) return tl::unexpected(died());
  if ((*message)->kind != reply || (*message)->request != request) {
    return tl::unexpected(
        lose(Loss::Cause::kProtocol, "was killed: it answered what was not asked"));
  }
  return std::move(**message);
}

Result<Worker::Session> Worker::load(const runtime::LoadSpec& spec, Duration limit) {
  auto channel = take_channel();
  if (!channel) return tl::unexpected(channel.error());
  Session session;
  session.id = next_++;
  Writer writer;
  writer.put(session.id);
  put_spec(writer, spec);
  const auto request = ask(**channel, Kind::kLoad, writer.body(), -1);
  if (!request) return tl::unexpected(request.error());
  auto message = hear(**channel, *request, Kind::kLoadReply, limit);
  if (!message) return tl::unexpected(lost_with(std::move(*channel), message.error()));
  Reader reader(message->body);
  Error error;
  const bool loaded = reader.get<std::uint8_t>() != 0;
  if (loaded) {
    session.facts = get_loaded(reader);
  } else {
    error = get_error(reader);
  }
  if (!reader.at_end()) {
    auto loss = lose(Loss::Cause::kProtocol, "was killed: its load is unreadable");
    return tl::unexpected(lost_with(std::move(*channel), std::move(loss)));
  }
  give_back(std::move(*channel));
  if (!loaded) return tl::unexpected(error);
  return session;
}

void Worker::unload(std::uint64_t session, Duration limit) {
  auto channel = take_channel();
  if (!channel) return;  // lost: nothing is loaded
  Writer writer;
  writer.put(session);
  if (turn(**channel, Kind::kUnload, writer.body(), Kind::kUnloadReply, limit)) {
    give_back(std::move(*channel));
  }
}

Result<std::vector<Tensor>> Worker::run(std::uint64_t session, const runtime::RunInputs& inputs,
                                        std::span<const std::size_t> outputs, Duration limit) {
  auto taken = take_channel();
  if (!taken) return tl::unexpected(lost_before(std::move(taken.error())));
  auto run = (*taken)->begin(session, inputs, outputs, next_++);
  if (!run) {
    give_back(std::move(*taken));
    return tl::unexpected(run.error());
  }
  Writer writer;
  put_run(writer, run->request);
  const auto request = ask(**taken, Kind::kRun, writer.body(), run->fd);
  if (!request) return tl::unexpected(lost_before(request.error()));
  const auto message = hear(**taken, *request, Kind::kRunReply, limit);
  if (!message) return tl::unexpected(lost_with(std::move(*taken), message.error()));
  auto tensors = (*taken)->end(*message);
  if (!tensors) {
    auto loss = lose(Loss::Cause::kProtocol, "was killed: " + tensors.error().message);
    return tl::unexpected(lost_with(std::move(*taken), std::move(loss)));
  }
  give_back(std::move(*taken), tensors->has_value());
  return std::move(*tensors);
}

void Worker::note_run(bool ok, TimePoint at) {
  const MutexLock lock(mutex_);
  worker::note_run(failed_runs_, ok, at);
}

FailedRuns Worker::failed_runs() const {
  const MutexLock lock(mutex_);
  return failed_runs_;
}

bool Worker::ping(Duration limit, int until) {
  const std::uint64_t request = next_++;
  {
    const MutexLock lock(control_mutex_);
    if (!control_.send(Kind::kPing, request)) {
      died();
      return false;
    }
  }
  const auto ready =
      wait_readable({control_.fd(), process_->death_fd(), lost_.get(), until}, limit);
  if ((ready & 1) == 0) return false;
  const auto message = control_.receive();
  if (!message) {
    lose(Loss::Cause::kProtocol, "was killed: " + message.error().message);
  } else if (!*message) {
    died();
  } else if ((*message)->kind != Kind::kPong || (*message)->request != request) {
    lose(Loss::Cause::kProtocol, "was killed: it answered a ping with something else");
  }
  return !loss();
}

bool Worker::stop(Duration grace) {
  {
    const MutexLock lock(control_mutex_);
    if (!control_.send(Kind::kStop, next_++)) grace = Duration::zero();
  }
  process_->wait_dead(grace);
  lose(Loss::Cause::kStopped, "was stopped");
  return wait_dead(1s);
}

}  // namespace gradus::worker
