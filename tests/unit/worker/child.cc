#include "child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "worker/host.h"
#include "worker/run_wire.h"
#include "worker/segment.h"
#include "worker/socket.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNothingKnown = "CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED";

class Doubling final : public runtime::Backend {
 public:
  const runtime::Signature& signature() const override { return signature_; }
  const std::vector<runtime::Placement>& placement() const override { return placement_; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs, runtime::Stop*) override {
    std::vector<float> values(inputs.views[0].data.size() / sizeof(float));
    if (!values.empty())
      std::memcpy(values.data(), inputs.views[0].data.data(), inputs.views[0].data.size());
    if (!values.empty()) {
      if (auto ok = obey(static_cast<int>(values[0]), inputs.views[0]); !ok) {
        return tl::unexpected(ok.error());
      }
    }
    for (float& value : values) value *= 2;
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<Tensor>(outputs.size(), make_tensor(DType::kFp32, inputs.views[0].shape,
                                                           {bytes.begin(), bytes.end()}));
  }

 private:
  static Result<void> obey(int command, const TensorView& input) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit instead
    static std::atomic<bool> broken = false;
    if (command == kBreak) broken = true;
    if (broken) return fail(Code::kUnavailable, kNothingKnown);
    switch (command) {
      case kCrash:
        raise(SIGSEGV);
        break;
      case kExit:
        std::_Exit(7);
      case kSleep:
        for (;;) pause();
      case kSpin:
        for (volatile bool always = true; always;) continue;
        break;
      case kSticky:
        return fail(Code::kUnavailable, "CUDA failure 700: an illegal memory access");
      case kNoMemory:
        return fail(Code::kUnavailable, "CUDA failure 2: out of memory");
      case kWriteInput:
        *const_cast<std::byte*>(input.data.data()) = std::byte{1};
        break;
      case kMeet:
        meet(input);
        break;
      case kBlame:
        return fail(Code::kInvalid, "the input is wrong");
      case kUnlock: {
        const auto at = reinterpret_cast<std::uintptr_t>(input.data.data()) / 4096 * 4096;
        if (mprotect(reinterpret_cast<void*>(at), 4096, PROT_READ | PROT_WRITE) == 0) {
          return fail(Code::kInternal, "the input can be made writable");
        }
        break;
      }
      case kHoard:
        hoard();
        for (;;) pause();
      case kSlow:
        std::this_thread::sleep_for(1200ms);
        break;
      case kStart:
        start();
        break;
      default:
        break;
    }
    return {};
  }

  static void meet(const TensorView& input) {
    static std::atomic<int> there = 0;
    float all = 0;
    std::memcpy(&all, input.data.data() + sizeof all, sizeof all);
    ++there;
    while (there < static_cast<int>(all)) std::this_thread::sleep_for(1ms);
  }

  // Freed only when the last descriptor of it is closed.
  static void hoard() {
    constexpr std::size_t kBytes = 128 << 20;
    const int fd = memfd_create("hoard", MFD_CLOEXEC);
    if (fallocate(fd, 0, 0, kBytes) != 0) std::_Exit(1);
  }

  static void start() {
    std::array<char*, 3> argv{const_cast<char*>("test"), const_cast<char*>("wait"), nullptr};
    pid_t pid = -1;
    if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) != 0) {
      std::_Exit(1);
    }
  }

  const runtime::Signature signature_{.inputs = {{"x", DType::kFp32, {-1}}},
                                      .outputs = {{"y", DType::kFp32, {-1}}}};
  const std::vector<runtime::Placement> placement_{{"FakeExecutionProvider", 1}};
};

class Failing final : public runtime::Backend {
 public:
  explicit Failing(Code code) : code_(code) {}
  const runtime::Signature& signature() const override { return like_.signature(); }
  const std::vector<runtime::Placement>& placement() const override { return like_.placement(); }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs, std::span<const std::size_t>,
                                  runtime::Stop*) override {
    float first = 0;
    std::memcpy(&first, inputs.views[0].data.data(), sizeof first);
    if (static_cast<int>(first) == kBlame) return fail(Code::kInvalid, "the input is wrong");
    if (code_ == Code::kInvalid) return fail(code_, "no input is right");
    return fail(code_, kNothingKnown);
  }

 private:
  const Code code_;
  const Doubling like_;
};

// Answers with what fake_cudart.cc counts; the first value tells it whether to refuse.
class Cuda final : public runtime::Backend {
 public:
  explicit Cuda(void* library)
      : refuse_(reinterpret_cast<decltype(refuse_)>(dlsym(library, "fake_cuda_refuse"))),
        count_(reinterpret_cast<decltype(count_)>(dlsym(library, "fake_cuda_count"))) {}
  const runtime::Signature& signature() const override { return signature_; }
  const std::vector<runtime::Placement>& placement() const override { return placement_; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs, std::span<const std::size_t>,
                                  runtime::Stop*) override {
    float first = 0;
    std::memcpy(&first, inputs.views[0].data.data(), sizeof first);
    refuse_(first != 0);
    std::array<float, 4> counts{};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] = static_cast<float>(count_(static_cast<int>(i)));
    }
    const auto bytes = std::as_bytes(std::span(counts));
    return std::vector{make_tensor(DType::kFp32, {4}, {bytes.begin(), bytes.end()})};
  }

 private:
  void (*refuse_)(int);
  long (*count_)(int);
  const runtime::Signature signature_{.inputs = {{"x", DType::kFp32, {-1}}},
                                      .outputs = {{"counts", DType::kFp32, {4}}}};
  const std::vector<runtime::Placement> placement_{{"CUDAExecutionProvider", 1}};
};

Result<runtime::Loaded> load_cuda() {
  void* const library = dlopen(GRADUS_FAKE_CUDART, RTLD_NOW);
  if (library == nullptr) return fail(Code::kUnavailable, dlerror());
  return runtime::Loaded{std::make_unique<Cuda>(library), "CUDAExecutionProvider", 1, {}};
}

Result<LoadFn> make_loads(const Greeting& greeting) {
  // ONNX Runtime only where a real model is asked for.
  auto real = std::make_shared<Result<LoadFn>>(fail(Code::kInternal, "not made"));
  return LoadFn([greeting, real](const runtime::LoadSpec& spec) -> Result<runtime::Loaded> {
    if (spec.file.filename() == "fake:double") {
      return runtime::Loaded{std::make_unique<Doubling>(), "FakeExecutionProvider", 1, {}};
    }
    if (spec.file == "fake:failing") {
      return runtime::Loaded{
          std::make_unique<Failing>(Code::kUnavailable), "FakeExecutionProvider", 1, {}};
    }
    if (spec.file == "fake:refusing") {
      return runtime::Loaded{
          std::make_unique<Failing>(Code::kInvalid), "FakeExecutionProvider", 1, {}};
    }
    if (spec.file == "fake:crash") raise(SIGKILL);
    if (const std::string name = spec.file.string(); name.find("-without/") != name.npos) {
      const std::string file = name.substr(name.find('/'));
      const bool there = std::filesystem::exists(file);
      if (!there && name.starts_with("fake:crash")) raise(SIGKILL);
      if (!there) std::ofstream(file + ".awaited").put('x');
      while (!std::filesystem::exists(file)) std::this_thread::sleep_for(1ms);
      return runtime::Loaded{std::make_unique<Doubling>(), "FakeExecutionProvider", 1, {}};
    }
    if (spec.file == "fake:cuda") return load_cuda();
    if (spec.file.string().starts_with("fake:if/") &&
        std::filesystem::exists(spec.file.string().substr(7))) {
      return runtime::Loaded{std::make_unique<Doubling>(), "FakeExecutionProvider", 1, {}};
    }
    if (const std::string name = spec.file.string(); name.starts_with("fake:lib/")) {
      const std::string file = name.substr(9);
      std::ofstream(file + ".tries", std::ios::app).put('x');
      if (std::filesystem::exists(file)) {
        return runtime::Loaded{std::make_unique<Doubling>(), "FakeExecutionProvider", 1, {}};
      }
      std::ifstream why(file + ".why");
      return fail(Code::kUnavailable,
                  "FakeExecutionProvider: " + std::string(std::istreambuf_iterator(why), {}));
    }
    if (spec.file.string().starts_with("fake:")) {
      return fail(Code::kUnavailable, "FakeExecutionProvider: no device");
    }
    if (!*real) *real = ort_load(greeting);
    return *real ? (**real)(spec) : tl::unexpected(real->error());
  });
}

void tell(Socket& socket, Kind kind, std::uint64_t request, const Writer& writer, int fd = -1) {
  if (!socket.send(kind, request, writer.body(), fd)) std::_Exit(1);
}

void tell_raw(Socket& socket, std::size_t bytes) {
  const std::vector<char> text(bytes, 'x');
  if (write(socket.fd(), text.data(), text.size()) < 0) std::_Exit(1);
}

// Greets as it should, then answers the first turn on its first channel in the way `mode` says.
[[noreturn]] void misbehave(const std::string& mode) {
  Socket control{Fd(3)};
  while (mode == "silent") pause();
  auto hello = control.receive();
  Writer greeting;
  greeting.text(mode == "version" ? "another" : kTestVersion).put(true);
  tell(control, Kind::kHelloReply, (*hello)->request, greeting);
  if (mode == "pong") {
    auto ping = control.receive();
    tell(control, Kind::kPong, (*ping)->request + 1, {});
  }
  auto open = control.receive();
  Socket channel{std::move((*open)->fd)};
  auto turn = channel.receive();
  const std::uint64_t request = (*turn)->request;
  Writer good;  // an answer to a run of one output of 4 bytes, as far as it goes
  const auto answer = [&](std::uint64_t offset, std::uint64_t bytes, int fd, Shape shape = {1}) {
    put_run_reply(good, std::vector<Placed>{{DType::kFp32, std::move(shape), offset, bytes}});
    tell(channel, Kind::kRunReply, request, good, fd);
  };
  const auto segment = Segment::make(64).value();
  const std::size_t size = segment->size();
  if (mode == "garbage") {
    tell_raw(channel, 200);
  } else if (mode == "truncated") {
    tell_raw(channel, 5);
  } else if (mode == "oversized") {
    tell_raw(channel, sizeof(Header) + kMaxBody + 1);
  } else if (mode == "id") {
    tell(channel, Kind::kRunReply, request + 1, good);
  } else if (mode == "kind") {
    tell(channel, Kind::kLoadReply, request, good);
  } else if (mode == "body") {
    tell(channel, Kind::kRunReply, request, {});
  } else if (mode == "offset") {
    answer(size, 4, segment->fd());
  } else if (mode == "overflow") {
    answer(~std::uint64_t{63}, 128, segment->fd(), {32});
  } else if (mode == "shape") {
    answer(0, 4, segment->fd(), {2});
  } else if (mode == "rank") {
    answer(0, 4, segment->fd(), Shape(100, 1));
  } else if (mode == "nosegment") {
    answer(0, 4, -1);
  } else if (mode == "unsealed") {
    const Fd plain(memfd_create("plain", MFD_CLOEXEC));
    if (ftruncate(plain.get(), 4096) == 0) answer(0, 4, plain.get());
  } else if (mode == "nomemory") {
    answer(0, 4, channel.fd());  // a socket is no memory
  } else if (mode == "huge") {
    answer(0, 4, Segment::make(1 << 20).value()->fd());
  } else if (mode == "sparse") {
    const Fd sparse(memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (ftruncate(sparse.get(), 4096) != 0 || !seal_for_readers(sparse)) std::_Exit(1);
    answer(0, 4, sparse.get());
  } else if (mode == "spare") {
    put_run_reply(good, fail(Code::kInternal, "fails, with memory"));
    tell(channel, Kind::kRunReply, request, good, segment->fd());
  } else if (mode.starts_with("code")) {
    put_run_reply(good, fail(static_cast<Code>(std::atoi(mode.c_str() + 4)), "says so"));
    tell(channel, Kind::kRunReply, request, good);
  } else if (mode == "few") {
    put_run_reply(good, std::vector<Placed>{});
    tell(channel, Kind::kRunReply, request, good);
  } else if (mode == "close") {
    channel = Socket();
  }
  for (;;) pause();
}

// Its first thread ends, another lives on.
[[noreturn]] void end_by_half() {
  std::thread([] {
    for (;;) pause();
  }).detach();
  pthread_exit(nullptr);
}

[[noreturn]] void start_and_wait() {
  const auto worker = Worker::start(child());
  Socket up{Fd(3)};
  tell(up, Kind::kPong, static_cast<std::uint64_t>((*worker)->pid()), {});
  for (;;) pause();
}

}  // namespace
}  // namespace gradus::worker

int main(int argc, char** argv) {
  using namespace gradus::worker;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "worker") host(std::atoi(argv[2]), kTestVersion, make_loads);
  if (mode == "otherworker") host(std::atoi(argv[2]), "other", make_loads);
  if (mode.starts_with("rogue-")) misbehave(mode.substr(6));
  if (mode == "parent") start_and_wait();
  while (mode == "wait") pause();
  if (mode == "half") end_by_half();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
