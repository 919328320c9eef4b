// A level's fault schedule: how it does at any time, and when that changes.
#pragma once
#include <vector>

#include "simulate/scenario.h"

namespace gradus::simulate {

/// All faults of the moment together.
struct Health {
  double factor = 1;  // run times
  double errors = 0;  // share of runs that fail
  bool alternating = false;
  bool hangs = false;
  bool lost = false;
};

class Faults {
 public:
  /// @param level index; the faults of others are left out
  Faults(const Scenario& scenario, std::size_t level);

  Health at(Duration time) const;
  /// The first change after that; Duration::max(): none.
  Duration next_change(Duration after) const;

 private:
  std::vector<Fault> faults_;
};

}  // namespace gradus::simulate
