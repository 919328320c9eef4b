// What requests of a model look like of late, for probes that are to be like them.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "runtime/backend.h"
#include "tensor/tensor.h"

namespace gradus::serving {

/// The last kMost different ones. Any thread.
class RecentShapes {
 public:
  static constexpr std::size_t kMost = 4;

  void note(const std::vector<NamedView>& inputs);
  /// The signature with the shapes of one of them, in turn; nothing noted: as it is.
  runtime::Signature next(runtime::Signature signature);

 private:
  using Shapes = std::vector<std::pair<std::string, Shape>>;  // by input

  Mutex mutex_;
  std::vector<Shapes> seen_ GUARDED_BY(mutex_);
  std::size_t replaced_ GUARDED_BY(mutex_) = 0;
  std::size_t taken_ GUARDED_BY(mutex_) = 0;
};

}  // namespace gradus::serving
