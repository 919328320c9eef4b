#include "serving/recent_shapes.h"

#include <algorithm>

namespace gradus::serving {

void RecentShapes::note(const std::vector<NamedView>& inputs) {
  const auto same = [&](const Shapes& seen) {
    return std::ranges::equal(seen, inputs, [](const auto& one, const NamedView& input) {
      return one.first == input.name && one.second == input.tensor.shape;
    });
  };
  const MutexLock lock(mutex_);
  if (std::ranges::any_of(seen_, same)) return;
  Shapes shapes;
  for (const NamedView& input : inputs) shapes.emplace_back(input.name, input.tensor.shape);
  if (seen_.size() < kMost) {
    seen_.push_back(std::move(shapes));
  } else {
    seen_[replaced_++ % kMost] = std::move(shapes);
  }
}

runtime::Signature RecentShapes::next(runtime::Signature signature) {
  const MutexLock lock(mutex_);
  if (seen_.empty()) return signature;
  for (const auto& [name, shape] : seen_[taken_++ % seen_.size()]) {
    const auto input = std::ranges::find(signature.inputs, name, &runtime::TensorSpec::name);
    if (input != signature.inputs.end()) input->shape = shape;
  }
  return signature;
}

}  // namespace gradus::serving
