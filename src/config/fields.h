// One row for each key of a struct: how it is read, checked, printed and documented. A struct's
// table is a vector of rows; nested structs are rows that hold a table (`group`).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/faults.h"
#include "config/yaml_tree.h"

namespace gradus::config {

/// Knows where in which file we are, and collects the faults. Not for use by several threads.
class Reader {
 public:
  /// @param flag not empty: what is read comes from this flag, which faults then name instead
  Reader(std::string_view file, Faults& faults, std::string_view flag = {})
      : file_(file), flag_(flag), faults_(faults) {}

  /// `file: path = value: must be …`.
  void refuse(const Value& value, std::string_view must) { refuse_key("", value, must); }
  /// The same for a key below the present path.
  void refuse_key(std::string_view key, const Value& value, std::string_view must);
  /// `file: path.key: text`; key "" for the present path.
  void fault(std::string_view key, std::string_view text);

  std::size_t faults() const { return faults_.size(); }

  /// Goes one step down for its own lifetime: a key, or `[2]`.
  class Step {
   public:
    Step(Reader& reader, std::string_view segment);
    ~Step() { reader_.path_.resize(length_); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Reader& reader_;
    std::size_t length_;
  };

  /// Full names of providers that come as libraries; a row that reads them adds to it.
  std::vector<std::string> extra_providers;

 private:
  std::string where(std::string_view key) const;

  std::string_view file_;
  std::string_view flag_;
  Faults& faults_;
  std::string path_;
};

/// Names that go into metrics, headers and comments.
bool is_plain_word(std::string_view text);
inline constexpr const char* kPlainWord = "at most 64 letters, digits and _-.";

std::string index_segment(std::size_t index);

template <class S>
struct Field {
  std::string key;
  std::string must;  // `an integer in [1, 1024]`
  std::string help;
  std::function<void(const Value&, Reader&, S&)> read;
  std::function<Value(const S&)> show;  // kNull: there is nothing to print
  std::string default_text = {};        // documented default, where a fresh struct does not tell it
  bool required = false;
};

template <class S>
using Fields = std::vector<Field<S>>;

/// A plain scalar's number; on anything else, or out of bounds, refuses and returns false.
bool read_integer(const Value& value, std::int64_t least, std::int64_t most, Reader& reader,
                  std::int64_t& out);
struct Range {
  double least;
  double most;
  bool above_least = false;  // (least, most]
};
bool read_number(const Value& value, const Range& range, Reader& reader, double& out);
bool read_boolean(const Value& value, Reader& reader, bool& out);
/// Any scalar but null.
bool read_text(const Value& value, std::string_view must, Reader& reader, std::string& out);
Value show_number(double value);
std::string integer_bounds(std::int64_t least, std::int64_t most);
std::string range_text(const Range& range);
/// `unknown key; did you mean …?`, or what is known.
std::string unknown_key(std::string_view key, const std::vector<std::string_view>& known);

template <class S, class N>
Field<S> integer(std::string key, N S::*member, std::int64_t least, std::int64_t most,
                 std::string help) {
  return {std::move(key), "an integer in " + integer_bounds(least, most), std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            std::int64_t number = 0;
            if (read_integer(value, least, most, reader, number)) {
              out.*member = static_cast<N>(number);
            }
          },
          [=](const S& in) { return Value::plain(std::to_string(in.*member)); }};
}

template <class S>
Field<S> milliseconds(std::string key, std::chrono::milliseconds S::*member, std::int64_t least,
                      std::int64_t most, std::string help) {
  return {std::move(key), "an integer in " + integer_bounds(least, most), std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            std::int64_t number = 0;
            if (read_integer(value, least, most, reader, number)) {
              out.*member = std::chrono::milliseconds(number);
            }
          },
          [=](const S& in) { return Value::plain(std::to_string((in.*member).count())); }};
}

template <class S>
Field<S> microseconds(std::string key, std::chrono::microseconds S::*member, std::int64_t least,
                      std::int64_t most, std::string help) {
  return {std::move(key), "an integer in " + integer_bounds(least, most), std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            std::int64_t number = 0;
            if (read_integer(value, least, most, reader, number)) {
              out.*member = std::chrono::microseconds(number);
            }
          },
          [=](const S& in) { return Value::plain(std::to_string((in.*member).count())); }};
}

template <class S>
Field<S> number(std::string key, double S::*member, Range range, std::string help) {
  return {std::move(key), "a number in " + range_text(range), std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            read_number(value, range, reader, out.*member);
          },
          [=](const S& in) { return show_number(in.*member); }};
}

template <class S>
Field<S> boolean(std::string key, bool S::*member, std::string help) {
  return {
      std::move(key), "true or false", std::move(help),
      [=](const Value& value, Reader& reader, S& out) { read_boolean(value, reader, out.*member); },
      [=](const S& in) { return Value::plain(in.*member ? "true" : "false"); }};
}

template <class S>
Field<S> text(std::string key, std::string S::*member, bool (*good)(std::string_view),
              std::string must, std::string help) {
  return {std::move(key), must, std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            std::string read;
            if (!read_text(value, must, reader, read)) return;
            if (good(read)) {
              out.*member = std::move(read);
            } else {
              reader.refuse(value, "must be " + must);
            }
          },
          [=](const S& in) { return Value::string(in.*member); }};
}

template <class S, class E>
Field<S> choice(std::string key, E S::*member, std::vector<std::pair<std::string, E>> names,
                std::string help) {
  std::string must;
  for (std::size_t i = 0; i < names.size(); ++i) {
    must += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i].first;
  }
  return {std::move(key), must, std::move(help),
          [=](const Value& value, Reader& reader, S& out) {
            for (const auto& [name, enumerator] : names) {
              if (value.kind == Value::Kind::kScalar && value.text == name) {
                out.*member = enumerator;
                return;
              }
            }
            reader.refuse(value, "must be " + must);
          },
          [=](const S& in) {
            for (const auto& [name, enumerator] : names) {
              if (in.*member == enumerator) return Value::string(name);
            }
            return Value{};
          }};
}

/// Reads a map's keys in the table's order. Null counts as an empty map: a section whose every line
/// is commented out.
template <class S>
void read_fields(const Value& value, const Fields<S>& fields, Reader& reader, S& out) {
  if (value.kind != Value::Kind::kMap && value.kind != Value::Kind::kNull) {
    reader.refuse(value, "must be a map of keys");
    return;
  }
  std::vector<std::string_view> known;
  for (const Field<S>& field : fields) known.push_back(field.key);
  for (const std::string& key : value.keys) {
    bool found = false;
    for (const std::string_view name : known) found = found || name == key;
    if (!found) reader.fault(key, unknown_key(key, known));
  }
  for (const Field<S>& field : fields) {
    if (const Value* item = value.find(field.key)) {
      const Reader::Step step(reader, field.key);
      field.read(*item, reader, out);
    } else if (field.required) {
      reader.fault(field.key, "missing: must be " + field.must);
    }
  }
}

template <class S>
Value show_fields(const Fields<S>& fields, const S& in) {
  Value map = Value::map();
  for (const Field<S>& field : fields) {
    Value value = field.show(in);
    if (value.kind != Value::Kind::kNull) map.add(field.key, std::move(value));
  }
  return map;
}

/// A struct within the struct. `check` compares values with each other; it runs only if each is
/// right by itself.
template <class S, class Inner>
Field<S> group(std::string key, Inner S::*member, const Fields<Inner>& fields, std::string help,
               void (*check)(const Inner&, Reader&) = nullptr) {
  return {std::move(key), "a map of keys", std::move(help),
          [member, check, &fields](const Value& value, Reader& reader, S& out) {
            const std::size_t before = reader.faults();
            read_fields(value, fields, reader, out.*member);
            if (check != nullptr && reader.faults() == before) check(out.*member, reader);
          },
          [member, &fields](const S& in) { return show_fields(fields, in.*member); }};
}

}  // namespace gradus::config
