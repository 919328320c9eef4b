#include "ladder/state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace gradus::ladder {

namespace {

constexpr std::size_t kErrorShown = 1000;  // bytes

}  // namespace

void LevelState::note_error(std::string_view error) {
  std::size_t end = std::min(error.size(), kErrorShown);
  while (end < error.size() && end > 0 && (error[end] & 0xC0) == 0x80) --end;  // within a character
  last_error = error.substr(0, end);
  if (end < error.size()) last_error += "…";
  std::ranges::replace_if(
      last_error, [](char c) { return c >= 0 && c < ' '; }, ' ');
}

std::string LevelState::error_text() const {
  return last_error.empty() ? "" : ", last error: " + last_error;
}

const char* to_string(Condition condition) {
  switch (condition) {
    case Condition::kLoading:
      return "loading";
    case Condition::kReady:
      return "ready";
    case Condition::kUnavailable:
      return "unavailable";
    case Condition::kSkipped:
      return "skipped";
    case Condition::kDisabled:
      return "disabled";
  }
  std::abort();
}

Result<State> make_state(std::span<const LevelSpec> levels, const config::PolicyConfig& policy,
                         TimePoint start) {
  if (levels.empty() || levels.size() > kMaxLevels) {
    return fail(Code::kInvalid, "levels: " + std::to_string(levels.size()) +
                                    " given, must be 1 to " + std::to_string(kMaxLevels));
  }
  State state{.policy = policy, .start = start, .now = start, .cooldown_until = start};
  for (const LevelSpec& level : levels) {
    if (!state.levels.empty() && level.level <= state.levels.back().number) {
      return fail(Code::kInvalid, "level " + std::to_string(level.level) + ": comes after level " +
                                      std::to_string(state.levels.back().number) +
                                      ", must be ascending");
    }
    if (level.target_p99 <= Duration::zero()) {
      return fail(Code::kInvalid,
                  "level " + std::to_string(level.level) + ": p99 target must be over 0");
    }
    state.levels.emplace_back(level, policy, start);
  }
  return state;
}

std::size_t index_of(const State& state, int level) {
  for (std::size_t i = 0; i < state.levels.size(); ++i) {
    if (state.levels[i].number == level) return i;
  }
  std::fprintf(stderr, "ladder: no level %d among %zu levels\n", level, state.levels.size());
  std::abort();
}

}  // namespace gradus::ladder
