#include "serving/device_group.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "serving/lane.h"

namespace gradus::serving {
namespace {

const runtime::Backend& first_of(const std::vector<std::unique_ptr<runtime::Backend>>& members) {
  for (const auto& member : members) {
    if (member != nullptr) return *member;
  }
  std::abort();  // by contract there is one
}

}  // namespace

DeviceGroup::Roster::Roster(std::size_t devices, int runs_each)
    : runs_each_(runs_each), seats_(devices) {}

std::size_t DeviceGroup::Roster::set_living(std::size_t device, bool living) {
  return set(device, &Seat::living, living);
}

std::size_t DeviceGroup::Roster::set(std::size_t device, bool Seat::*what, bool value) {
  std::size_t left = 0;
  std::shared_ptr<Lane> lane;  // ends outside the lock
  {
    const MutexLock lock(mutex_);
    seats_.at(device).*what = value;
    left = count();
    lane = lane_.lock();
    if (lane != nullptr) lane->allow(runs_of(left));
  }
  freed_.notify_all();
  return left;
}

std::size_t DeviceGroup::Roster::living() const {
  const MutexLock lock(mutex_);
  return count();
}

std::size_t DeviceGroup::Roster::devices() const {
  const MutexLock lock(mutex_);
  return seats_.size();
}

std::optional<std::size_t> DeviceGroup::Roster::lacking(std::size_t from) const {
  const MutexLock lock(mutex_);
  for (std::size_t device = from; device < seats_.size(); ++device) {
    if (!seats_[device].has_level) return device;
  }
  return std::nullopt;
}

void DeviceGroup::Roster::follow(const std::shared_ptr<Lane>& lane) {
  const MutexLock lock(mutex_);
  lane_ = lane;
  lane->allow(runs_of(count()));
}

std::size_t DeviceGroup::Roster::count() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      seats_, [](const Seat& seat) { return seat.has_level && seat.living; }));
}

std::uint32_t DeviceGroup::Roster::runs_of(std::size_t living) const {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, living)) *
         static_cast<std::uint32_t>(runs_each_);
}

std::optional<std::size_t> DeviceGroup::Roster::take(const std::vector<bool>& except) {
  const MutexLock lock(mutex_);
  for (;;) {
    std::optional<std::size_t> chosen;
    bool any = false;
    const std::size_t from = next_++;
    for (std::size_t step = 0; step < seats_.size(); ++step) {
      const std::size_t i = (from + step) % seats_.size();
      const Seat& seat = seats_[i];
      if (!seat.has_level || !seat.living || except[i]) continue;
      any = true;
      if (seat.running >= runs_each_) continue;
      if (!chosen || seat.running < seats_[*chosen].running) chosen = i;
    }
    if (!any) return std::nullopt;
    if (chosen) {
      ++seats_[*chosen].running;
      return chosen;
    }
    freed_.wait(mutex_);
  }
}

void DeviceGroup::Roster::give_back(std::size_t device) {
  {
    const MutexLock lock(mutex_);
    --seats_[device].running;
  }
  freed_.notify_all();
}

DeviceGroup::DeviceGroup(std::shared_ptr<Roster> roster,
                         std::vector<std::unique_ptr<runtime::Backend>> members)
    : roster_(std::move(roster)), members_(std::move(members)), first_(first_of(members_)) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == nullptr) roster_->set(i, &Roster::Seat::has_level, false);
  }
}

std::size_t DeviceGroup::join(std::size_t device, std::unique_ptr<runtime::Backend> member) {
  members_[device] = std::move(member);
  return roster_->set(device, &Roster::Seat::has_level, true);
}

Result<std::vector<Tensor>> DeviceGroup::run(std::span<const TensorView> inputs,
                                             std::span<const std::size_t> outputs,
                                             runtime::Stop* stop) {
  std::vector<bool> gone(members_.size());  // as this run has found
  for (;;) {
    const auto device = roster_->take(gone);
    if (!device) return fail(Code::kNotFound, "none of its devices lives");
    auto result = members_[*device]->run(inputs, outputs, stop);
    roster_->give_back(*device);
    if (result || result.error().code != Code::kNotFound) return result;
    gone[*device] = true;
  }
}

}  // namespace gradus::serving
