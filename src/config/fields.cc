#include "config/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/json_text.h"

namespace gradus::config {
namespace {

std::string shown(const Value& value) {
  if (value.kind == Value::Kind::kScalar) {
    if (!value.quoted) return printable(value.text);
    const std::string text = printable(value.text);
    return text.starts_with('"') ? text : json_string(text);
  }
  const std::string text = inline_text(value);
  return text.size() <= 80 ? text : "[...]";
}

/// Levenshtein's, row by row.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

bool is_digits(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Reader::Step::Step(Reader& reader, std::string_view segment)
    : reader_(reader), length_(reader.path_.size()) {
  reader.path_ = segment.starts_with('[') ? reader.path_ + std::string(segment)
                                          : join_path(reader.path_, segment);
}

std::string Reader::where(std::string_view key) const {
  if (!flag_.empty()) return std::string(flag_);
  const std::string path = key.empty() ? path_ : join_path(path_, key);
  return std::string(file_) + (path.empty() ? "" : ": " + path);
}

void Reader::refuse_key(std::string_view key, const Value& value, std::string_view must) {
  faults_.push_back(where(key) + " = " + shown(value) + ": " + std::string(must));
}

void Reader::fault(std::string_view key, std::string_view text) {
  faults_.push_back(where(key) + ": " + std::string(text));
}

bool is_plain_word(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::string index_segment(std::size_t index) { return "[" + std::to_string(index) + "]"; }

bool read_integer(const Value& value, std::int64_t least, std::int64_t most, Reader& reader,
                  std::int64_t& out) {
  const std::string bounds = integer_bounds(least, most);
  if (value.kind != Value::Kind::kScalar || value.quoted || !is_digits(value.text)) {
    reader.refuse(value, "must be an integer in " + bounds);
    return false;
  }
  std::int64_t number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [rest, error] = std::from_chars(value.text.data(), end, number);
  if (error != std::errc{} || rest != end || number < least || number > most) {
    reader.refuse(value, "must be in " + bounds);
    return false;
  }
  out = number;
  return true;
}

bool read_number(const Value& value, const Range& range, Reader& reader, double& out) {
  double number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [rest, error] = std::from_chars(value.text.data(), end, number);
  const bool is_number = value.kind == Value::Kind::kScalar && !value.quoted &&
                         error == std::errc{} && rest == end && std::isfinite(number);
  if (!is_number) {
    reader.refuse(value, "must be a number in " + range_text(range));
    return false;
  }
  if (number > range.most || number < range.least || (range.above_least && number == range.least)) {
    reader.refuse(value, "must be in " + range_text(range));
    return false;
  }
  out = number;
  return true;
}

bool read_boolean(const Value& value, Reader& reader, bool& out) {
  if (value.kind == Value::Kind::kScalar && !value.quoted) {
    if (value.text == "true" || value.text == "false") {
      out = value.text == "true";
      return true;
    }
  }
  reader.refuse(value, "must be true or false");
  return false;
}

bool read_text(const Value& value, std::string_view must, Reader& reader, std::string& out) {
  if (value.kind != Value::Kind::kScalar) {
    reader.refuse(value, "must be " + std::string(must));
    return false;
  }
  out = value.text;
  return true;
}

Value show_number(double value) {
  // Whole numbers as people write them: 600000 rather than 6e+05.
  if (value == std::trunc(value) && std::abs(value) < 1e15) {
    return Value::plain(std::to_string(static_cast<std::int64_t>(value)));
  }
  std::string text;
  append_json_number(text, value);
  return Value::plain(std::move(text));
}

std::string integer_bounds(std::int64_t least, std::int64_t most) {
  return "[" + std::to_string(least) + ", " + std::to_string(most) + "]";
}

std::string range_text(const Range& range) {
  return (range.above_least ? "(" : "[") + show_number(range.least).text + ", " +
         show_number(range.most).text + "]";
}

std::string unknown_key(std::string_view key, const std::vector<std::string_view>& known) {
  // Longer than any key by far: no misspelling, and not worth a quadratic comparison.
  constexpr std::size_t kLongest = 64;
  std::string_view nearest;
  std::size_t least = 3;  // more changes than this are no misspelling
  for (const std::string_view name : known) {
    if (key.size() > kLongest) break;
    const std::size_t distance = edit_distance(key, name);
    if (distance < std::min(least + 1, name.size())) {
      least = distance;
      nearest = name;
    }
  }
  if (!nearest.empty()) return "unknown key; did you mean " + std::string(nearest) + "?";
  std::string text = "unknown key; known: ";
  for (std::size_t i = 0; i < known.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(known[i]);
  }
  return text;
}

}  // namespace gradus::config
