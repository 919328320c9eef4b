// Listens and accepts in gRPC's place. gRPC 1.51 counts no connections, and stops listening for
// good once accept finds no file descriptor; this refuses what is too many, and waits for
// descriptors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/fd.h"

namespace gradus::api {

class ConnectionGate {
 public:
  /// Takes the descriptor over, and closes it sooner or later. Called from the gate's thread.
  using Admit = std::function<void(int listener, int connection)>;

  /// @param most connections open at once, >= 1; one more is closed without a word, which gRPC's
  ///   clients take for UNAVAILABLE
  /// @param clock borrowed
  ConnectionGate(std::size_t most, Admit admit, const Clock& clock);
  ~ConnectionGate();  // stop()
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  /// Binds and listens, so that clients may connect; they wait until open() is called. Once.
  /// @param port 0: any free one
  /// @return the port; kUnavailable: address or port can't be had
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);

  /// Begins to admit.
  void open();

  /// Closes the port; admitted connections stay. One thread.
  void stop();

 private:
  // Which socket a descriptor was: its number may be another file's by now.
  struct Admitted {
    int descriptor;
    std::uint64_t inode;
  };

  void accept_until_stopped();
  bool accept_waiting();
  bool has_room();
  void tell_of_refusal();

  const std::size_t most_;
  const Admit admit_;
  const Clock& clock_;
  worker::Fd listener_;
  worker::Fd stopped_;  // an eventfd
  std::vector<Admitted>
      admitted_;          // of the thread, at most `most_`; closed ones leave when it is full
  TimePoint next_log_{};  // of the thread
  std::jthread thread_;
};

}  // namespace gradus::api
