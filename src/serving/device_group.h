// One level on several devices as one Backend: each run goes to a living device that has the fewest
// under way. A device that is lost takes its share of the capacity with it, and nothing else.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/backend.h"

namespace gradus::serving {

class DeviceGroup final : public runtime::Backend {
 public:
  /// Which devices live, known before any backend exists: a device may be lost while others load.
  class Roster {
   public:
    /// @param devices 1..256; all live; @param runs_each at once on one device, >= 1
    Roster(std::size_t devices, int runs_each);

    /// How many live afterwards. Any thread.
    std::size_t set_living(std::size_t device, bool living);
    std::size_t living() const;

   private:
    friend class DeviceGroup;
    struct Seat {
      bool living = true;
      int running = 0;
    };

    const int runs_each_;
    mutable Mutex mutex_;
    CondVar freed_;
    std::size_t next_ GUARDED_BY(mutex_) = 0;  // where to look first, so that equals take turns
    std::vector<Seat> seats_ GUARDED_BY(mutex_);
  };

  /// @param members one for each device of the roster, null where the level could not be loaded; at
  /// least one is not; all of one signature
  DeviceGroup(std::shared_ptr<Roster> roster,
              std::vector<std::unique_ptr<runtime::Backend>> members);

  const runtime::Signature& signature() const override { return first().signature(); }
  const std::vector<runtime::Placement>& placement() const override { return first().placement(); }
  using Backend::run;
  /// As Backend::run; waits while every living device has all the runs that it may.
  /// kUnavailable also: no device lives.
  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override;

 private:
  const runtime::Backend& first() const;

  const std::shared_ptr<Roster> roster_;
  const std::vector<std::unique_ptr<runtime::Backend>> members_;
};

}  // namespace gradus::serving
