// One level on several devices as one Backend: each run goes to a living device that has the fewest
// under way. A device that is lost takes its share of the lane's runs with it, and nothing else:
// what meets it before its loss is known goes on to another. One that comes later brings its share.
// What fails on one device, by no fault of the request's, is run again on another; one that has
// failed several times what another one could do is left alone, as if lost, until a run of a probe
// succeeds on it or it has a fresh worker.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
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
    /// Those of them that are not left alone.
    std::size_t serving() const;
    std::size_t devices() const;
    /// The first device from `from` on that the level could not be loaded on, so far.
    std::optional<std::size_t> lacking(std::size_t from = 0) const;
    struct LeftAlone {
      std::size_t device;
      std::string error;  // its last one
    };
    /// The living devices that are left alone.
    std::vector<LeftAlone> left_alone() const;
    bool any_left_alone() const;  // costs no text

    /// From now on the lane runs as many at once as the devices that live may; where none does, as
    /// many as one, so that what waits is sent elsewhere.
    void follow(const std::shared_ptr<Lane>& lane);

    std::uint64_t load = 0;  // LevelSlot::begin_load()
    /// Of whoever changes the roster and tells of it, so that the last word is the true one.
    Mutex telling;

   private:
    friend class DeviceGroup;
    struct Place {
      bool has_level = true;
      bool living = true;
      std::uint64_t life = 0;  // a number of its own for each fresh worker
      int running = 0;
      int failures = 0;   // in a row, each of which another device made up for
      std::string error;  // of the last of them

      bool runs() const { return has_level && living; }
      bool left_alone() const;
    };
    /// Of one run.
    struct Turn {
      std::size_t device;
      std::uint64_t life;
    };

    std::size_t set(std::size_t device, bool Place::*what, bool value);
    std::size_t count() const REQUIRES(mutex_);
    std::size_t count_serving() const REQUIRES(mutex_);
    std::uint32_t allowed() const REQUIRES(mutex_);
    /// A living device for a run, one that is left alone only where there is no other; nothing:
    /// none is left.
    std::optional<Turn> take(const std::vector<bool>& except);
    /// @return it is left alone no more, for the run succeeded
    bool give_back(const Turn& turn, bool succeeded);
    /// As give_back() of a run that succeeded, of one that took no turn.
    bool note_success(std::size_t device);
    /// Another device did what it failed to. @return from now on it is left alone
    bool note_failure(const Turn& turn, const std::string& error);
    /// @return it was left alone; the lane must end outside the lock
    bool forget_failures(std::size_t device, std::shared_ptr<Lane>& lane) REQUIRES(mutex_);
    /// @return the lane, which must end outside the lock
    std::shared_ptr<Lane> update_lane() REQUIRES(mutex_);

    const int runs_each_;
    mutable Mutex mutex_;
    std::weak_ptr<Lane> lane_ GUARDED_BY(mutex_);
    CondVar freed_;
    std::size_t next_ GUARDED_BY(mutex_) = 0;  // where to look first, so that equals take turns
    std::vector<Place> places_ GUARDED_BY(mutex_);
  };

  /// Hears of a device that is left alone from now on, and why; without a reason: no more.
  using Told = std::function<void(std::size_t device, const std::string& why)>;

  /// @param members one for each device of the roster, null where the level could not be loaded; at
  /// least one is not; all of one signature
  /// @param told from any thread, without a lock held; may be empty
  DeviceGroup(std::shared_ptr<Roster> roster,
              std::vector<std::unique_ptr<runtime::Backend>> members, Told told = {});

  const runtime::Signature& signature() const override { return first_.signature(); }
  const std::vector<runtime::Placement>& placement() const override { return first_.placement(); }
  const std::shared_ptr<Roster>& roster() const { return roster_; }
  /// The level is loaded on a device that lacked it, which takes runs from now on, unless it was
  /// lost already. Once a device. Any thread.
  /// @param member of the others' signature
  /// @return as Roster::set_living()
  std::size_t join(std::size_t device, std::unique_ptr<runtime::Backend> member);
  /// Runs once on each device that is left alone, if any is.
  void try_left_alone(const runtime::RunInputs& inputs, std::span<const std::size_t> outputs);
  using Backend::run;
  /// As Backend::run, where it fails with kUnavailable once on each device before that is said,
  /// want of memory apart, or until it is stopped; waits while every living device has all the
  /// runs that it may, which the lane sees to but for the moment of a loss. kNotFound also: no
  /// device lives.
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override;

 private:
  void tell(std::size_t device, const std::string& why) const;

  const std::shared_ptr<Roster> roster_;
  std::vector<std::unique_ptr<runtime::Backend>> members_;  // each written before its device has it
  const runtime::Backend& first_;
  const Told told_;
};

}  // namespace gradus::serving
