#include "serving/device_group.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "runtime/fault_class.h"
#include "serving/lane.h"

namespace gradus::serving {
namespace {

constexpr int kLeftAloneAfter = 3;  // failures in a row

const runtime::Backend& first_of(const std::vector<std::unique_ptr<runtime::Backend>>& members) {
  for (const auto& member : members) {
    if (member != nullptr) return *member;
  }
  std::abort();  // by contract there is one
}

// What has no memory here would want as much there.
bool may_run_elsewhere(const Error& error) {
  return error.code == Code::kUnavailable &&
         runtime::fault_class(error) != runtime::FaultClass::kOutOfMemory;
}

}  // namespace

DeviceGroup::Roster::Roster(std::size_t devices, int runs_each)
    : runs_each_(runs_each), seats_(devices) {}

std::size_t DeviceGroup::Roster::set_living(std::size_t device, bool living) {
  return set(device, &Seat::living, living);
}

bool DeviceGroup::Roster::Seat::fails() const { return outdone >= kLeftAloneAfter; }

std::size_t DeviceGroup::Roster::set(std::size_t device, bool Seat::*what, bool value) {
  std::size_t left = 0;
  std::shared_ptr<Lane> lane;  // ends outside the lock
  {
    const MutexLock lock(mutex_);
    Seat& seat = seats_.at(device);
    seat.*what = value;
    if (value) seat.outdone = 0;
    left = count();
    lane = update_lane();
  }
  freed_.notify_all();
  return left;
}

std::size_t DeviceGroup::Roster::living() const {
  const MutexLock lock(mutex_);
  return count();
}

std::size_t DeviceGroup::Roster::serving() const {
  const MutexLock lock(mutex_);
  return count_serving();
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

std::vector<DeviceGroup::Roster::Failing> DeviceGroup::Roster::failing() const {
  const MutexLock lock(mutex_);
  std::vector<Failing> failing;
  for (std::size_t device = 0; device < seats_.size(); ++device) {
    const Seat& seat = seats_[device];
    if (seat.runs() && seat.fails()) failing.push_back({device, seat.error});
  }
  return failing;
}

void DeviceGroup::Roster::follow(const std::shared_ptr<Lane>& lane) {
  const MutexLock lock(mutex_);
  lane_ = lane;
  update_lane();
}

std::size_t DeviceGroup::Roster::count() const {
  return static_cast<std::size_t>(std::ranges::count_if(seats_, &Seat::runs));
}

std::size_t DeviceGroup::Roster::count_serving() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(seats_, [](const Seat& seat) { return seat.runs() && !seat.fails(); }));
}

std::uint32_t DeviceGroup::Roster::allowed() const {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, count_serving())) *
         static_cast<std::uint32_t>(runs_each_);
}

std::shared_ptr<Lane> DeviceGroup::Roster::update_lane() {
  auto lane = lane_.lock();
  if (lane != nullptr) lane->allow(allowed());
  return lane;
}

bool DeviceGroup::Roster::outdo(std::size_t device, std::string error) {
  std::shared_ptr<Lane> lane;  // ends outside the lock
  const MutexLock lock(mutex_);
  Seat& seat = seats_[device];
  seat.error = std::move(error);
  if (++seat.outdone != kLeftAloneAfter) return false;
  lane = update_lane();
  return true;
}

bool DeviceGroup::Roster::prove(std::size_t device) {
  std::shared_ptr<Lane> lane;  // ends outside the lock
  const MutexLock lock(mutex_);
  Seat& seat = seats_[device];
  const bool failed = seat.fails();
  seat.outdone = 0;
  if (failed) lane = update_lane();
  return failed;
}

std::optional<std::size_t> DeviceGroup::Roster::take(const std::vector<bool>& except) {
  const MutexLock lock(mutex_);
  for (;;) {
    bool any = false;
    bool any_serves = false;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (!seats_[i].runs() || except[i]) continue;
      any = true;
      if (!seats_[i].fails()) any_serves = true;
    }
    if (!any) return std::nullopt;
    std::optional<std::size_t> chosen;
    const std::size_t from = next_++;
    for (std::size_t step = 0; step < seats_.size(); ++step) {
      const std::size_t i = (from + step) % seats_.size();
      const Seat& seat = seats_[i];
      if (!seat.runs() || except[i] || (any_serves && seat.fails())) continue;
      if (seat.running >= runs_each_) continue;
      if (!chosen || seat.running < seats_[*chosen].running) chosen = i;
    }
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
                         std::vector<std::unique_ptr<runtime::Backend>> members, Told told)
    : roster_(std::move(roster)),
      members_(std::move(members)),
      first_(first_of(members_)),
      told_(std::move(told)) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == nullptr) roster_->set(i, &Roster::Seat::has_level, false);
  }
}

std::size_t DeviceGroup::join(std::size_t device, std::unique_ptr<runtime::Backend> member) {
  members_[device] = std::move(member);
  return roster_->set(device, &Roster::Seat::has_level, true);
}

Result<std::vector<Tensor>> DeviceGroup::run(const runtime::RunInputs& inputs,
                                             std::span<const std::size_t> outputs,
                                             runtime::Stop* stop) {
  std::vector<bool> tried(members_.size());
  std::vector<Roster::Failing> failures;
  for (;;) {
    const auto device = roster_->take(tried);
    if (!device) break;
    auto result = members_[*device]->run(inputs, outputs, stop);
    roster_->give_back(*device);
    if (result) {
      prove(*device);
      for (Roster::Failing& failure : failures) {
        if (roster_->outdo(failure.device, failure.error) && told_) {
          told_(failure.device, failure.error);
        }
      }
      return result;
    }
    if (may_run_elsewhere(result.error())) {
      failures.push_back({*device, std::move(result.error().message)});
    } else if (result.error().code != Code::kNotFound) {
      return result;
    }
    tried[*device] = true;
  }
  if (failures.empty()) return fail(Code::kNotFound, "none of its devices lives");
  return fail(Code::kUnavailable, std::move(failures.back().error));
}

void DeviceGroup::prove(std::size_t device) {
  if (roster_->prove(device) && told_) told_(device, "");
}

void DeviceGroup::try_failing(const runtime::RunInputs& inputs,
                              std::span<const std::size_t> outputs) {
  for (const Roster::Failing& failing : roster_->failing()) {
    if (members_[failing.device]->run(inputs, outputs)) prove(failing.device);
  }
}

}  // namespace gradus::serving
