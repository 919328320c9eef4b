#include "api/codec/output_wishes.h"

#include <algorithm>
#include <string>

#include "api/codec/classification.h"

namespace gradus::api {
namespace {

tl::unexpected<Error> refuse(std::string text) { return fail(Code::kInvalid, std::move(text)); }

Result<void> fulfil_one(const OutputWish& wish, const serving::ModelInfo* model,
                        NamedTensor& output) {
  if (wish.classes > 0) {
    const auto labels = model->labels.find(output.name);
    auto classes = best_classes(
        output.tensor, wish.classes, model->batched,
        labels != model->labels.end() ? std::span(labels->second) : std::span<const std::string>());
    if (!classes) return tl::unexpected(std::move(classes.error()));
    output.tensor = std::move(*classes);
  }
  if (!wish.place.region) return {};
  if (output.tensor.data.size() > wish.place.byte_size) {
    return refuse("it has " + std::to_string(output.tensor.data.size()) +
                  " bytes, parameter 'shared_memory_byte_size' leaves room for " +
                  std::to_string(wish.place.byte_size));
  }
  return wish.place.region->write(wish.place.offset, output.tensor.data);
}

}  // namespace

Result<void> look_up_model(const serving::Engine& engine, const serving::Request& request,
                           OutputWishes& wishes) {
  const bool needed =
      std::ranges::any_of(wishes.named, [](const OutputWish& wish) { return wish.classes > 0; });
  if (!needed) return {};
  auto info = engine.model_info(request.model, request.version);
  if (!info) return tl::unexpected(std::move(info.error()));
  wishes.model = std::make_shared<const serving::ModelInfo>(std::move(*info));
  return {};
}

Result<void> fulfil(const OutputWishes& wishes, serving::Response& response) {
  const std::size_t count = std::min(wishes.named.size(), response.outputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    NamedTensor& output = response.outputs[i];
    if (auto done = fulfil_one(wishes.named[i], wishes.model.get(), output); !done) {
      return fail(done.error().code, "output '" + output.name + "': " + done.error().message);
    }
  }
  return {};
}

}  // namespace gradus::api
