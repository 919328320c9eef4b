#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json_text.h"

namespace gradus::config {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxNodes = 10'000;
constexpr int kMaxDepth = 32;

bool is_keyword(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kWords[] = {"true", "false", "null", "yes", "no",
                                         "on",   "off",   "y",    "n"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

/// Whether text reads back as the same text without quotes.
bool needs_no_quotes(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto inner = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
  };
  return !text.empty() && (letter(text[0]) || text[0] == '/' || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), inner) && !is_keyword(text);
}

std::string scalar_text(const Value& value) {
  return value.quoted && !needs_no_quotes(value.text) ? json_string(value.text) : value.text;
}

bool all_scalars(const Value& list) {
  return std::all_of(list.items.begin(), list.items.end(),
                     [](const Value& item) { return item.kind == Value::Kind::kScalar; });
}

/// Turns yaml-cpp's nodes, in which aliases may repeat and even contain themselves, into a tree.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view file, Faults& faults) : file_(file), faults_(faults) {}

  Value build(const YAML::Node& node, const std::string& path, int depth) {
    Value value;
    if (++nodes_ > kMaxNodes || depth > kMaxDepth) {
      too_large_ = true;
      return value;
    }
    if (node.IsScalar()) {
      value.kind = Value::Kind::kScalar;
      value.text = node.Scalar();
      value.quoted = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
    } else if (node.IsSequence()) {
      value.kind = Value::Kind::kList;
      for (const YAML::Node& item : node) {
        if (too_large_) break;
        value.items.push_back(
            build(item, path + "[" + std::to_string(value.items.size()) + "]", depth + 1));
      }
    } else if (node.IsMap()) {
      value.kind = Value::Kind::kMap;
      build_map(node, path, depth, value);
    }
    return value;
  }

  bool too_large() const { return too_large_; }

 private:
  void build_map(const YAML::Node& node, const std::string& path, int depth, Value& value) {
    std::map<std::string, int> lines;
    for (const auto& entry : node) {
      if (too_large_) break;
      const int line = entry.first.Mark().line + 1;
      if (!entry.first.IsScalar()) {
        fault(path, "a key in line " + std::to_string(line) + " is no plain word");
        continue;
      }
      const std::string& key = entry.first.Scalar();
      const auto [first, fresh] = lines.emplace(key, line);
      if (!fresh) {
        fault(join_path(path, key), "given twice, in lines " + std::to_string(first->second) +
                                        " and " + std::to_string(line));
        continue;
      }
      value.add(key, build(entry.second, join_path(path, key), depth + 1));
    }
  }

  void fault(std::string_view path, const std::string& text) {
    faults_.push_back(std::string(file_) + ": " + (path.empty() ? "" : std::string(path) + ": ") +
                      text);
  }

  std::string_view file_;
  Faults& faults_;
  int nodes_ = 0;
  bool too_large_ = false;
};

/// Takes a document's events and keeps nothing.
class Ignore final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// YAML::Load reads the first document and is silent about the rest; YAML::LoadAll never returns on
/// some texts (`,a: 1`), of which the parser makes empty documents without end.
bool is_one_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignore ignore;
  return !parser.HandleNextDocument(ignore) || !parser.HandleNextDocument(ignore);
}

std::string parser_position(const YAML::Exception& error) {
  if (error.mark.is_null()) return "";
  return "line " + std::to_string(error.mark.line + 1) + ", column " +
         std::to_string(error.mark.column + 1) + ": ";
}

void append_map(std::string& out, const Value& map, std::size_t indent, bool first_line_is_open);

void append_list(std::string& out, const Value& list, std::size_t indent) {
  for (const Value& item : list.items) {
    out += std::string(indent, ' ') + "- ";
    if (item.kind == Value::Kind::kMap && !item.items.empty()) {
      append_map(out, item, indent + 2, true);
    } else {
      out += inline_text(item) + "\n";
    }
  }
}

void append_map(std::string& out, const Value& map, std::size_t indent, bool first_line_is_open) {
  for (std::size_t i = 0; i < map.items.size(); ++i) {
    const Value& item = map.items[i];
    if (i > 0 || !first_line_is_open) out += std::string(indent, ' ');
    out += scalar_text(Value::string(map.keys[i])) + ":";
    const bool nested_map = item.kind == Value::Kind::kMap && !item.items.empty();
    const bool nested_list = item.kind == Value::Kind::kList && !all_scalars(item);
    if (!nested_map && !nested_list) out += " " + inline_text(item);
    if (!item.comment.empty()) out += "  # " + item.comment;
    out += "\n";
    if (nested_map) append_map(out, item, indent + 2, false);
    if (nested_list) append_list(out, item, indent + 2);
  }
}

}  // namespace

Value Value::plain(std::string text) {
  Value value;
  value.kind = Kind::kScalar;
  value.text = std::move(text);
  return value;
}

Value Value::string(std::string text) {
  Value value = plain(std::move(text));
  value.quoted = true;
  return value;
}

Value Value::list(std::vector<Value> items) {
  Value value;
  value.kind = Kind::kList;
  value.items = std::move(items);
  return value;
}

Value Value::map() {
  Value value;
  value.kind = Kind::kMap;
  return value;
}

void Value::add(std::string key, Value value) {
  keys.push_back(std::move(key));
  items.push_back(std::move(value));
}

const Value* Value::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::optional<Value> parse_yaml(std::string_view text, std::string_view file, Faults& faults) {
  const auto refuse = [&](const std::string& why) {
    faults.push_back(std::string(file) + ": " + why);
    return std::nullopt;
  };
  if (text.size() > kMaxBytes) {
    return refuse("is too long: must hold at most " + std::to_string(kMaxBytes) + " bytes");
  }
  if (const std::size_t valid = valid_utf8_prefix(text); valid < text.size()) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(valid), '\n');
    return refuse("line " + std::to_string(line) + ": no valid UTF-8");
  }
  try {
    if (!is_one_document(std::string(text))) {
      return refuse("holds more than one YAML document, or text outside of any");
    }
    TreeBuilder builder(file, faults);
    Value value = builder.build(YAML::Load(std::string(text)), "", 0);
    if (builder.too_large()) {
      return refuse("must have at most " + std::to_string(kMaxNodes) + " values and " +
                    std::to_string(kMaxDepth) + " levels of nesting, aliases expanded");
    }
    return value;
  } catch (const YAML::Exception& error) {
    // The message may quote the text, line breaks included.
    const std::string quoted = json_string(error.msg);
    return refuse(parser_position(error) + "no valid YAML: " + quoted.substr(1, quoted.size() - 2));
  }
}

std::optional<Value> load_yaml(const std::filesystem::path& path, Faults& faults) {
  std::string text(kMaxBytes + 1, '\0');  // one byte over tells that there is more
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof() && !file.good()) {
    faults.push_back(path.string() + ": cannot be read: " + std::strerror(errno));
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_yaml(text, path.string(), faults);
}

std::string yaml_text(const Value& value) {
  std::string out;
  append_map(out, value, 0, false);
  return out;
}

std::string inline_text(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kScalar:
      return scalar_text(value);
    case Value::Kind::kMap:
      return value.items.empty() ? "{}" : "{...}";
    case Value::Kind::kList:
      break;
  }
  if (!all_scalars(value)) return "[...]";
  std::string out = "[";
  for (const Value& item : value.items) out += (out.size() > 1 ? ", " : "") + scalar_text(item);
  return out + "]";
}

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? printable(key) : std::string(path) + "." + printable(key);
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxShown = 80;
  std::string out(text.substr(0, kMaxShown));
  if (out.size() < text.size()) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80) out.pop_back();
    out += "...";
  }
  const bool plain = !out.empty() && std::all_of(out.begin(), out.end(),
                                                 [](char c) { return c > ' ' && c < 0x7f; });
  return plain ? out : json_string(out);
}

}  // namespace gradus::config
