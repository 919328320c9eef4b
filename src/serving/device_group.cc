#include "serving/device_group.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

namespace gradus::serving {

DeviceGroup::Roster::Roster(std::size_t devices, int runs_each)
    : runs_each_(runs_each), seats_(devices) {}

std::size_t DeviceGroup::Roster::set_living(std::size_t device, bool living) {
  std::size_t left = 0;
  {
    const MutexLock lock(mutex_);
    seats_.at(device).living = living;
    left = static_cast<std::size_t>(std::ranges::count_if(seats_, &Seat::living));
  }
  freed_.notify_all();
  return left;
}

std::size_t DeviceGroup::Roster::living() const {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(seats_, &Seat::living));
}

DeviceGroup::DeviceGroup(std::shared_ptr<Roster> roster,
                         std::vector<std::unique_ptr<runtime::Backend>> members)
    : roster_(std::move(roster)), members_(std::move(members)) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == nullptr) roster_->set_living(i, false);
  }
}

const runtime::Backend& DeviceGroup::first() const {
  for (const auto& member : members_) {
    if (member != nullptr) return *member;
  }
  std::abort();  // by contract there is one
}

Result<std::vector<Tensor>> DeviceGroup::run(std::span<const TensorView> inputs,
                                             std::span<const std::size_t> outputs,
                                             runtime::Stop* stop) {
  Roster& roster = *roster_;
  std::optional<std::size_t> chosen;
  {
    const MutexLock lock(roster.mutex_);
    for (;;) {
      bool any = false;
      const std::size_t from = roster.next_++;
      for (std::size_t step = 0; step < members_.size(); ++step) {
        const std::size_t i = (from + step) % members_.size();
        const Roster::Seat& seat = roster.seats_[i];
        if (!seat.living) continue;
        any = true;
        if (seat.running >= roster.runs_each_) continue;
        if (!chosen || seat.running < roster.seats_[*chosen].running) chosen = i;
      }
      if (chosen) break;
      if (!any) return fail(Code::kUnavailable, "none of its devices lives");
      roster.freed_.wait(roster.mutex_);
    }
    ++roster.seats_[*chosen].running;
  }
  auto result = members_[*chosen]->run(inputs, outputs, stop);
  {
    const MutexLock lock(roster.mutex_);
    --roster.seats_[*chosen].running;
  }
  roster.freed_.notify_one();
  return result;
}

}  // namespace gradus::serving
