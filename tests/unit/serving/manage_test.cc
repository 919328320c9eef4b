#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine_fixture.h"

namespace gradus::serving {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Model files hold the factor that their level multiplies by, or what is wrong with them.
class ManageTest : public EngineTest {
 protected:
  ManageTest() {
    std::string pattern = (fs::temp_directory_path() / "gradus-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    server_.model_repositories = {root_.string()};
    server_.model_control_mode = config::ModelControl::kExplicit;
    server_.providers = {"CPUExecutionProvider"};
  }
  ~ManageTest() override {
    engine_.reset();
    fs::remove_all(root_);
  }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  void start() {
    const Repository repository(server_, [this](const ConfigSource& source, const auto& server) {
      last_config_ = source.config;
      return read_own_config(source, server);
    });
    auto folders = repository.scan();
    ASSERT_TRUE(folders) << folders.error().message;
    engine_ = std::make_unique<LadderEngine>(
        std::move(*folders), repository, server_,
        [this](const runtime::LoadSpec& spec) { return load(spec); },
        LadderEngine::Options{.cpus = 2}, steady_clock(), pool_);
    wait_for([this] { return !engine_->loading(); });
  }

  Result<runtime::Loaded> load(const runtime::LoadSpec& spec) {
    std::stringstream text;
    text << std::ifstream(spec.file).rdbuf();
    if (const auto held = held_.find(text.str()); held != held_.end()) {
      ++waiting_;
      (void)held->second();
    }
    auto level = std::make_shared<support::FakeLevel>();
    if (!(text >> level->factor)) return fail(Code::kUnavailable, "no model: " + text.str());
    {
      const std::lock_guard lock(mutex_);
      loaded_.push_back(level);
    }
    runtime::Loaded loaded;
    loaded.backend = std::make_unique<support::FakeBackend>(level);
    loaded.provider_used = "CPUExecutionProvider";
    loaded.node_share = 1;
    return loaded;
  }

  std::future<Result<void>> ask_load(LoadModel what = {"m", {}, {}}) {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    engine_->load(std::move(what), [promise](Result<void> done) { promise->set_value(done); });
    return promise->get_future();
  }
  std::string load_and_wait(LoadModel what = {"m", {}, {}}) {
    const auto done = ask_load(std::move(what)).get();
    return done ? "loaded" : done.error().message;
  }
  std::string unload_and_wait(const std::string& model = "m") {
    std::promise<Result<void>> promise;
    engine_->unload(model, [&](Result<void> done) { promise.set_value(std::move(done)); });
    const auto done = promise.get_future().get();
    return done ? "unloaded" : done.error().message;
  }

  // What three becomes, or why nothing comes of it.
  std::string answer(const std::string& version = "") {
    Request asked = request();
    asked.version = version;
    const auto response = infer(std::move(asked));
    if (!response) return response.error().message;
    std::ostringstream text;
    text << value(*response) << " by version " << response->version;
    return text.str();
  }
  std::vector<std::string> index() const {
    std::vector<std::string> lines;
    for (const IndexEntry& entry : engine_->index()) {
      lines.push_back(entry.name + (entry.version.empty() ? "" : " " + entry.version) + " " +
                      std::string(to_string(entry.state)) +
                      (entry.reason.empty() ? "" : ": " + entry.reason));
    }
    return lines;
  }

  fs::path root_;
  config::ServerConfig server_;
  std::map<std::string, std::function<Result<void>()>> held_;  // loads, by the file's text
  std::atomic<int> waiting_{0};
  std::mutex mutex_;
  std::vector<std::weak_ptr<support::FakeLevel>> loaded_;
  std::optional<std::string> last_config_;
};

TEST_F(ManageTest, LoadsAndUnloadsWhatClientsAskFor) {
  write("m/1/model.onnx", "5");
  start();
  EXPECT_TRUE(engine_->ready()) << "nothing was asked for";
  EXPECT_THAT(index(), ElementsAre("m UNAVAILABLE: not loaded"));
  EXPECT_EQ(answer(), "unknown model 'm': it is not loaded");
  EXPECT_EQ(load_and_wait(), "loaded");
  EXPECT_THAT(index(), ElementsAre("m 1 READY"));
  EXPECT_EQ(answer(), "15 by version 1");
  EXPECT_EQ(load_and_wait(), "loaded") << "again, and nothing changes";
  EXPECT_EQ(loaded_.size(), 1U);
  EXPECT_EQ(unload_and_wait(), "unloaded");
  EXPECT_EQ(answer(), "unknown model 'm': it is not loaded");
  wait_for([&] { return loaded_[0].expired(); });
  EXPECT_THAT(index(), ElementsAre("m UNAVAILABLE: unloaded"));
  EXPECT_EQ(unload_and_wait(), "unloaded") << "again, and nothing changes";
  EXPECT_EQ(unload_and_wait("other"), "unloaded");
  EXPECT_THAT(index(), ElementsAre("m UNAVAILABLE: unloaded"));
  EXPECT_EQ(load_and_wait({"other", {}, {}}),
            "unknown model 'other': no repository has its folder");
}

TEST_F(ManageTest, RefusesOutsideExplicitMode) {
  write("m/1/model.onnx", "5");
  server_.model_control_mode = config::ModelControl::kNone;
  start();
  EXPECT_EQ(answer(), "15 by version 1");
  const auto refused = ask_load().get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message,
              HasSubstr("start the server with --model-control-mode=explicit"));
  EXPECT_THAT(unload_and_wait(), HasSubstr("it runs with 'none'"));
  EXPECT_EQ(answer(), "15 by version 1");
}

TEST_F(ManageTest, ANewVersionTakesTheRequestsWhenItIsReady) {
  write("m/1/model.onnx", "5");
  server_.load_models = {"m"};
  Gate gate;
  held_["7"] = gate.wait();
  start();
  write("m/2/model.onnx", "7");
  auto done = ask_load();
  wait_for([&] { return waiting_ == 1; });
  EXPECT_EQ(answer(), "15 by version 1");
  EXPECT_EQ(answer("2"), "model 'm' is still loading: level 1 'cpu' loading")
      << "asked for by name";
  EXPECT_THAT(index(), ElementsAre("m 1 READY", HasSubstr("m 2 LOADING")));
  EXPECT_TRUE(engine_->ready());
  gate.open();
  ASSERT_TRUE(done.get());
  EXPECT_EQ(answer(), "21 by version 2");
  EXPECT_EQ(answer("1"), "model 'm' has no version 1, it has 2");
  wait_for([&] { return loaded_[0].expired(); });
}

TEST_F(ManageTest, AVersionThatCannotBeLoadedChangesNothing) {
  write("m/1/model.onnx", "5");
  server_.load_models = {"*"};
  start();
  write("m/2/model.onnx", "half a mod");
  const auto failed = ask_load().get();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInvalid) << "to try again changes nothing";
  EXPECT_THAT(failed.error().message, HasSubstr("model 'm' version 2: "));
  EXPECT_EQ(answer(), "15 by version 1");
  EXPECT_THAT(index(), ElementsAre("m 1 READY", HasSubstr("m 2 UNAVAILABLE: ")));
  write("m/2/model.onnx", "7");
  EXPECT_EQ(load_and_wait(), "loaded");
  EXPECT_EQ(answer(), "21 by version 2");
  write("m/gradus.yaml", "levels: 7\n");
  EXPECT_THAT(load_and_wait(), HasSubstr("levels = 7"));
  EXPECT_EQ(answer(), "21 by version 2");
  EXPECT_THAT(index(), ElementsAre(HasSubstr("m 2 READY: as before: the last load failed: ")));
  write("m/gradus.yaml", "");
  EXPECT_EQ(load_and_wait(), "loaded");
  EXPECT_THAT(index(), ElementsAre("m 2 READY"));
}

TEST_F(ManageTest, WhatWouldBeAStepDownIsNotTaken) {
  write("m/1/model.onnx", "5");
  write("m/1/model.int8.onnx", "50");
  write("m/gradus.yaml", "default_levels: {cpu-int8: {keep: always}}\n");
  server_.load_models = {"m"};
  start();
  EXPECT_EQ(answer(), "15 by version 1");
  write("m/1/model.onnx", "nothing");
  EXPECT_THAT(load_and_wait(), HasSubstr("it answers from level 2, what is served from level 1"));
  EXPECT_EQ(answer(), "15 by version 1");
  write("m/gradus.yaml",
        "levels:\n  - {level: 2, name: only, file: model.int8.onnx, providers: cpu}\n");
  EXPECT_EQ(load_and_wait(), "loaded") << "its own ladder wants no more";
  EXPECT_EQ(answer(), "150 by version 1");
}

TEST_F(ManageTest, FaultsOfWhatAClientSentNameTheModelAndNoFolder) {
  start();
  EXPECT_THAT(load_and_wait({"m", "{}", {{"1/other.onnx", "5"}}}),
              StartsWith("model 'm' cannot be loaded: model 'm': 1: no level: "));
  EXPECT_THAT(load_and_wait({"m", "{}", {{"1/model.onnx", "5"}, {"gradus.yaml", "levels: 7"}}}),
              StartsWith("model 'm' cannot be loaded: model 'm': gradus.yaml: levels = 7"));
}

TEST_F(ManageTest, LoadsWaitForEachOther) {
  write("m/1/model.onnx", "5");
  Gate gate;
  held_["5"] = gate.wait();
  start();
  auto first = ask_load();
  wait_for([&] { return waiting_ == 1; });
  write("m/gradus.yaml", "levels: 7\n");
  auto faulty = ask_load();
  gate.open();
  EXPECT_TRUE(first.get());
  EXPECT_THAT(faulty.get().error().message, HasSubstr("levels = 7"));
  write("m/gradus.yaml", "");
  EXPECT_EQ(load_and_wait(), "loaded") << "nothing is in its way";
}

TEST_F(ManageTest, OfLoadsThatWaitTheLatestAnswersForAll) {
  write("m/1/model.onnx", "5");
  Gate gate;
  held_["5"] = gate.wait();
  start();
  auto first = ask_load();
  wait_for([&] { return waiting_ == 1; });
  write("m/1/model.onnx", "6");
  auto second = ask_load({"m", "{}", {{"1/model.onnx", "nothing"}}});
  auto third = ask_load();
  gate.open();
  EXPECT_TRUE(first.get());
  (void)second.get();
  EXPECT_TRUE(third.get());
  EXPECT_EQ(answer(), "18 by version 1");
}

TEST_F(ManageTest, ADrainAnswersLoads) {
  write("m/1/model.onnx", "5");
  write("m/2/model.onnx", "7");
  server_.load_models = {"m"};
  start();
  Gate gate;
  held_["9"] = gate.wait();
  write("m/3/model.onnx", "9");
  auto under_way = ask_load();
  wait_for([&] { return waiting_ == 1; });
  engine_->begin_drain();
  EXPECT_EQ(under_way.get().error().message, "the server is stopping");
  EXPECT_EQ(load_and_wait(), "the server is stopping");
  EXPECT_EQ(answer(), "21 by version 2");
  gate.open();
}

TEST_F(ManageTest, ALoadAnewKeepsWhatAnOperatorSaid) {
  write("m/1/model.onnx", "5");
  write("m/1/model.int8.onnx", "50");
  write("m/gradus.yaml", "default_levels: {cpu-int8: {keep: always}}\n");
  server_.load_models = {"m"};
  start();
  ASSERT_TRUE(engine_->command("m", "",
                               {.verb = LadderCommand::Verb::kPin,
                                .level = 2,
                                .how_long = {},
                                .reason = "a drill",
                                .who = ""}));
  EXPECT_EQ(answer(), "150 by version 1");
  write("m/1/model.int8.onnx", "60");
  EXPECT_EQ(load_and_wait(), "loaded");
  EXPECT_EQ(answer(), "180 by version 1") << "another file, the same pin";
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("a drill"));
  write("m/1/model.int8.onnx", "nothing");
  EXPECT_EQ(load_and_wait(), "loaded") << "by its better level";
  EXPECT_EQ(answer(), "15 by version 1");
}

TEST_F(ManageTest, ServesTheVersionsThatThePolicyNames) {
  write("m/1/model.onnx", "5");
  write("m/3/model.onnx", "7");
  write("m/10/model.onnx", "9");
  write("m/gradus.yaml", "version_policy: {specific: [3, 1, 3, 1]}\n");
  write("n/1/model.onnx", "2");
  write("n/2/model.onnx", "3");
  write("n/gradus.yaml", "version_policy: {specific: [1, 4]}\n");
  server_.load_models = {"*"};
  start();
  EXPECT_EQ(answer("1"), "15 by version 1");
  wait_for([&] { return answer() == "21 by version 3"; });
  EXPECT_EQ(answer("10"), "model 'm' has no version 10, it has 1, 3");
  EXPECT_THAT(engine_->model_info("m", "1")->versions, ElementsAre("1", "3"));
  EXPECT_THAT(index(), ElementsAre("m 1 READY", "m 3 READY", "n 1 READY",
                                   HasSubstr("n 4 UNAVAILABLE: " + root_.string() +
                                             "/n: version_policy wants version 4")));
}

TEST_F(ManageTest, LoadsFilesThatAClientSends) {
  write("m/1/model.onnx", "5");
  server_.load_models = {"m"};
  start();
  EXPECT_THAT(load_and_wait({"m", {}, {{"1/model.onnx", "8"}}}), HasSubstr("need a config"));
  EXPECT_THAT(load_and_wait({"m", "{}", {{"../1/model.onnx", "8"}}}), HasSubstr("a path below"));
  EXPECT_EQ(load_and_wait({"m", "{\"name\":\"m\"}", {{"1/model.onnx", "8"}}}), "loaded");
  EXPECT_EQ(last_config_, "{\"name\":\"m\"}");
  EXPECT_EQ(answer(), "24 by version 1");
  EXPECT_EQ(load_and_wait(), "loaded") << "the folder's own again";
  EXPECT_EQ(answer(), "15 by version 1");
}

TEST_F(ManageTest, NoRequestFailsWhileVersionsComeAndGo) {
  write("m/1/model.onnx", "5");
  server_.load_models = {"m"};
  start();
  std::atomic<bool> over{false};
  std::atomic<int> answered{0};
  std::vector<std::jthread> clients;
  std::vector<std::string> wrong(3);
  for (std::string& first : wrong) {
    clients.emplace_back([&, this] {
      while (!over && first.empty()) {
        const auto response = infer();
        if (!response || (value(*response) != 15 && value(*response) != 21)) {
          first = response ? "a wrong answer" : response.error().message;
        }
        ++answered;
      }
    });
  }
  for (int version = 2; version < 12; ++version) {
    const int before = answered;
    write("m/" + std::to_string(version) + "/model.onnx", version % 2 == 0 ? "7" : "5");
    EXPECT_EQ(load_and_wait(), "loaded");
    wait_for([&] { return answered > before; });
  }
  over = true;
  clients.clear();
  EXPECT_THAT(wrong, ElementsAre("", "", ""));
  wait_for([this] {
    return std::ranges::count_if(loaded_, [](const auto& one) { return !one.expired(); }) == 1;
  });
}

TEST_F(ManageTest, NothingStallsWhileModelsComeAndGo) {
  write("m/1/model.onnx", "5");
  write("n/1/model.onnx", "7");
  server_.load_models = {"m"};
  start();
  EXPECT_TRUE(engine_->ready());
  const TimePoint end = steady_clock().now() + (std::getenv("GRADUS_LONG") != nullptr
                                                    ? Duration(std::chrono::minutes(1))
                                                    : Duration(std::chrono::milliseconds(300)));
  const std::function<void()> calls[] = {[&] {
                                           EXPECT_THAT(
                                               load_and_wait({"n", {}, {}}),
                                               testing::AnyOf("loaded", "model 'n' was unloaded"));
                                         },
                                         [&] { (void)unload_and_wait("n"); },
                                         [&] { EXPECT_TRUE(infer()); },
                                         [&] {
                                           Request asked = request();
                                           asked.model = "n";
                                           const auto response = infer(std::move(asked));
                                           if (response) {
                                             EXPECT_EQ(value(*response), 21);
                                           }
                                         },
                                         [&] {
                                           EXPECT_THAT(index(), testing::Contains("m 1 READY"));
                                           EXPECT_TRUE(engine_->ready());
                                         },
                                         [&] { EXPECT_TRUE(engine_->statistics("", "")); }};
  std::vector<Duration> longest(std::size(calls));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    threads.emplace_back([&, i] {
      for (TimePoint now = steady_clock().now(), begun = now; now < end; begun = now) {
        calls[i]();
        now = steady_clock().now();
        longest[i] = std::max(longest[i], now - begun);
      }
    });
  }
  threads.clear();
  for (const Duration one : longest) EXPECT_LT(one, std::chrono::seconds(2));
}

TEST_F(ManageTest, AFolderMayBeOneModelItself) {
  write("model.onnx", "5");
  server_.model_name = "m";
  server_.model_control_mode = config::ModelControl::kNone;
  start();
  EXPECT_EQ(answer(), "15 by version 1");
  engine_.reset();
  fs::remove(root_ / "model.onnx");
  write("4/model.onnx", "7");
  server_.model_name = "";
  start();
  EXPECT_THAT(index(), ElementsAre(root_.filename().string() + " 4 READY"));
}

TEST_F(ManageTest, AnUnloadEndsALoad) {
  write("m/1/model.onnx", "5");
  Gate gate;
  held_["5"] = gate.wait();
  start();
  auto done = ask_load();
  wait_for([&] { return waiting_ == 1; });
  EXPECT_EQ(unload_and_wait(), "unloaded");
  EXPECT_EQ(done.get().error().message, "model 'm' was unloaded");
  EXPECT_THAT(index(), ElementsAre("m 1 UNLOADING"));
  gate.open();
  wait_for([&] { return index() == std::vector<std::string>{"m UNAVAILABLE: unloaded"}; });
}

}  // namespace
}  // namespace gradus::serving
