#include "worker/host.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "runtime/ort/ort_runtime.h"
#include "worker/run_wire.h"
#include "worker/segment.h"
#include "worker/socket.h"

namespace gradus::worker {
namespace {

constexpr int kSocketFd = 3;
constexpr int kOk = 0;
constexpr int kFailed = 1;

// Without destructors: what is under way may never end, and nobody waits for it.
[[noreturn]] void leave(int code) { std::_Exit(code); }

[[noreturn]] void leave_saying(const std::string& why) {
  log::error("worker ends: " + why);
  leave(kFailed);
}

class Sessions {
 public:
  std::shared_ptr<runtime::Backend> find(std::uint64_t id) const {
    const MutexLock lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
  }
  void add(std::uint64_t id, std::unique_ptr<runtime::Backend> backend) {
    const MutexLock lock(mutex_);
    sessions_[id] = std::move(backend);
  }
  void remove(std::uint64_t id) {
    std::shared_ptr<runtime::Backend> last;  // ends outside the lock
    const MutexLock lock(mutex_);
    if (const auto found = sessions_.find(id); found != sessions_.end()) {
      last = std::move(found->second);
      sessions_.erase(found);
    }
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<runtime::Backend>> sessions_ GUARDED_BY(mutex_);
};

class Channel {
 public:
  Channel(Socket socket, const LoadFn& load, Sessions& sessions)
      : socket_(std::move(socket)), load_(load), sessions_(sessions) {}

  void serve() {
    for (;;) {
      auto message = socket_.receive();
      if (!message) leave_saying(message.error().message);
      if (!*message) return;
      answer(**message);
    }
  }

 private:
  void answer(Message& message) {
    Reader reader(message.body);
    Writer writer;
    switch (message.kind) {
      case Kind::kLoad:
        load(reader, writer);
        return reply(Kind::kLoadReply, message.request, writer);
      case Kind::kUnload:
        sessions_.remove(reader.get<std::uint64_t>());
        return reply(Kind::kUnloadReply, message.request, writer);
      case Kind::kRun: {
        if (message.fd) {
          auto opened = Segment::open(message.fd);
          if (!opened) leave_saying(opened.error().message);
          input_ = std::move(*opened);
        }
        int new_segment = -1;
        put_run_reply(writer, run(reader, new_segment));
        return reply(Kind::kRunReply, message.request, writer, new_segment);
      }
      default:
        leave_saying("a message of kind " + std::to_string(static_cast<int>(message.kind)) +
                     " came on a channel");
    }
  }

  void reply(Kind kind, std::uint64_t request, const Writer& writer, int fd = -1) {
    auto sent = socket_.send(kind, request, writer.body(), fd);
    if (!sent && writer.body().size() > kMaxBody) {  // the facts of a model beyond all measure
      Writer smaller;
      smaller.put(false);
      put_error(smaller, sent.error());
      sent = socket_.send(kind, request, smaller.body());
    }
    if (!sent) leave_saying(sent.error().message);
  }

  void load(Reader& reader, Writer& writer) {
    const auto id = reader.get<std::uint64_t>();
    const runtime::LoadSpec spec = get_spec(reader);
    if (!reader.at_end()) leave_saying("a load that cannot be read came");
    auto loaded = load_(spec);
    writer.put(loaded.has_value());
    if (!loaded) return put_error(writer, loaded.error());
    put_loaded(writer, {.signature = loaded->backend->signature(),
                        .placement = loaded->backend->placement(),
                        .provider_used = std::move(loaded->provider_used),
                        .node_share = loaded->node_share,
                        .failures = std::move(loaded->failures)});
    sessions_.add(id, std::move(loaded->backend));
  }

  Result<std::vector<Placed>> run(Reader& reader, int& new_segment) {
    const RunRequest request = get_run(reader);
    if (!reader.at_end()) leave_saying("a run that cannot be read came");
    for (const std::uint64_t id : request.dropped) outputs_.erase(id);
    const auto backend = sessions_.find(request.session);
    if (backend == nullptr) return fail(Code::kInternal, "no such session in the worker");
    const auto views =
        views_in(input_ == nullptr ? std::span<const std::byte>() : input_->data(), request.inputs);
    if (!views) return tl::unexpected(views.error());
    std::vector<std::size_t> wanted;
    for (const std::uint32_t index : request.outputs) {
      if (index >= backend->signature().outputs.size()) {
        return fail(Code::kInternal, "no output " + std::to_string(index));
      }
      wanted.push_back(index);
    }
    const auto tensors = backend->run(*views, wanted);
    if (!tensors) return tl::unexpected(tensors.error());
    return hand_over(*tensors, request.output_segment, new_segment);
  }

  Result<std::vector<Placed>> hand_over(const std::vector<Tensor>& tensors, std::uint64_t id,
                                        int& new_segment) {
    std::vector<std::uint64_t> sizes;
    for (const Tensor& tensor : tensors) sizes.push_back(tensor.data.size());
    const auto offsets = layout(sizes);
    std::shared_ptr<Segment>& segment = outputs_[id];
    if (segment == nullptr || segment->size() < offsets.back()) {
      auto made = Segment::make(offsets.back());
      if (!made) return tl::unexpected(made.error());
      segment = std::move(*made);
      new_segment = segment->fd();
    }
    std::vector<Placed> placed;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i];
      if (!tensor.data.empty()) {
        std::memcpy(segment->writable().data() + offsets[i], tensor.data.data(),
                    tensor.data.size());
      }
      placed.push_back({tensor.dtype, tensor.shape, offsets[i], tensor.data.size()});
    }
    return placed;
  }

  Socket socket_;
  const LoadFn& load_;
  Sessions& sessions_;
  std::shared_ptr<const Segment> input_;
  std::map<std::uint64_t, std::shared_ptr<Segment>> outputs_;
};

void confine(pid_t server) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != server) leave(kFailed);  // it died before that took hold
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);  // writing a core would hold back the news of a death
  close_range(kSocketFd + 1, ~0U, 0);
  pthread_setname_np(pthread_self(), "gradus-worker");
}

LoadFn greet(Socket& control, std::string_view version, const MakeLoadFn& make) {
  auto message = control.receive();
  if (!message) leave_saying(message.error().message);
  if (!*message) leave(kOk);
  Reader reader((*message)->body);
  const Greeting greeting = get_greeting(reader);
  if ((*message)->kind != Kind::kHello || !reader.at_end() || greeting.version != version) {
    leave_saying("its server is another version than " + std::string(version));
  }
  log::configure(greeting.log_level, greeting.log_format);
  log::tag("worker", greeting.device);
  auto load = make(greeting);
  Writer writer;
  writer.text(version).put(load.has_value());
  if (!load) put_error(writer, load.error());
  if (!control.send(Kind::kHelloReply, (*message)->request, writer.body()) || !load) leave(kFailed);
  return std::move(*load);
}

}  // namespace

Result<LoadFn> ort_load(const Greeting& greeting) {
  auto made = runtime::OrtRuntime::create({.provider_libraries = greeting.provider_libraries,
                                           .verbose = log::enabled(log::Severity::kDebug),
                                           .allow_software_gpu = greeting.allow_software_gpu});
  if (!made) return tl::unexpected(made.error());
  std::shared_ptr<runtime::OrtRuntime> runtime = std::move(*made);
  return [runtime](const runtime::LoadSpec& spec) { return runtime->load(spec); };
}

void host(pid_t server, std::string_view version, const MakeLoadFn& make) {
  confine(server);
  Socket control{Fd(kSocketFd)};
  const LoadFn load = greet(control, version, make);
  Sessions sessions;
  std::vector<std::jthread> channels;
  for (;;) {
    auto message = control.receive();
    if (!message) leave_saying(message.error().message);
    if (!*message) leave(kOk);  // the server is gone
    switch ((*message)->kind) {
      case Kind::kPing:
        if (!control.send(Kind::kPong, (*message)->request)) leave(kFailed);
        break;
      case Kind::kOpen:
        channels.emplace_back([&, socket = Socket(std::move((*message)->fd))]() mutable {
          Channel(std::move(socket), load, sessions).serve();
        });
        break;
      case Kind::kStop:
        leave(kOk);
      default:
        leave_saying("a message of kind " + std::to_string(static_cast<int>((*message)->kind)) +
                     " came on the control socket");
    }
  }
}

}  // namespace gradus::worker
