#include "batch/batchable.h"

#include <algorithm>
#include <cstdint>

namespace gradus::batch {
namespace {

std::string named(const char* kind, const Port& port) {
  return std::string(kind) + " '" + port.name + "'";
}

std::optional<std::string> why_not(const char* kind, const std::vector<Port>& ports) {
  for (const Port& port : ports) {
    if (port.shape.empty()) return named(kind, port) + " is a scalar";
    if (port.shape[0] != -1) {
      return named(kind, port) + " has a fixed first dimension " + std::to_string(port.shape[0]);
    }
  }
  return std::nullopt;
}

// Mixes well enough that small numbers, as dimensions are, do not meet by chance.
void mix(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 32;
}

}  // namespace

std::optional<std::string> why_not_batchable(const Model& model) {
  if (model.inputs.empty()) return "it has no inputs";
  if (const auto why = why_not("input", model.inputs)) return why;
  return why_not("output", model.outputs);
}

std::optional<std::string> why_outputs_do_not_follow(const Model& model, const Observed& one,
                                                     const Observed& other) {
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    for (const Observed* run : {&one, &other}) {
      const Shape& shape = run->outputs[i];
      if (shape.empty() || shape[0] != run->size) {
        return named("output", model.outputs[i]) + " has shape " + shape_text(shape) +
               " for a batch of " + std::to_string(run->size);
      }
    }
    const Shape& a = one.outputs[i];
    const Shape& b = other.outputs[i];
    if (!std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end())) {
      return named("output", model.outputs[i]) + " has shape " + shape_text(a) +
             " for a batch of " + std::to_string(one.size) + " and " + shape_text(b) + " for " +
             std::to_string(other.size);
    }
  }
  return std::nullopt;
}

Fit fit(const Padding& padding, std::span<const TensorView> inputs,
        std::span<const std::size_t> outputs, std::span<const std::size_t> optional) {
  Fit alone;
  if (inputs.empty() || inputs[0].shape.empty()) return alone;
  const std::int64_t samples = inputs[0].shape[0];
  if (samples < 1 || samples > UINT32_MAX) return alone;
  for (const TensorView& input : inputs) {
    if (input.shape.empty() || input.shape[0] != samples) return alone;
  }
  for (const TensorView& input : inputs) {  // what has no elements may claim any number of samples
    if (std::ranges::find(input.shape, 0) != input.shape.end()) return alone;
  }
  alone.samples = static_cast<std::uint32_t>(samples);

  Fit fit = alone;
  mix(fit.group, outputs.size());
  for (const std::size_t output : outputs) mix(fit.group, output);
  mix(fit.group, optional.size());
  for (const std::size_t input : optional) mix(fit.group, input);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = inputs[i].shape;
    const Pad* pad = padding.pad(i);
    mix(fit.group, shape.size());
    for (std::size_t dim = 1; dim < shape.size(); ++dim) {
      if (pad == nullptr || dim != pad->dim) {
        mix(fit.group, static_cast<std::uint64_t>(shape[dim]));
      } else if (fit.length != 0 && fit.length != shape[dim]) {
        return alone;
      } else {
        fit.length = shape[dim];
      }
    }
  }
  if (fit.group == 0) fit.group = 1;
  return fit;
}

}  // namespace gradus::batch
