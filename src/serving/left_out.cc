#include "serving/left_out.h"

#include <cstdio>

namespace gradus::serving {
namespace {

constexpr double kMargin = 1.25;

bool may_lose(const Measured& candidate, const Measured& other) {
  return !candidate.keep && !other.on_gpu && other.quality >= candidate.quality;
}

}  // namespace

std::optional<std::string> left_out(const Measured& candidate, const Measured& other) {
  if (!may_lose(candidate, other)) return std::nullopt;
  const double mine = to_ms(candidate.fastest);
  const double theirs = to_ms(other.fastest);
  const bool stays =
      other.quality > candidate.quality ? theirs > kMargin * mine : mine <= kMargin * theirs;
  if (stays) return std::nullopt;
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "%.3f ms a run against %.3f ms", mine, theirs);
  return std::string(other.quality > candidate.quality ? "not over 25 % faster than"
                                                       : "over 25 % slower than") +
         " level " + std::to_string(other.level) + " '" + other.name + "', whose quality is " +
         (other.quality > candidate.quality ? "better" : "as good") + ": " + numbers;
}

bool may_push_out(const Measured& a, const Measured& b) { return may_lose(a, b) || may_lose(b, a); }

}  // namespace gradus::serving
