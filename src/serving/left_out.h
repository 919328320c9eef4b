// Which levels do not earn their place on this machine. Pure.
#pragma once
#include <optional>
#include <string>

#include "base/clock.h"

namespace gradus::serving {

struct Measured {
  int level = 0;
  std::string name;
  bool on_gpu = false;
  bool keep = false;     // the operator wants it whatever it costs
  double quality = 1.0;  // 0..1
  Duration fastest{};    // of several runs on the same inputs
};

/// Why `candidate` is left out of a ladder that has `other`; nothing: it stays.
/// Only a CPU level can push another out (a GPU's speed is no reason to lack a fallback), and only
/// one of equal or better quality: of equal quality, when the candidate takes over 25 % longer; of
/// better quality, when the candidate is not over 10 % quicker, for then it costs quality and buys
/// nothing.
std::optional<std::string> left_out(const Measured& candidate, const Measured& other);

/// Whether figures could ever make left_out() say something about either of the two.
bool may_push_out(const Measured& a, const Measured& b);

}  // namespace gradus::serving
