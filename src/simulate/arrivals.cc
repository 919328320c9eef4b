#include "simulate/arrivals.h"

#include <algorithm>

namespace gradus::simulate {

ArrivalStream::ArrivalStream(const Scenario& scenario, std::uint64_t seed)
    : scenario_(scenario),
      random_(seed),
      burst_(scenario.arrivals.burst_every > Duration::zero() ? scenario.arrivals.burst_every
                                                              : Duration::max()),
      left_in_burst_(scenario.arrivals.burst_size) {
  const auto& rates = scenario.arrivals.rates;
  poisson_ = rates.empty() ? Duration::max() : rates.front().at;
  draw_poisson();
}

/// The waiting time in requests is exponential whatever the rate; each stretch at one rate uses up
/// its part of it.
void ArrivalStream::draw_poisson() {
  const auto& rates = scenario_.arrivals.rates;
  if (poisson_ == Duration::max()) return;
  for (double requests = random_.exponential();;) {
    const double per_ns = rates[rate_].per_second * 1e-9;
    const Duration until = rate_ + 1 < rates.size() ? rates[rate_ + 1].at : scenario_.lasts;
    const auto left = static_cast<double>((until - poisson_).count());
    if (requests < left * per_ns) {
      poisson_ += Duration(static_cast<std::int64_t>(requests / per_ns));
      return;
    }
    requests -= left * per_ns;
    poisson_ = until;
    if (++rate_ == rates.size()) {
      poisson_ = Duration::max();
      return;
    }
  }
}

std::optional<Arrival> ArrivalStream::next() {
  const Arrivals& arrivals = scenario_.arrivals;
  const Duration recorded =
      recorded_ < arrivals.recorded.size() ? arrivals.recorded[recorded_].at : Duration::max();
  Arrival arrival{.at = std::min({poisson_, burst_, recorded}), .deadline = scenario_.deadline};
  if (arrival.at >= scenario_.lasts) return std::nullopt;
  if (arrival.at == recorded) {
    arrival.deadline = arrivals.recorded[recorded_++].deadline.value_or(scenario_.deadline);
  } else if (arrival.at == burst_) {
    if (--left_in_burst_ == 0) {
      burst_ += arrivals.burst_every;
      left_in_burst_ = arrivals.burst_size;
    }
  } else {
    draw_poisson();
  }
  if (arrivals.shapes > 1) {
    arrival.shape = static_cast<std::uint32_t>(random_.next() % arrivals.shapes);
  }
  return arrival;
}

}  // namespace gradus::simulate
