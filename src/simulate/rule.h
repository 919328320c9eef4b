// By which rule requests find their level: the server's own, and simpler ones to compare it with.
#pragma once
#include <array>
#include <string_view>

namespace gradus::simulate {

struct Rule {
  std::string_view name;
  std::string_view means;
  bool ladder = false;     // the ladder's state says where requests start
  bool plans = false;      // levels that would be too late are passed over, or refuse
  bool hedges = false;     // the next level may start before the first has answered
  bool canary = false;     // a better level gets a share of the requests first
  bool all_levels = true;  // else level 0 alone
  bool discards = false;   // an answer that took longer than the level's target is thrown away
};

inline constexpr std::array<Rule, 4> kRules = {{
    {.name = "none", .means = "level 0 alone", .all_levels = false},
    {.name = "published",
     .means = "level 0 first; the next one if it fails or takes longer than its target",
     .discards = true},
    {.name = "hysteresis", .means = "the ladder alone", .ladder = true},
    {.name = "gradus",
     .means = "the ladder, plans, hedging, canary",
     .ladder = true,
     .plans = true,
     .hedges = true,
     .canary = true},
}};
inline constexpr const Rule& kGradus = kRules[3];

}  // namespace gradus::simulate
