// Clients' shared memory, and what they may do to it while it is used.
#include "api/control/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>

#include "api/control/log_settings.h"
#include "base/log.h"
#include "unit/api/shared_object.h"

namespace gradus::api {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string fault_of(const Result<bool>& added) { return added ? "" : added.error().message; }

TEST(SharedMemory, ReadsAndWritesWhatTheClientSees) {
  const SharedObject object(64);
  object.write("0123456789", 8);
  SharedMemory memory(8);
  ASSERT_TRUE(memory.add({"in", object.key, 8, 32}).value_or(false));
  const auto region = memory.find("in");
  ASSERT_TRUE(region);
  EXPECT_EQ(region->key, object.key);
  std::vector<std::byte> read(4);
  ASSERT_TRUE(region->read(3, read));
  EXPECT_EQ(text_of(read), "3456");
  ASSERT_TRUE(region->write(5, bytes_of("xyz")));
  EXPECT_EQ(object.read(10, 8), "01234xyz89");
}

TEST(SharedMemory, RefusesWhatIsBeyondTheObjectWithoutOverflow) {
  const SharedObject object(64);
  SharedMemory memory(8);
  const struct {
    std::uint64_t offset, size;
  } table[] = {{0, 65}, {64, 1}, {60, 5}, {65, 1}, {kMost, 2}, {1, kMost}, {kMost, kMost}};
  for (const auto& [offset, size] : table) {
    EXPECT_THAT(fault_of(memory.add({"r", object.key, offset, size})),
                HasSubstr("has 64 bytes; " + std::to_string(size) + " at offset " +
                          std::to_string(offset) + " are beyond it"));
  }
  EXPECT_THAT(fault_of(memory.add({"r", object.key, 0, 0})), HasSubstr("byte_size is 0"));
  ASSERT_TRUE(memory.add({"r", object.key, 32, 32}).value_or(false));
  const auto region = memory.find("r");
  EXPECT_TRUE(region->check_range(0, 32));
  EXPECT_TRUE(region->check_range(32, 0));
  EXPECT_FALSE(region->check_range(1, 32));
  EXPECT_FALSE(region->check_range(kMost, 2));
  EXPECT_FALSE(region->check_range(2, kMost));
  std::vector<std::byte> bytes(33);
  EXPECT_FALSE(region->read(0, bytes));
  EXPECT_FALSE(region->write(31, std::span(bytes).first(2)));
}

TEST(SharedMemory, KeysAreOnePathComponentAndNoLink) {
  const SharedObject object(16);
  SharedMemory memory(8);
  const std::string bare = object.key.substr(1);
  EXPECT_TRUE(memory.add({"bare", bare, 0, 16}).value_or(false));
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("//") + bare, std::string("."),
        std::string(".."), std::string("/.."), std::string("../shm/") + bare,
        std::string("/dev/shm/") + bare, bare + "/", std::string("sem.x"), std::string(255, 'k'),
        bare + std::string(1, '\0'), std::string("a\nb")}) {
    EXPECT_THAT(fault_of(memory.add({"r", key, 0, 1})), HasSubstr("as shm_open takes it")) << key;
  }
  const std::string link = "/dev/shm" + object.key + "-link";
  ASSERT_EQ(::symlink(("/dev/shm" + object.key).c_str(), link.c_str()), 0);
  EXPECT_THAT(fault_of(memory.add({"r", object.key + "-link", 0, 1})),
              HasSubstr("cannot be opened"));
  ::unlink(link.c_str());
  const std::string pipe = "/dev/shm" + object.key + "-pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(fault_of(memory.add({"r", object.key + "-pipe", 0, 1})),
              HasSubstr("no shared memory"));
  ::unlink(pipe.c_str());
  EXPECT_THAT(fault_of(memory.add({"r", "/gradus-is-not-there", 0, 1})),
              HasSubstr("No such file or directory"));
}

TEST(SharedMemory, AnObjectThatShrinksIsAnErrorAndNoSignal) {
  const SharedObject object(1 << 16);
  SharedMemory memory(8);
  ASSERT_TRUE(memory.add({"r", object.key, 0, 1 << 16}).value_or(false));
  const auto region = memory.find("r");
  object.resize(4096);
  std::vector<std::byte> bytes(1 << 16);
  const auto read = region->read(0, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kInvalid);
  EXPECT_THAT(read.error().message, HasSubstr("shorter than when it was registered"));
  EXPECT_TRUE(region->read(0, std::span(bytes).first(4096))) << "what is left of it serves";
  EXPECT_FALSE(region->write(0, bytes));
  EXPECT_FALSE(region->write(4095, std::span(bytes).first(2)));
  EXPECT_EQ(object.read(8192).size(), 4096u) << "it is not made longer";
  object.resize(0);
  EXPECT_FALSE(region->read(0, std::span(bytes).first(1)));
}

TEST(SharedMemory, WhoHoldsARegionMayUseItAfterItWasUnregistered) {
  const SharedObject object(16);
  object.write("still here");
  SharedMemory memory(8);
  ASSERT_TRUE(memory.add({"a", object.key, 0, 16}).value_or(false));
  ASSERT_TRUE(memory.add({"b", object.key, 0, 16}).value_or(false));
  const auto held = memory.find("a");
  memory.remove("a");
  memory.remove("never there");
  EXPECT_FALSE(memory.find("a"));
  std::vector<std::byte> bytes(10);
  ASSERT_TRUE(held->read(0, bytes));
  EXPECT_EQ(text_of(bytes), "still here");
  EXPECT_EQ(memory.all().size(), 1u);
  memory.remove_all();
  EXPECT_TRUE(memory.all().empty());
}

TEST(SharedMemory, ANameIsTakenOnceAndRegionsAreBounded) {
  const SharedObject object(16);
  SharedMemory memory(8);
  EXPECT_TRUE(memory.add({"0", object.key, 0, 16}).value());
  EXPECT_FALSE(memory.add({"0", object.key, 8, 8}).value());
  EXPECT_EQ(memory.find("0")->byte_size, 16u) << "the first one stays";
  for (std::size_t i = 1; i < 8; ++i) {
    ASSERT_TRUE(memory.add({std::to_string(i), object.key, 0, 16}).value_or(false));
  }
  EXPECT_THAT(fault_of(memory.add({"more", object.key, 0, 16})), HasSubstr("8 regions already"));
  EXPECT_FALSE(memory.add({"", object.key, 0, 16}));
  EXPECT_FALSE(memory.add({"a\nb", object.key, 0, 16}));
}

class LogSettingsTest : public testing::Test {
 protected:
  ~LogSettingsTest() override { log::set_severities(before_); }
  const log::Severities before_ = log::severities();
  LogSettings settings_;
};

TEST_F(LogSettingsTest, SeveritiesAreSwitchedOneByOne) {
  log::set_severities({});
  ASSERT_TRUE(settings_.change({{"log_info", false}, {"log_verbose_level", std::uint64_t{2}}}));
  EXPECT_TRUE(log::enabled(log::Severity::kDebug));
  EXPECT_FALSE(log::enabled(log::Severity::kInfo));
  EXPECT_TRUE(log::enabled(log::Severity::kWarning));
  const LogSettings::Values all = {{"log_file", std::string()},
                                   {"log_info", false},
                                   {"log_warning", true},
                                   {"log_error", true},
                                   {"log_verbose_level", std::uint64_t{2}},
                                   {"log_format", std::string("default")}};
  EXPECT_EQ(settings_.all(), all);
  ASSERT_TRUE(settings_.change({{"log_info", true}, {"log_verbose_level", std::uint64_t{0}}}));
  EXPECT_EQ(log::severities(), log::Severities{});
}

TEST_F(LogSettingsTest, WhatCannotBeSetChangesNothing) {
  log::set_severities({});
  const std::pair<LogSettings::Values, const char*> table[] = {
      {{{"log_error", false}, {"log_file", std::string("/tmp/x")}}, "redirected"},
      {{{"log_error", false}, {"log_info", std::string("false")}}, "expected true or false"},
      {{{"log_error", false}, {"log_verbose_level", true}}, "expected an integer"},
      {{{"log_error", false}, {"log_format", std::string("xml")}}, "'default' or 'ISO8601'"},
      {{{"log_error", false}, {"log_level", true}}, "there is no log setting 'log_level'"},
  };
  for (const auto& [wanted, text] : table) {
    const auto changed = settings_.change(wanted);
    ASSERT_FALSE(changed);
    EXPECT_THAT(changed.error().message, HasSubstr(text));
    EXPECT_TRUE(log::enabled(log::Severity::kError));
  }
}

}  // namespace
}  // namespace gradus::api
