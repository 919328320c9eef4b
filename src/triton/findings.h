// What is found in one config.pbtxt: faults, for which the model is refused, and notes of what has
// no effect.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/faults.h"

namespace gradus::triton {

class Findings {
 public:
  /// The line of a path such as `input[1].dims`, or of the nearest above it; 0: not known.
  using LineOf = std::function<int(const std::string& path)>;

  Findings(std::string file, LineOf line_of)
      : file_(std::move(file)), line_of_(std::move(line_of)) {}

  /// `models/x/config.pbtxt:7: input[1].dims: must …`; path "": of the whole.
  void refuse(const std::string& path, const std::string& text) {
    faults.push_back(where(path) + text);
  }
  /// The same of what has no effect, or another one than with Triton.
  void note(const std::string& path, const std::string& text) {
    notes.push_back(where(path) + text);
  }
  void ignore(const std::string& path, const std::string& why) {
    note(path, "has no effect: " + why);
  }

  config::Faults faults;
  std::vector<std::string> notes;

 private:
  std::string where(const std::string& path) const {
    const int line = path.empty() || !line_of_ ? 0 : line_of_(path);
    return file_ + (line > 0 ? ":" + std::to_string(line) : "") + ": " +
           (path.empty() ? "" : path + ": ");
  }

  const std::string file_;
  const LineOf line_of_;
};

}  // namespace gradus::triton
