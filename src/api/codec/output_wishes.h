// What a request wants of single outputs beside their form: to lie in its own shared memory, or to
// be the best classes in place of the values. The same over every transport.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "api/codec/shared_tensor.h"
#include "base/result.h"
#include "serving/engine.h"
#include "serving/request.h"

namespace gradus::api {

/// The greatest `classification`.
inline constexpr std::uint64_t kMostClasses = std::numeric_limits<std::uint32_t>::max();

inline constexpr std::string_view kEitherWish =
    "parameters 'classification' and 'shared_memory_region' do not go together";

struct OutputWish {
  std::uint32_t classes = 0;  // > 0: so many of the best classes, not beside a region
  RegionRange place;
};

struct OutputWishes {
  std::vector<OutputWish> named;  // one for each named output; empty: none has one
  std::shared_ptr<const serving::ModelInfo>
      model;  // whose classes they are; null: nobody wants any

  /// Where the output lies in place of the answer; null: it does not.
  const RegionRange* place(std::size_t output) const {
    return output < named.size() && named[output].place.region ? &named[output].place : nullptr;
  }
};

/// Finds out about the model if any output wants classes. Before the request is run; kNotFound,
/// kUnavailable: of the model.
Result<void> look_up_model(const serving::Engine& engine, const serving::Request& request,
                           OutputWishes& wishes);

/// Makes classes of the outputs that want it, and writes those to shared memory that lie there,
/// whose tensors stay for their sizes. Any thread.
/// @param wishes with their model, where that is needed
/// @param response outputs lie in the order of the wishes
/// @return kInvalid names the output: it has no classes, or does not fit its place
Result<void> fulfil(const OutputWishes& wishes, serving::Response& response);

}  // namespace gradus::api
