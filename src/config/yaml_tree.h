// YAML text as a small tree and back; yaml-cpp stays in the .cc file. Every key is unique, aliases
// are expanded, and size and depth are bounded, so that readers need not care.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/faults.h"

namespace gradus::config {

struct Value {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;               // of a scalar
  bool quoted = false;            // a scalar that is text whatever it looks like
  std::vector<std::string> keys;  // of a map, beside `items`, in the file's order
  std::vector<Value> items;       // of a list or map
  std::string comment;            // printed behind the value; never read

  static Value plain(std::string text);   // numbers, true, false
  static Value string(std::string text);  // text, quoted where it must be
  static Value list(std::vector<Value> items = {});
  static Value map();

  void add(std::string key, Value value);  // to a map
  const Value* find(std::string_view key) const;
};

/// One document of at most 1 MiB, 10,000 nodes and 32 levels. Nothing: `faults` says line and
/// column of what is no YAML. Duplicate keys are faults too, but the tree comes (the first one
/// counts), so that the other faults are told with them.
std::optional<Value> parse_yaml(std::string_view text, std::string_view file, Faults& faults);

/// The same from a file, whose path names it in faults; one that cannot be read is a fault.
std::optional<Value> load_yaml(const std::filesystem::path& path, Faults& faults);

/// Block style, lists of scalars in brackets; ends with a line break. `value` is a map.
std::string yaml_text(const Value& value);

/// On one line, as a fault or the documentation shows it; lists and maps are cut to `[...]`,
/// `{...}` unless they hold scalars only (lists) or nothing.
std::string inline_text(const Value& value);

/// `path.key`, or `key` at the top; an odd or long key is shown as `printable` does.
std::string join_path(std::string_view path, std::string_view key);

/// Foreign text for a line of output: at most 80 bytes, in quotes if anything in it is odd.
std::string printable(std::string_view text);

}  // namespace gradus::config
