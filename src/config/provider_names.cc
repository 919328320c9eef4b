#include "config/provider_names.h"

#include <algorithm>

#include "base/json_text.h"

namespace gradus::config {
namespace {

constexpr std::string_view kSuffix = "ExecutionProvider";

struct Row {
  std::string_view full_name;             // as ONNX Runtime spells it
  enum { kCpu, kGpu, kDefaultGpu } kind;  // kDefaultGpu: level 0 tries it without being told
  std::string_view alias = {};            // lower case, beside the name without its ending
};

// Left out: providers for browsers and phones (JS, WebNN, NNAPI), for remote services (Azure), and
// those that ONNX Runtime has dropped without a successor (TVM).
constexpr Row kRows[] = {
    {"TensorrtExecutionProvider", Row::kGpu, "trt"},
    {"NvTensorRTRTXExecutionProvider", Row::kGpu, "trtrtx"},
    {"CUDAExecutionProvider", Row::kDefaultGpu},
    {"MIGraphXExecutionProvider", Row::kDefaultGpu},
    {"ROCMExecutionProvider", Row::kGpu},
    {"WebGpuExecutionProvider", Row::kDefaultGpu},
    {"DmlExecutionProvider", Row::kGpu, "directml"},
    {"QNNExecutionProvider", Row::kGpu},
    {"CoreMLExecutionProvider", Row::kGpu},
    {"VitisAIExecutionProvider", Row::kGpu},
    {"CANNExecutionProvider", Row::kGpu},
    {"SNPEExecutionProvider", Row::kGpu},
    {"RknpuExecutionProvider", Row::kGpu},
    {"VSINPUExecutionProvider", Row::kGpu},
    {"OpenVINOExecutionProvider", Row::kCpu},
    {"DnnlExecutionProvider", Row::kCpu, "onednn"},
    {"XnnpackExecutionProvider", Row::kCpu},
    {"ACLExecutionProvider", Row::kCpu},
    {"ArmNNExecutionProvider", Row::kCpu},
    {"CPUExecutionProvider", Row::kCpu},
};

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool names(std::string_view full_name, std::string_view lower_word) {
  return lower(full_name) == lower_word || lower(short_provider_name(full_name)) == lower_word;
}

const Row* find_row(std::string_view full_name) {
  const Row* found = std::find_if(std::begin(kRows), std::end(kRows),
                                  [&](const Row& row) { return row.full_name == full_name; });
  return found == std::end(kRows) ? nullptr : found;
}

void append_once(std::vector<std::string>& list, const std::string& name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

}  // namespace

std::string short_provider_name(std::string_view full_name) {
  if (full_name.size() > kSuffix.size() && full_name.ends_with(kSuffix)) {
    full_name.remove_suffix(kSuffix.size());
  }
  return std::string(full_name);
}

std::optional<std::string> full_provider_name(std::string_view name, ExtraProviders extra) {
  const std::string word = lower(trimmed(name));
  if (word.empty()) return std::nullopt;
  for (const std::string& full_name : extra) {
    if (names(full_name, word)) return full_name;
  }
  for (const Row& row : kRows) {
    if (names(row.full_name, word) || (!row.alias.empty() && row.alias == word)) {
      return std::string(row.full_name);
    }
  }
  return std::nullopt;
}

bool is_gpu_provider(std::string_view full_name) {
  const Row* row = find_row(full_name);
  return row == nullptr || row->kind != Row::kCpu;
}

std::string unknown_provider(std::string_view word, ExtraProviders extra) {
  std::vector<std::string> known = known_providers();
  for (const std::string& name : extra) append_once(known, name);
  std::string text = "unknown provider " + json_string(word) + "; known: ";
  for (std::size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "" : ", ") + known[i];
  return text;
}

Result<std::optional<std::vector<std::string>>> parse_provider_list(std::string_view text,
                                                                    ExtraProviders extra) {
  std::vector<std::string> found;
  std::string unknown;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(";,"), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (auto full_name = full_provider_name(word, extra)) {
      append_once(found, *full_name);
    } else {
      // Several unknown words read as one quoted list: `"cdua, cpuu"`.
      unknown += (unknown.empty() ? "" : ", ") + std::string(word);
    }
  }
  if (!unknown.empty()) return fail(Code::kInvalid, unknown_provider(unknown, extra));
  if (found.empty()) return std::nullopt;
  return found;
}

const std::vector<std::string>& known_providers() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const Row& row : kRows) list.emplace_back(row.full_name);
    return list;
  }();
  return all;
}

ProviderOrder provider_order(const std::optional<std::vector<std::string>>& list,
                             ExtraProviders extra) {
  ProviderOrder order;
  if (list) {
    for (const std::string& name : *list) {
      append_once(is_gpu_provider(name) ? order.gpu : order.cpu, name);
    }
    return order;
  }
  for (const std::string& name : extra) {
    if (is_gpu_provider(name)) append_once(order.gpu, name);
  }
  for (const Row& row : kRows) {
    if (row.kind == Row::kDefaultGpu) append_once(order.gpu, std::string(row.full_name));
  }
  order.cpu = {"CPUExecutionProvider"};
  return order;
}

}  // namespace gradus::config
