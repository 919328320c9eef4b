#include "api/codec/json_walk.h"

#include <algorithm>
#include <utility>

namespace gradus::api {
namespace {

constexpr std::size_t kShownBytes = 80;

std::string cut(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  if (shown.size() < text.size()) shown += "...";
  return shown;
}

/// Where that begins which follows the object that the text begins with; the text's size: nothing
/// does, or the object has no end.
std::size_t end_of_object(std::string_view text) {
  bool in_string = false;
  std::size_t open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++open;
    } else if ((c == '}' || c == ']') && open-- <= 1) {
      return c == '}' ? std::min(text.find_first_not_of(" \t\r\n", i + 1), text.size())
                      : text.size();
    }
  }
  return text.size();
}

}  // namespace

std::string quote_name(std::string_view name) {
  std::string text = "'";
  text += cut(name);
  return text += '\'';
}

Result<void> once(bool& seen, std::string_view key) {
  if (std::exchange(seen, true)) return refuse(quote_name(key) + " comes twice");
  return {};
}

Result<void> JsonWalk::check_depth(std::size_t depth) const {
  if (depth <= max_depth_) return {};
  return fail(Code::kInvalid,
              "JSON is nested deeper than " + std::to_string(max_depth_) + " levels");
}

tl::unexpected<Error> JsonWalk::malformed(simdjson::error_code code) const {
  std::string text = "malformed JSON";
  const char* at = nullptr;
  if (!document_.current_location().get(at) && at >= text_.data() &&
      at <= text_.data() + text_.size()) {
    text += " at byte " + std::to_string(at - text_.data());
  }
  return fail(Code::kInvalid, text + ": " + simdjson::error_message(code));
}

tl::unexpected<Error> JsonWalk::no_object(simdjson::error_code error, std::string_view what) const {
  if (error == simdjson::INCORRECT_TYPE) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    return refuse(
        std::string(what) + " must be a JSON object" +
        (text_.starts_with(kByteOrderMark) ? ", without a byte order mark before it" : ""));
  }
  const std::size_t end = end_of_object(text_);
  return end < text_.size() ? followed(what, end) : malformed(error);
}

tl::unexpected<Error> JsonWalk::followed(std::string_view what, std::size_t at) const {
  return refuse("malformed JSON: " + quote_name(text_.substr(at)) + " follows " +
                std::string(what) + " at byte " + std::to_string(at));
}

tl::unexpected<Error> JsonWalk::unexpected_value(ondemand::value value, std::string_view what,
                                                 std::string_view wanted) const {
  const std::string_view token = value.raw_json_token();
  if (token.empty() || std::string_view(",:]}").find(token.front()) != std::string_view::npos) {
    return malformed(simdjson::TAPE_ERROR);
  }
  std::string text(what);
  text += " is ";
  if (token.front() == '[') {
    text += "an array";
  } else if (token.front() == '{') {
    text += "an object";
  } else {
    text += cut(token.substr(0, token.find_last_not_of(" \t\r\n") + 1));
  }
  text += "; expected ";
  return fail(Code::kInvalid, text += wanted);
}

bool JsonWalk::null(ondemand::value& value) const {
  bool null = false;
  return !value.is_null().get(null) && null;
}

Result<std::string_view> JsonWalk::string(ondemand::value value, std::string_view what) {
  std::string_view text;
  if (value.raw_json_token().starts_with('"')) {
    if (const auto error = value.get_string().get(text)) return malformed(error);
  } else {
    return unexpected_value(value, what, "a string");
  }
  return text;
}

Result<bool> JsonWalk::boolean(ondemand::value value, std::string_view what) {
  bool flag = false;
  if (value.get_bool().get(flag)) return unexpected_value(value, what, "true or false");
  return flag;
}

Result<std::uint64_t> JsonWalk::integer(ondemand::value value, std::string_view what,
                                        std::uint64_t least, std::uint64_t most) {
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) || number < least || number > most) {
    return unexpected_value(
        value, what, "an integer in [" + std::to_string(least) + ", " + std::to_string(most) + "]");
  }
  return number;
}

Result<void> JsonWalk::skip(ondemand::value value, std::size_t depth) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return malformed(error);
  switch (type) {
    case ondemand::json_type::array:
      return each_element(value, depth + 1, "value", [&](ondemand::value element, std::size_t) {
        return skip(element, depth + 1);
      });
    case ondemand::json_type::object:
      return each_member(value, depth + 1, "value", [&](std::string_view, ondemand::value member) {
        return skip(member, depth + 1);
      });
    case ondemand::json_type::string: {
      const auto text = string(value, "a string");
      if (!text) return tl::unexpected(text.error());
      return {};
    }
    case ondemand::json_type::number: {
      double number = 0;
      if (const auto error = value.get_double().get(number)) return malformed(error);
      return {};
    }
    case ondemand::json_type::boolean: {
      bool flag = false;
      if (const auto error = value.get_bool().get(flag)) return malformed(error);
      return {};
    }
    case ondemand::json_type::null: {
      bool null = false;
      const auto error = value.is_null().get(null);
      if (error || !null) return malformed(error ? error : simdjson::N_ATOM_ERROR);
      return {};
    }
  }
  return malformed(simdjson::TAPE_ERROR);
}

Result<void> JsonWalk::skip_parameter(ondemand::value value, std::size_t depth,
                                      std::string_view name) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return malformed(error);
  if (type != ondemand::json_type::string && type != ondemand::json_type::number &&
      type != ondemand::json_type::boolean) {
    return unexpected_value(value, "parameter " + quote_name(name), "a string, number or boolean");
  }
  return skip(value, depth);
}

}  // namespace gradus::api
