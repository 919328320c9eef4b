// A process that uses the fault provider, for tests of what ends a process or stays with it:
//
//     fault_ep_child LIBRARY MODEL STEP...      STEP: load, run, register
//
// Each step prints one line, at once: `ok`, or why it failed. `register` begins with a new runtime,
// `run` runs the session loaded last.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/sample_inputs.h"
#include "unit/runtime/fixture.h"

// A crash shall look to the parent as it does without a sanitizer.
extern "C" const char* __asan_default_options() { return "handle_segv=0:handle_abort=0"; }
extern "C" const char* __tsan_default_options() { return "handle_segv=0:handle_abort=0"; }

namespace {

using namespace gradus;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const auto registered = [&] {
    return runtime::make_runtime({.provider_libraries = {{"FaultExecutionProvider", words.at(0)}}});
  };
  auto runtime = registered();
  std::unique_ptr<runtime::Backend> backend;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "load") {
      auto loaded = runtime->load(runtime::on({{"FaultExecutionProvider", {}}}, words.at(1)));
      say(loaded ? "ok" : loaded.error().message);
      if (loaded) backend = std::move(loaded->backend);
    } else if (words[i] == "run") {
      const auto inputs = runtime::sample_inputs(backend->signature(), 24);
      const auto answer = runtime::run_all(*backend, runtime::views_of(inputs));
      say(answer ? "ok" : answer.error().message);
    } else {
      backend.reset();
      runtime.reset();
      runtime = registered();
      say("ok");
    }
  }
  return 0;
}
