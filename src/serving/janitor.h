// Ends models: on a thread of its own, since sessions take their time to go, and what still runs on
// a level must be over before.
#pragma once
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "serving/model.h"

namespace gradus::serving {

class Janitor {
 public:
  /// @param ended called on its thread after each model's end; may be empty
  explicit Janitor(std::function<void()> ended = {});
  /// Waits until every model it was given has ended.
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  /// The model ends here once its last owner, on whatever thread, has let it go.
  std::shared_ptr<Model> adopt(std::unique_ptr<Model> model);

 private:
  void work();

  const std::function<void()> ended_;
  Mutex mutex_;
  CondVar changed_;
  std::size_t living_ GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Model>> dead_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace gradus::serving
