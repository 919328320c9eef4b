// One level on several devices as one Backend: each run goes to a living device that has the fewest
// under way. A device that is lost takes its share of the lane's runs with it, and nothing else:
// what meets it before its loss is known goes on to another. One that comes later brings its share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/backend.h"

namespace gradus::serving {

class Lane;

class DeviceGroup final : public runtime::Backend {
 public:
  /// Which devices have the level and live, known before any backend exists: a device may be lost
  /// while others load.
  class Roster {
   public:
    /// @param devices 1..256; all have it and live; @param runs_each at once on one device, >= 1
    Roster(std::size_t devices, int runs_each);

    /// How many have it and live afterwards. Any thread.
    std::size_t set_living(std::size_t device, bool living);
    std::size_t living() const;
    std::size_t devices() const;
    /// The first device from `from` on that the level could not be loaded on, so far.
    std::optional<std::size_t> lacking(std::size_t from = 0) const;

    /// From now on the lane runs as many at once as the devices that live may; where none does, as
    /// many as one, so that what waits is sent elsewhere.
    void follow(const std::shared_ptr<Lane>& lane);

    /// Of whoever changes the roster and tells of it, so that the last word is the true one.
    Mutex telling;

   private:
    friend class DeviceGroup;
    struct Seat {
      bool has_level = true;
      bool living = true;
      int running = 0;
    };

    std::size_t set(std::size_t device, bool Seat::*what, bool value);
    std::size_t count() const REQUIRES(mutex_);
    std::uint32_t runs_of(std::size_t living) const;
    /// A living device for a run; nothing: none is left.
    std::optional<std::size_t> take(const std::vector<bool>& except);
    void give_back(std::size_t device);

    const int runs_each_;
    mutable Mutex mutex_;
    std::weak_ptr<Lane> lane_ GUARDED_BY(mutex_);
    CondVar freed_;
    std::size_t next_ GUARDED_BY(mutex_) = 0;  // where to look first, so that equals take turns
    std::vector<Seat> seats_ GUARDED_BY(mutex_);
  };

  /// @param members one for each device of the roster, null where the level could not be loaded; at
  /// least one is not; all of one signature
  DeviceGroup(std::shared_ptr<Roster> roster,
              std::vector<std::unique_ptr<runtime::Backend>> members);

  const runtime::Signature& signature() const override { return first_.signature(); }
  const std::vector<runtime::Placement>& placement() const override { return first_.placement(); }
  const std::shared_ptr<Roster>& roster() const { return roster_; }
  /// The level is loaded on a device that lacked it, which takes runs from now on, unless it was
  /// lost already. Once a device. Any thread.
  /// @param member of the others' signature
  /// @return as Roster::set_living()
  std::size_t join(std::size_t device, std::unique_ptr<runtime::Backend> member);
  using Backend::run;
  /// As Backend::run; waits while every living device has all the runs that it may, which the lane
  /// sees to but for the moment of a loss. kNotFound also: no device lives.
  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override;

 private:
  const std::shared_ptr<Roster> roster_;
  std::vector<std::unique_ptr<runtime::Backend>> members_;  // each written before its device has it
  const runtime::Backend& first_;
};

}  // namespace gradus::serving
