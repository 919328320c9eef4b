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
    : runs_each_(runs_each), places_(devices) {}

std::size_t DeviceGroup::Roster::set_living(std::size_t device, bool living) {
  return set(device, &Place::living, living);
}

bool DeviceGroup::Roster::Place::left_alone() const { return failures >= kLeftAloneAfter; }

std::size_t DeviceGroup::Roster::set(std::size_t device, bool Place::*what, bool value) {
  std::size_t left = 0;
  std::shared_ptr<Lane> lane;  // ends outside the lock
  {
    const MutexLock lock(mutex_);
    Place& place = places_.at(device);
    place.*what = value;
    if (value) {
      ++place.life;
      place.failures = 0;
    }
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
  return places_.size();
}

std::optional<std::size_t> DeviceGroup::Roster::lacking(std::size_t from) const {
  const MutexLock lock(mutex_);
  for (std::size_t device = from; device < places_.size(); ++device) {
    if (!places_[device].has_level) return device;
  }
  return std::nullopt;
}

std::vector<DeviceGroup::Roster::LeftAlone> DeviceGroup::Roster::left_alone() const {
  const MutexLock lock(mutex_);
  std::vector<LeftAlone> all;
  for (std::size_t device = 0; device < places_.size(); ++device) {
    const Place& place = places_[device];
    if (place.runs() && place.left_alone()) all.push_back({device, place.error});
  }
  return all;
}

bool DeviceGroup::Roster::any_left_alone() const {
  const MutexLock lock(mutex_);
  return count_serving() < count();
}

void DeviceGroup::Roster::follow(const std::shared_ptr<Lane>& lane) {
  const MutexLock lock(mutex_);
  lane_ = lane;
  update_lane();
}

std::size_t DeviceGroup::Roster::count() const {
  return static_cast<std::size_t>(std::ranges::count_if(places_, &Place::runs));
}

std::size_t DeviceGroup::Roster::count_serving() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      places_, [](const Place& place) { return place.runs() && !place.left_alone(); }));
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

bool DeviceGroup::Roster::forget_failures(std::size_t device, std::shared_ptr<Lane>& lane) {
  const bool left_alone = places_[device].left_alone();
  places_[device].failures = 0;
  if (left_alone) lane = update_lane();
  return left_alone;
}

bool DeviceGroup::Roster::note_success(std::size_t device) {
  std::shared_ptr<Lane> lane;  // ends outside the lock
  bool again = false;
  {
    const MutexLock lock(mutex_);
    again = forget_failures(device, lane);
  }
  if (again) freed_.notify_all();
  return again;
}

bool DeviceGroup::Roster::note_failure(const Turn& turn, const std::string& error) {
  std::shared_ptr<Lane> lane;  // ends outside the lock
  {
    const MutexLock lock(mutex_);
    Place& place = places_[turn.device];
    if (place.life != turn.life) return false;
    place.error = error;
    if (++place.failures != kLeftAloneAfter) return false;
    lane = update_lane();
  }
  freed_.notify_all();  // who waits for it may have to take another one that is left alone
  return true;
}

std::optional<DeviceGroup::Roster::Turn> DeviceGroup::Roster::take(
    const std::vector<bool>& except) {
  const MutexLock lock(mutex_);
  for (;;) {
    bool any = false;
    bool any_serves = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!places_[i].runs() || except[i]) continue;
      any = true;
      if (!places_[i].left_alone()) any_serves = true;
    }
    if (!any) return std::nullopt;
    std::optional<std::size_t> chosen;
    const std::size_t from = next_++;
    for (std::size_t step = 0; step < places_.size(); ++step) {
      const std::size_t i = (from + step) % places_.size();
      const Place& place = places_[i];
      if (!place.runs() || except[i] || (any_serves && place.left_alone())) continue;
      if (place.running >= runs_each_) continue;
      if (!chosen || place.running < places_[*chosen].running) chosen = i;
    }
    if (chosen) {
      ++places_[*chosen].running;
      return Turn{*chosen, places_[*chosen].life};
    }
    freed_.wait(mutex_);
  }
}

bool DeviceGroup::Roster::give_back(const Turn& turn, bool succeeded) {
  std::shared_ptr<Lane> lane;  // ends outside the lock
  bool again = false;
  {
    const MutexLock lock(mutex_);
    --places_[turn.device].running;
    if (succeeded) again = forget_failures(turn.device, lane);
  }
  freed_.notify_all();
  return again;
}

DeviceGroup::DeviceGroup(std::shared_ptr<Roster> roster,
                         std::vector<std::unique_ptr<runtime::Backend>> members, Told told)
    : roster_(std::move(roster)),
      members_(std::move(members)),
      first_(first_of(members_)),
      told_(std::move(told)) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == nullptr) roster_->set(i, &Roster::Place::has_level, false);
  }
}

std::size_t DeviceGroup::join(std::size_t device, std::unique_ptr<runtime::Backend> member) {
  members_[device] = std::move(member);
  return roster_->set(device, &Roster::Place::has_level, true);
}

Result<std::vector<Tensor>> DeviceGroup::run(const runtime::RunInputs& inputs,
                                             std::span<const std::size_t> outputs,
                                             runtime::Stop* stop) {
  std::vector<bool> tried(members_.size());
  std::vector<std::pair<Roster::Turn, std::string>> failures;
  while (const auto turn = roster_->take(tried)) {
    auto result = members_[turn->device]->run(inputs, outputs, stop);
    if (roster_->give_back(*turn, result.has_value())) tell(turn->device, "");
    if (result) {
      for (const auto& [failed, error] : failures) {
        if (roster_->note_failure(failed, error)) tell(failed.device, error);
      }
      return result;
    }
    if (may_run_elsewhere(result.error())) {
      failures.emplace_back(*turn, std::move(result.error().message));
    } else if (result.error().code != Code::kNotFound) {
      return result;
    }
    if (stop != nullptr && stop->requested()) break;  // nobody waits for what another would answer
    tried[turn->device] = true;
  }
  if (failures.empty()) return fail(Code::kNotFound, "none of its devices lives");
  return fail(Code::kUnavailable, std::move(failures.back().second));
}

void DeviceGroup::tell(std::size_t device, const std::string& why) const {
  if (told_) told_(device, why);
}

void DeviceGroup::try_left_alone(const runtime::RunInputs& inputs,
                                 std::span<const std::size_t> outputs) {
  for (const auto& [device, error] : roster_->left_alone()) {
    const bool succeeded = members_[device]->run(inputs, outputs).has_value();
    if (succeeded && roster_->note_success(device)) tell(device, "");
  }
}

}  // namespace gradus::serving
