// Requests as they come: Poisson at rates that step, bursts, and what was recorded, in one stream.
#pragma once
#include <cstdint>
#include <optional>

#include "simulate/random.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

struct Arrival {
  Duration at{};
  Duration deadline{};  // from then
  std::uint32_t shape = 0;
};

class ArrivalStream {
 public:
  /// @param scenario outlives it
  ArrivalStream(const Scenario& scenario, std::uint64_t seed);

  /// In order of time; nothing: no more come.
  std::optional<Arrival> next();

 private:
  void draw_poisson();

  const Scenario& scenario_;
  Random random_;
  std::size_t rate_ = 0;  // of the rates, that holds at `poisson_`
  Duration poisson_{};    // when the next one of each kind comes; Duration::max(): none
  Duration burst_;
  std::uint32_t left_in_burst_;
  std::size_t recorded_ = 0;
};

}  // namespace gradus::simulate
