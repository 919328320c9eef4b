#include "triton/parse.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <model_config.pb.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "config/fields.h"

namespace gradus::triton {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostFaults = 10;  // rubbish has one in each byte
constexpr int kMostDepth = 32;           // the deepest message lies seven deep

std::optional<config::Faults> too_long(std::size_t size, const std::string& file) {
  if (size <= kMostBytes) return std::nullopt;
  return config::Faults{file + ": too long: must hold at most " + std::to_string(kMostBytes) +
                        " bytes"};
}

/// `ModelConfig has no field "max_bach_size"; did you mean max_batch_size?`
std::string unknown_field(const std::string& type, const std::string& name) {
  std::vector<std::string_view> known;
  const pb::DescriptorPool* pool = inference::ModelConfig::descriptor()->file()->pool();
  if (const pb::Descriptor* message = pool->FindMessageTypeByName(type)) {
    for (int i = 0; i < message->field_count(); ++i) known.push_back(message->field(i)->name());
  }
  const std::string hint = config::unknown_key(name, known);  // `unknown key; …`
  return type + " has no field " + json_string(name) + hint.substr(hint.find(';'));
}

// protobuf's texts name types of ours in full, hold bytes of the file, and end in a full stop.
std::string cleaned(std::string text) {
  constexpr std::string_view kType = "Message type \"", kNone = "\" has no field named \"";
  if (const std::size_t none = text.find(kNone); text.starts_with(kType) && none < text.size()) {
    const std::string type = text.substr(kType.size(), none - kType.size());
    const std::string rest = text.substr(none + kNone.size());
    text = unknown_field(type, rest.substr(0, rest.find('"')));
  }
  constexpr std::string_view kPackage = "inference.";
  for (std::size_t at = 0; (at = text.find(kPackage, at)) != std::string::npos;) {
    text.erase(at, kPackage.size());
  }
  if (text.ends_with('.')) text.pop_back();
  if (text.ends_with("got: ")) text += "the end";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return text;
}

// Its JSON reader names types by address, and may have no field to begin with.
std::string cleaned_json(std::string text) {
  constexpr std::string_view kOfType = " for type ";
  const std::size_t at = text.find(kOfType);
  const std::size_t slash = text.rfind('/');
  if (at != std::string::npos && slash != std::string::npos && slash > at) {
    text.erase(at + kOfType.size(), slash + 1 - at - kOfType.size());
  }
  if (const std::size_t none = text.find(": Cannot find field"); none != std::string::npos) {
    text = "unknown field " + text.substr(0, none);
  }
  if (text.starts_with(": ")) text.erase(0, 2);
  return cleaned(std::move(text));
}

class Errors final : public pb::io::ErrorCollector {
 public:
  explicit Errors(const std::string& file) : file_(file) {}
  void AddError(int line, int column, const std::string& text) override {
    const std::string at =
        line < 0 ? "" : ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1);
    if (faults.size() < kMostFaults) faults.push_back(file_ + at + ": " + cleaned(text));
  }
  config::Faults faults;

 private:
  const std::string& file_;
};

struct Segment {
  std::string_view name;
  int index = 0;
};

/// `input[1].dims` -> {input, 1}, and `rest` is `dims`.
Segment first_segment(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('.'), rest.size());
  Segment segment{rest.substr(0, end)};
  rest.remove_prefix(std::min(end + 1, rest.size()));
  const std::size_t bracket = segment.name.find('[');
  if (bracket != std::string_view::npos) {
    std::from_chars(segment.name.data() + bracket + 1, segment.name.data() + segment.name.size(),
                    segment.index);
    segment.name = segment.name.substr(0, bracket);
  }
  return segment;
}

int find_line(const pb::TextFormat::ParseInfoTree& root, std::string_view path) {
  const pb::TextFormat::ParseInfoTree* tree = &root;
  const pb::Descriptor* type = inference::ModelConfig::descriptor();
  int line = 0;
  while (!path.empty() && tree != nullptr && type != nullptr) {
    const Segment segment = first_segment(path);
    const pb::FieldDescriptor* field = type->FindFieldByName(std::string(segment.name));
    if (field == nullptr) break;
    const int index = field->is_repeated() ? segment.index : -1;
    auto at = tree->GetLocation(field, index);
    if (at.line < 0 && index > 0) at = tree->GetLocation(field, 0);  // of a list in brackets
    if (at.line >= 0) line = at.line + 1;
    type = field->message_type();
    tree = type == nullptr ? nullptr : tree->GetTreeForNested(field, index);
  }
  return line;
}

// Text may hold any bytes by escapes; the serialised form may not.
config::Loaded<Parsed> checked(std::shared_ptr<const inference::ModelConfig> message,
                               Findings::LineOf line_of, const std::string& file) {
  const pb::LogSilencer quiet;  // the fault says it
  Parsed parsed{std::move(message), {}, std::move(line_of)};
  parsed.serialised = parsed.message->SerializeAsString();
  if (inference::ModelConfig().ParseFromString(parsed.serialised)) return parsed;
  return tl::unexpected(config::Faults{file + ": holds text that is no valid UTF-8"});
}

}  // namespace

config::Loaded<Parsed> parse_text(std::string_view text, const std::string& file) {
  if (auto fault = too_long(text.size(), file)) return tl::unexpected(std::move(*fault));
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  auto message = std::make_shared<inference::ModelConfig>();
  auto places = std::make_shared<pb::TextFormat::ParseInfoTree>();
  Errors errors(file);
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(places.get());
  parser.SetRecursionLimit(kMostDepth);
  if (!parser.ParseFromString(std::string(text), message.get())) {
    if (errors.faults.empty()) errors.faults.push_back(file + ": cannot be read");
    return tl::unexpected(std::move(errors.faults));
  }
  return checked(
      std::move(message),
      [places = std::move(places)](const std::string& path) { return find_line(*places, path); },
      file);
}

config::Loaded<Parsed> parse_json(std::string_view json, const std::string& shown_name) {
  if (auto fault = too_long(json.size(), shown_name)) return tl::unexpected(std::move(*fault));
  auto message = std::make_shared<inference::ModelConfig>();
  const auto status = pb::util::JsonStringToMessage({json.data(), json.size()}, message.get());
  if (!status.ok()) {
    return tl::unexpected(
        config::Faults{shown_name + ": " + cleaned_json(std::string(status.message()))});
  }
  return checked(std::move(message), {}, shown_name);
}

}  // namespace gradus::triton
