#include "api/codec/control_json.h"

#include <limits>
#include <optional>
#include <string_view>
#include <variant>

#include "api/codec/json_body.h"
#include "base/json_text.h"

namespace gradus::api {
namespace {

using ondemand::value;

constexpr std::uint64_t kMostInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostBytes = 64 << 10;

Result<void> each_member(std::span<const std::byte> body, std::string_view what,
                         std::size_t max_depth, auto take) {
  if (body.size() > kMostBytes) {
    return refuse(std::string(what) + " has " + std::to_string(body.size()) +
                  " bytes; expected at most " + std::to_string(kMostBytes));
  }
  return read_object(body, 0, what, max_depth, [&](JsonWalk& walk, ondemand::object root) {
    return walk.each_member(
        root, [&](std::string_view key, value member) { return take(walk, key, member); });
  });
}

bool is_number(value member) {
  const std::string_view token = member.raw_json_token();
  return !token.empty() && (token.front() == '-' || (token.front() >= '0' && token.front() <= '9'));
}

bool is_text(value member) { return member.raw_json_token().starts_with('"'); }

// A text, or a number as its text.
Result<std::string> text_of(JsonWalk& walk, value member, const std::string& what) {
  std::int64_t number = 0;
  if (is_number(member) && !member.get_int64().get(number)) return std::to_string(number);
  auto text = walk.string(member, what);
  if (!text) return tl::unexpected(std::move(text.error()));
  return std::string(*text);
}

std::string list_json(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ',';
    out += json_string(text);
  }
  return out + ']';
}

}  // namespace

Result<SharedMemory::Asked> decode_region(std::string name, std::span<const std::byte> body) {
  SharedMemory::Asked asked;
  asked.name = std::move(name);
  bool has_key = false, has_offset = false, has_size = false;
  auto read =
      each_member(body, "the region", 2, [&](JsonWalk& walk, std::string_view key, value member) {
        if (key == "key") {
          if (auto first = once(has_key, key); !first) return first;
          return assign(walk.string(member, "'key'"), asked.key);
        }
        if (key == "offset") {
          if (auto first = once(has_offset, key); !first) return first;
          return assign(walk.integer(member, "'offset'", 0, kMostInteger), asked.offset);
        }
        if (key == "byte_size") {
          if (auto first = once(has_size, key); !first) return first;
          return assign(walk.integer(member, "'byte_size'", 0, kMostInteger), asked.byte_size);
        }
        return walk.skip(member, 1);
      });
  if (!read) return tl::unexpected(std::move(read.error()));
  if (!has_key) return refuse("'key' is missing");
  if (!has_size) return refuse("'byte_size' is missing");
  return asked;
}

std::string regions_json(const std::vector<std::shared_ptr<const Region>>& regions) {
  std::string out = "[";
  for (const auto& region : regions) {
    if (out.size() > 1) out += ',';
    out += "{\"name\":" + json_string(region->name) + ",\"key\":" + json_string(region->key) +
           ",\"offset\":" + std::to_string(region->offset) +
           ",\"byte_size\":" + std::to_string(region->byte_size) + '}';
  }
  return out + ']';
}

Result<LogSettings::Values> decode_log_settings(std::span<const std::byte> body) {
  LogSettings::Values values;
  auto read = each_member(body, "the log settings", 1,
                          [&](JsonWalk& walk, std::string_view key, value member) {
                            const std::string what = quote_name(key);
                            LogSettings::Value& to = values[std::string(key)];
                            if (is_number(member))
                              return assign(walk.integer(member, what, 0, kMostInteger), to);
                            if (is_text(member)) return assign(text_of(walk, member, what), to);
                            return assign(walk.boolean(member, what), to);
                          });
  if (!read) return tl::unexpected(std::move(read.error()));
  return values;
}

std::string log_settings_json(const LogSettings::Values& values) {
  std::string out = "{";
  for (const auto& [name, value] : values) {
    if (out.size() > 1) out += ',';
    out += json_string(name) + ':';
    if (const auto* flag = std::get_if<bool>(&value)) {
      out += *flag ? "true" : "false";
    } else if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      out += std::to_string(*number);
    } else {
      out += json_string(std::get<std::string>(value));
    }
  }
  return out + '}';
}

Result<TraceValues> decode_trace_settings(std::span<const std::byte> body) {
  TraceValues values;
  auto read = each_member(
      body, "the trace settings", 2, [&](JsonWalk& walk, std::string_view key, value member) {
        const std::string what = quote_name(key);
        auto& to = values[std::string(key)];
        to.reset();
        if (walk.null(member)) return Result<void>();
        auto& texts = to.emplace();
        if (member.raw_json_token().starts_with('[')) {
          return walk.each_element(member, 2, what, [&](value element, std::size_t) {
            return assign(text_of(walk, element, what), texts.emplace_back());
          });
        }
        return assign(text_of(walk, member, what), texts.emplace_back());
      });
  if (!read) return tl::unexpected(std::move(read.error()));
  return values;
}

std::string trace_settings_json(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& settings) {
  std::string out = "{";
  for (const auto& [name, texts] : settings) {
    if (out.size() > 1) out += ',';
    out += json_string(name) + ':';
    out += name == "trace_level" ? list_json(texts) : json_string(texts.front());
  }
  return out + '}';
}

}  // namespace gradus::api
