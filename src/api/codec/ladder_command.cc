#include "api/codec/ladder_command.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "api/codec/json_body.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using ondemand::value;
using serving::LadderCommand;
using Verb = LadderCommand::Verb;

constexpr std::size_t kMostCommand = 4096;
constexpr std::size_t kMostReason = 500;
constexpr std::uint64_t kMostLevel = std::numeric_limits<int>::max();
constexpr Duration kLongest = 24h * 30;

constexpr std::string_view kForms =
    R"(. Good are {"pin": LEVEL, "for": "15m"}, without "for" until it is unpinned; {"unpin": true}; )"
    R"({"disable": LEVEL}; {"enable": LEVEL}; each may have a "reason")";

Duration unit_of(char letter) {
  switch (letter) {
    case 's':
      return 1s;
    case 'm':
      return 1min;
    case 'h':
      return 1h;
    case 'd':
      return 24h;
    default:
      return {};
  }
}

class Reader {
 public:
  explicit Reader(JsonWalk& walk) : walk_(walk) {}

  Result<LadderCommand> read(ondemand::object root) {
    auto read = walk_.each_member(
        root, [&](std::string_view key, value member) { return take(key, member); });
    if (!read) return tl::unexpected(std::move(read.error()));
    if (verb_.empty()) return refuse("none of 'pin', 'unpin', 'disable' and 'enable' is there");
    if (command_.how_long && command_.verb != Verb::kPin) {
      return refuse("'for' goes with 'pin' only");
    }
    return std::move(command_);
  }

 private:
  Result<void> take(std::string_view key, value member) {
    if (key == "pin") return level(key, member, Verb::kPin);
    if (key == "disable") return level(key, member, Verb::kDisable);
    if (key == "enable") return level(key, member, Verb::kEnable);
    if (key == "unpin") {
      if (auto first = verb(key, Verb::kUnpin); !first) return first;
      const auto said = walk_.boolean(member, "'unpin'");
      if (!said) return tl::unexpected(said.error());
      return *said ? Result<void>() : refuse("'unpin' is false; expected true");
    }
    if (key == "for") {
      if (auto first = once(has_for_, key); !first) return first;
      const auto text = walk_.string(member, "'for'");
      if (!text) return tl::unexpected(text.error());
      return assign(parse_how_long(*text), command_.how_long);
    }
    if (key == "reason") {
      if (auto first = once(has_reason_, key); !first) return first;
      return reason(member);
    }
    return refuse("unknown key " + quote_name(key));
  }

  Result<void> verb(std::string_view key, Verb verb) {
    if (!verb_.empty()) {
      return refuse(verb_ == key ? "'" + verb_ + "' comes twice"
                                 : "'" + verb_ + "' and '" + std::string(key) + "' at once");
    }
    verb_ = key;
    command_.verb = verb;
    return {};
  }

  Result<void> level(std::string_view key, value member, Verb said) {
    if (auto first = verb(key, said); !first) return first;
    const auto number = walk_.integer(member, "'" + verb_ + "'", 0, kMostLevel);
    if (!number) return tl::unexpected(number.error());
    command_.level = static_cast<int>(*number);
    return {};
  }

  // It is shown in logs and on terminals.
  Result<void> reason(value member) {
    const auto text = walk_.string(member, "'reason'");
    if (!text) return tl::unexpected(text.error());
    if (text->size() > kMostReason) {
      return refuse("'reason' has " + std::to_string(text->size()) + " bytes; expected at most " +
                    std::to_string(kMostReason));
    }
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::ranges::any_of(*text, control)) return refuse("'reason' is not one line of text");
    command_.reason = *text;
    return {};
  }

  JsonWalk& walk_;
  LadderCommand command_;
  std::string verb_;  // the key that said it
  bool has_for_ = false;
  bool has_reason_ = false;
};

Result<LadderCommand> decode(std::span<const std::byte> body) {
  if (body.size() > kMostCommand) {
    return refuse("the command has " + std::to_string(body.size()) + " bytes; expected at most " +
                  std::to_string(kMostCommand));
  }
  LadderCommand command;
  auto read = read_object(body, 0, "the command", 1,
                          [&](JsonWalk& walk, ondemand::object root) -> Result<void> {
                            return assign(Reader(walk).read(root), command);
                          });
  if (!read) return tl::unexpected(std::move(read.error()));
  return command;
}

}  // namespace

Result<Duration> parse_how_long(std::string_view text) {
  const auto refused = [&] {
    return refuse("'for' is " + quote_name(text) +
                  "; expected 1s to 30d: a number and s, m, h or d, like 90s, 15m, 2h or 1d");
  };
  if (text.size() < 2) return refused();
  const Duration unit = unit_of(text.back());
  std::uint32_t count = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto read = std::from_chars(text.data(), end, count);
  if (unit == Duration::zero() || read.ec != std::errc() || read.ptr != end || count < 1 ||
      count > kLongest / unit) {
    return refused();
  }
  return count * unit;
}

Result<LadderCommand> decode_ladder_command(std::span<const std::byte> body) {
  auto command = decode(body);
  if (!command) {
    std::string& why = command.error().message;
    if (why.ends_with('.')) why.pop_back();  // as simdjson's do
    why += kForms;
  }
  return command;
}

}  // namespace gradus::api
