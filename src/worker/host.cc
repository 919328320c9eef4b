#include "worker/host.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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
#include "worker/channel.h"
#include "worker/pinned.h"
#include "worker/run_wire.h"
#include "worker/segment.h"
#include "worker/socket.h"

namespace gradus::worker {
namespace {

constexpr int kSocketFd = 3;
constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr std::uint64_t kPinStep = 64 * 1024;

// Without destructors: what is under way may never end, and nobody waits for it.
[[noreturn]] void leave(int code) { std::_Exit(code); }

[[noreturn]] void leave_saying(const std::string& why) {
  log::error("worker ends: " + why);
  leave(kFailed);
}

struct Session {
  std::shared_ptr<runtime::Backend> backend;
  bool cuda = false;  // it copies to and from memory that is better page-locked
};

class Sessions {
 public:
  Session find(std::uint64_t id) const {  // without backend: no such
    const MutexLock lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? Session() : found->second;
  }
  void add(std::uint64_t id, Session session) {
    const MutexLock lock(mutex_);
    sessions_[id] = std::move(session);
  }
  void remove(std::uint64_t id) {
    Session last;  // ends outside the lock
    const MutexLock lock(mutex_);
    if (const auto found = sessions_.find(id); found != sessions_.end()) {
      last = std::move(found->second);
      sessions_.erase(found);
    }
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uint64_t, Session> sessions_ GUARDED_BY(mutex_);
};

Result<std::vector<std::size_t>> indices(const std::vector<std::uint32_t>& sent,
                                         const std::vector<runtime::TensorSpec>& of,
                                         const char* kind) {
  for (const std::uint32_t index : sent) {
    if (index < of.size()) continue;
    return fail(Code::kInternal, std::string("no ") + kind + " " + std::to_string(index));
  }
  return std::vector<std::size_t>(sent.begin(), sent.end());
}

// Answers the turns of one channel, on the thread that serve()s.
class Turns {
 public:
  Turns(Socket socket, const LoadFn& load, Sessions& sessions)
      : socket_(std::move(socket)), load_(load), sessions_(sessions) {}

  /// Returns when the server has closed the channel.
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
        const RunRequest request = get_run(reader);
        if (!reader.at_end()) leave_saying("a run that cannot be read came");
        int new_segment = -1;
        put_run_reply(writer, run(request, message.fd, new_segment));
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
    const bool cuda = copies_with_cuda(loaded->provider_used);
    put_loaded(writer, {.signature = loaded->backend->signature(),
                        .placement = loaded->backend->placement(),
                        .provider_used = std::move(loaded->provider_used),
                        .node_share = loaded->node_share,
                        .failures = std::move(loaded->failures)});
    sessions_.add(id, {std::move(loaded->backend), cuda});
  }

  // Memory of the server's, read only, and how much of it is page-locked.
  struct Input {
    std::shared_ptr<const Segment> segment;
    int runs = 0;
    Pinned pinned{};  // ends before the mapping
  };
  struct Output {
    std::shared_ptr<Segment> segment;
    Pinned pinned{};
  };

  Input& input_of(const RunRequest& request, const Fd& fd) {
    for (const std::uint64_t id : request.dropped_blocks) inputs_.erase(id);
    Input& input = inputs_[request.input_block];
    if (fd) {
      // Of a block only what was written is memory: the rest must not become it by being mapped.
      auto opened = Segment::open(
          fd, request.input_block == 0 ? Segment::Pages::kAll : Segment::Pages::kTouched);
      if (!opened) leave_saying(opened.error().message);
      input.pinned = {};  // before its mapping goes
      input.segment = std::move(*opened);
      input.runs = 0;
    }
    if (inputs_.size() > kMostBlocks + 1) leave_saying("too many blocks of inputs came");
    return input;
  }

  // From its second use on: memory that came once may never come again. Of a block only as far as
  // its inputs reach, in steps, so that little is locked that nobody writes to.
  static void pin(Input& input, const std::vector<Placed>& placed) {
    if (++input.runs == 1) return;
    std::uint64_t end = 0;
    for (const Placed& tensor : placed) end = std::max(end, tensor.offset + tensor.bytes);
    if (end <= input.pinned.memory().size()) return;
    const auto all = input.segment->data();
    const std::uint64_t step = std::max(all.size() / 8, kPinStep);
    const std::uint64_t length = std::min((end + step - 1) / step * step, all.size());
    input.pinned = {};
    input.pinned = Pinned(all.first(length), Pinned::Access::kRead);
  }

  Result<std::vector<Placed>> run(const RunRequest& request, const Fd& fd, int& new_segment) {
    for (const std::uint64_t id : request.dropped) outputs_.erase(id);
    Input& input = input_of(request, fd);
    const auto [backend, cuda] = sessions_.find(request.session);
    if (backend == nullptr) return fail(Code::kInternal, "no such session in the worker");
    const auto views =
        views_in(input.segment == nullptr ? std::span<const std::byte>() : input.segment->data(),
                 request.inputs);
    if (!views) return tl::unexpected(views.error());
    if (cuda && input.segment != nullptr) pin(input, request.inputs);
    const runtime::Signature& signature = backend->signature();
    const auto wanted = indices(request.outputs, signature.outputs, "output");
    if (!wanted) return tl::unexpected(wanted.error());
    const auto optional =
        indices(request.optional_inputs, signature.optional_inputs, "optional input");
    if (!optional) return tl::unexpected(optional.error());
    const auto tensors = backend->run({*views, *optional}, *wanted);
    if (!tensors) return tl::unexpected(tensors.error());
    return hand_over(*tensors, request.output_segment, cuda, new_segment);
  }

  Result<std::vector<Placed>> hand_over(const std::vector<Tensor>& tensors, std::uint64_t id,
                                        bool cuda, int& new_segment) {
    std::vector<std::uint64_t> sizes;
    for (const Tensor& tensor : tensors) sizes.push_back(tensor.data.size());
    const auto offsets = layout(sizes);
    Output& output = outputs_[id];
    std::shared_ptr<Segment>& segment = output.segment;
    if (segment == nullptr || segment->size() < offsets.back()) {
      auto made = Segment::make(offsets.back());
      if (!made) return tl::unexpected(made.error());
      output.pinned = {};
      segment = std::move(*made);
      new_segment = segment->fd();
      if (cuda) output.pinned = Pinned(segment->data(), Pinned::Access::kWrite);
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
  std::map<std::uint64_t, Input> inputs_;  // 0: the channel's slot; others: blocks of a pool
  std::map<std::uint64_t, Output> outputs_;
};

// The threads of channels; those that have ended are joined when another begins.
class Threads {
 public:
  template <class Work>
  void start(Work work) {
    std::erase_if(threads_, [](const Thread& thread) { return thread.ended->load(); });
    auto ended = std::make_shared<std::atomic<bool>>(false);
    threads_.push_back({ended, std::jthread([ended, work = std::move(work)]() mutable {
                          work();
                          *ended = true;
                        })});
  }

 private:
  struct Thread {
    std::shared_ptr<std::atomic<bool>> ended;
    std::jthread thread;
  };
  std::vector<Thread> threads_;
};

void confine(pid_t server) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != server) leave(kFailed);  // it died before that took hold
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // Writing a core would hold back the news of a death. One byte is too little for a file; and it
  // is the one limit at which the kernel also gives none to a program that core_pattern pipes it
  // to: at 0 it does. PR_SET_DUMPABLE would hide from the server how it ends.
  const rlimit none{.rlim_cur = 1, .rlim_max = 1};
  setrlimit(RLIMIT_CORE, &none);
  fcntl(kSocketFd, F_SETFD, FD_CLOEXEC);  // what a driver starts does not keep it open
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
  Threads channels;
  for (;;) {
    auto message = control.receive();
    if (!message) leave_saying(message.error().message);
    if (!*message) leave(kOk);  // the server is gone
    switch ((*message)->kind) {
      case Kind::kPing:
        if (!control.send(Kind::kPong, (*message)->request)) leave(kFailed);
        break;
      case Kind::kOpen:
        channels.start([&, socket = Socket(std::move((*message)->fd))]() mutable {
          Turns(std::move(socket), load, sessions).serve();
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
