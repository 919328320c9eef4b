#include "runtime/ort/error_text.h"

#include <cctype>

namespace gradus::runtime {
namespace {

constexpr std::size_t kLongest = 600;

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// Cuts everything up to and including the last `marker`.
void cut_through(std::string& text, std::string_view marker) {
  const std::size_t at = text.rfind(marker);
  if (at != std::string::npos && at + marker.size() < text.size())
    text.erase(0, at + marker.size());
}

// A nested status reads `[ONNXRuntimeError] : 1 : FAIL : the cause`.
void cut_status_prefix(std::string& text) {
  constexpr std::string_view kMarker = "[ONNXRuntimeError] : ";
  std::size_t at = text.rfind(kMarker);
  if (at == std::string::npos) return;
  at += kMarker.size();
  for (int colons = 0; colons < 2; ++colons) {
    at = text.find(" : ", at);
    if (at == std::string::npos) return;
    at += 3;
  }
  if (at < text.size()) text.erase(0, at);
}

// `/onnxruntime_src/…/file.cc:12 signature` tells a user nothing.
void cut_source_path(std::string& text) {
  if (!text.starts_with("/onnxruntime_src/")) return;
  const std::size_t end = text.find(' ');
  if (end != std::string::npos) text.erase(0, end + 1);
}

}  // namespace

std::string error_text(std::string_view message) {
  std::string text = one_line(message);
  cut_status_prefix(text);
  cut_through(text, " was false. ");
  cut_source_path(text);
  if (text.size() > kLongest) {
    text.resize(kLongest);
    text += "…";
  }
  return text;
}

std::string error_text(std::string_view message, const LogCapture& log) {
  std::string text = error_text(message);
  for (const std::string& line : log.causes()) {
    const std::string cause = error_text(line);
    if (text.find(cause) == std::string::npos) text += " (" + cause + ")";
  }
  return text;
}

}  // namespace gradus::runtime
