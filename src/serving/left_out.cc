#include "serving/left_out.h"

#include <cstdio>

namespace gradus::serving {
namespace {

constexpr double kTooSlow = 1.25;  // of equal quality: so much longer is too long
constexpr double kWorthwhile =
    1.10;  // of better quality: so much longer makes the worse one worth it

bool may_lose(const Measured& candidate, const Measured& other) {
  return !candidate.keep && !other.on_gpu && other.quality >= candidate.quality;
}

}  // namespace

std::optional<std::string> left_out(const Measured& candidate, const Measured& other) {
  if (!may_lose(candidate, other)) return std::nullopt;
  const double mine = to_ms(candidate.fastest);
  const double theirs = to_ms(other.fastest);
  const bool better = other.quality > candidate.quality;
  const bool stays = better ? theirs > kWorthwhile * mine : mine <= kTooSlow * theirs;
  if (stays) return std::nullopt;
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "%.3f ms a run against %.3f ms", mine, theirs);
  return std::string(better ? "not over 10 % quicker than" : "over 25 % slower than") + " level " +
         std::to_string(other.level) + " '" + other.name + "', whose quality is " +
         (better ? "better" : "as good") + ": " + numbers;
}

bool may_push_out(const Measured& a, const Measured& b) { return may_lose(a, b) || may_lose(b, a); }

}  // namespace gradus::serving
