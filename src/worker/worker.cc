#include "worker/worker.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "worker/run_wire.h"
#include "worker/segment.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

// Output segments that a channel keeps for its next runs.
constexpr std::size_t kFreeOutputs = 2;

std::string ms_text(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()) + " ms";
}

Tensor owned_copy(const TensorView& view) {
  return make_tensor(view.dtype, view.shape, {view.data.begin(), view.data.end()});
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
    case Loss::Cause::kStart:
      return "start";
    case Loss::Cause::kStopped:
      return "stopped";
  }
  std::abort();
}

// A socket, the worker's thread behind it, and the memory that their turns use. Owned by one thread
// at a time.
struct Worker::Channel {
  struct Output {
    std::uint64_t id;
    std::shared_ptr<const Segment> segment;  // held by tensors too, while somebody reads them
  };

  // One that nobody reads any more, or a new one.
  Output take_output(std::uint64_t new_id) {
    for (auto output = outputs.begin(); output != outputs.end(); ++output) {
      if (output->segment.use_count() > 1) continue;
      std::atomic_thread_fence(std::memory_order_acquire);  // after the last reader's release
      Output taken = std::move(*output);
      outputs.erase(output);
      return taken;
    }
    return {new_id, nullptr};
  }

  // Takes free ones beyond those worth keeping off the list.
  std::vector<std::uint64_t> drop_outputs() {
    std::vector<std::uint64_t> dropped;
    std::size_t kept = 0;
    std::erase_if(outputs, [&](const Output& output) {
      if (output.segment.use_count() > 1 || kept++ < kFreeOutputs) return false;
      dropped.push_back(output.id);
      return true;
    });
    return dropped;
  }

  Socket socket;
  std::shared_ptr<Segment> input;
  std::vector<Output> outputs;
};

Worker::Worker(std::string device, std::unique_ptr<Process> process, Socket control)
    : who_("worker " + std::to_string(process->pid()) + " of device '" + device + "'"),
      process_(std::move(process)),
      control_(std::move(control)) {}

Worker::~Worker() = default;

Result<std::shared_ptr<Worker>> Worker::start(const Options& options) {
  auto sockets = Socket::pair();
  if (!sockets) return tl::unexpected(sockets.error());
  auto process = Process::spawn(options.executable, options.arguments, std::move(sockets->second));
  if (!process) return tl::unexpected(process.error());
  std::shared_ptr<Worker> worker(
      new Worker(options.greeting.device, std::move(*process), std::move(sockets->first)));
  if (auto greeted = worker->hello(options); !greeted) {
    worker->process_->kill();
    return tl::unexpected(greeted.error());
  }
  return worker;
}

Result<void> Worker::hello(const Options& options) {
  Writer writer;
  put_greeting(writer, options.greeting);
  const std::uint64_t request = next_++;
  if (auto sent = control_.send(Kind::kHello, request, writer.body()); !sent) {
    return tl::unexpected(died());
  }
  const auto ready = wait_readable({control_.fd(), process_->death_fd()}, options.hello_limit);
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

// Its socket closes a moment before its death can be asked for: the longer, the more memory it has.
// What waits for an answer cannot wait for all of that.
Error Worker::died() {
  if (process_->wait_dead(50ms)) return lose(Loss::Cause::kDied, *process_->death());
  return lose(Loss::Cause::kProtocol, "closed its socket and was killed");
}

Result<std::unique_ptr<Worker::Channel>> Worker::take_channel() {
  {
    const MutexLock lock(mutex_);
    if (loss_) return fail(Code::kUnavailable, loss_->text);
    if (!idle_.empty()) {
      auto channel = std::move(idle_.back());
      idle_.pop_back();
      return channel;
    }
  }
  auto sockets = Socket::pair();
  if (!sockets) return tl::unexpected(sockets.error());
  const MutexLock lock(control_mutex_);
  if (!control_.send(Kind::kOpen, next_++, {}, sockets->second.fd())) {
    return tl::unexpected(died());
  }
  auto channel = std::make_unique<Channel>();
  channel->socket = std::move(sockets->first);
  return channel;
}

void Worker::give_back(std::unique_ptr<Channel> channel) {
  const MutexLock lock(mutex_);
  if (!loss_) idle_.push_back(std::move(channel));
}

Result<Message> Worker::turn(Channel& channel, Kind kind, std::span<const std::byte> body, int fd,
                             Kind reply, Duration limit) {
  const std::uint64_t request = next_++;
  if (const auto sent = channel.socket.send(kind, request, body, fd); !sent) {
    if (sent.error().code == Code::kInternal) return tl::unexpected(sent.error());  // too large
    return tl::unexpected(died());
  }
  const auto ready = wait_readable({channel.socket.fd(), process_->death_fd()}, limit);
  if (ready == 0) {
    return tl::unexpected(
        lose(Loss::Cause::kHung, "hung for " + ms_text(limit) + " and was killed"));
  }
  if ((ready & 1) == 0) return tl::unexpected(died());
  auto message = channel.socket.receive();
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
  auto message = turn(**channel, Kind::kLoad, writer.body(), -1, Kind::kLoadReply, limit);
  if (!message) return tl::unexpected(message.error());
  Reader reader(message->body);
  Error error;
  const bool loaded = reader.get<std::uint8_t>() != 0;
  if (loaded) {
    session.facts = get_loaded(reader);
  } else {
    error = get_error(reader);
  }
  if (!reader.at_end()) {
    return tl::unexpected(lose(Loss::Cause::kProtocol, "was killed: its load is unreadable"));
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
  if (turn(**channel, Kind::kUnload, writer.body(), -1, Kind::kUnloadReply, limit)) {
    give_back(std::move(*channel));
  }
}

Result<std::vector<Tensor>> Worker::run(std::uint64_t session, std::span<const TensorView> inputs,
                                        std::span<const std::size_t> outputs, Duration limit) {
  auto taken = take_channel();
  if (!taken) return tl::unexpected(taken.error());
  Channel& channel = **taken;

  std::vector<std::uint64_t> sizes;
  sizes.reserve(inputs.size());
  for (const TensorView& input : inputs) sizes.push_back(input.data.size());
  const auto offsets = layout(sizes);
  int new_input = -1;
  if (channel.input == nullptr || channel.input->size() < offsets.back()) {
    auto made = Segment::make(offsets.back());
    if (!made) {
      give_back(std::move(*taken));
      return tl::unexpected(made.error());
    }
    channel.input = std::move(*made);
    new_input = channel.input->fd();
  }
  Channel::Output output = channel.take_output(next_++);
  RunRequest request{.session = session,
                     .output_segment = output.id,
                     .dropped = channel.drop_outputs(),
                     .outputs = {outputs.begin(), outputs.end()}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& input = inputs[i];
    if (!input.data.empty()) {
      std::memcpy(channel.input->writable().data() + offsets[i], input.data.data(),
                  input.data.size());
    }
    request.inputs.push_back({input.dtype, input.shape, offsets[i], input.data.size()});
  }
  Writer writer;
  put_run(writer, request);
  auto message = turn(channel, Kind::kRun, writer.body(), new_input, Kind::kRunReply, limit);
  if (!message) return tl::unexpected(message.error());

  const auto garbage = [&](const std::string& what) {
    return tl::unexpected(lose(Loss::Cause::kProtocol, "was killed: " + what));
  };
  Reader reader(message->body);
  const auto placed = get_run_reply(reader);
  if (!reader.at_end()) return garbage("its answer is unreadable");
  if (message->fd) {
    auto opened = Segment::open(message->fd);
    if (!opened) return garbage(opened.error().message);
    output.segment = std::move(*opened);
  }
  if (!placed) {
    if (output.segment != nullptr) channel.outputs.push_back(std::move(output));
    give_back(std::move(*taken));
    return tl::unexpected(placed.error());
  }
  if (placed->size() != outputs.size()) return garbage("its answer lacks outputs");
  const auto views = views_in(
      output.segment == nullptr ? std::span<const std::byte>() : output.segment->data(), *placed);
  if (!views) return garbage(views.error().message);
  std::vector<Tensor> tensors;
  tensors.reserve(views->size());
  for (const TensorView& view : *views) {
    if (view.dtype ==
        DType::kBytes) {  // lengths are among the bytes: they must not change any more
      tensors.push_back(owned_copy(view));
      const TensorView copy{view.dtype, view.shape, tensors.back().data};
      if (const auto fits = check_byte_size(copy); !fits) return garbage(fits.error().message);
    } else {
      tensors.push_back({view.dtype, view.shape, view.data, output.segment});
    }
  }
  if (output.segment != nullptr) channel.outputs.push_back(std::move(output));
  give_back(std::move(*taken));
  return tensors;
}

bool Worker::ping(Duration limit) {
  const std::uint64_t request = next_++;
  {
    const MutexLock lock(control_mutex_);
    if (!control_.send(Kind::kPing, request)) return false;
  }
  if ((wait_readable({control_.fd(), process_->death_fd()}, limit) & 1) == 0) return false;
  const auto message = control_.receive();
  return message && *message && (*message)->kind == Kind::kPong && (*message)->request == request;
}

bool Worker::stop(Duration grace) {
  {
    const MutexLock lock(control_mutex_);
    if (!control_.send(Kind::kStop, next_++)) grace = Duration::zero();
  }
  process_->wait_dead(grace);
  lose(Loss::Cause::kStopped, "was stopped");
  return process_->wait_dead(1s);
}

}  // namespace gradus::worker
