#include "api/codec/infer_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "api/codec/input_decoder.h"
#include "api/codec/json_body.h"

namespace gradus::api {
namespace {

using ondemand::value;

// What a decoded request keeps alive: the body while a view points into it, and what was copied.
struct Kept {
  std::shared_ptr<const void> body;
  std::vector<std::shared_ptr<const void>> copies;
};

class Decoder {
 public:
  Decoder(JsonWalk& walk, Body body, std::span<const std::byte> binary, bool has_header,
          const SharedInputs& shared)
      : walk_(walk),
        body_(std::move(body)),
        inputs_(walk, binary, has_header, shared),
        memory_(shared.memory) {}

  Result<DecodedInfer> decode(ondemand::object root) {
    auto read = walk_.each_member(
        root, [&](std::string_view key, value member) { return top_level(key, member); });
    if (!read) return tl::unexpected(std::move(read.error()));
    if (!seen_.inputs) return refuse("'inputs' is missing");
    if (const std::size_t left = inputs_.bytes_left(); left > 0) {
      return refuse(std::to_string(left) +
                    " bytes are left over after the binary data of all inputs");
    }
    serving::Request& request = decoded_.request;
    if (strict_ && request.min_level > 0) {
      return fail(Code::kInvalid, "parameter 'strict' accepts level 0 alone, 'min_level' is " +
                                      std::to_string(request.min_level));
    }
    if (strict_) request.max_level = 0;
    if (request.min_level > request.max_level) {
      return fail(Code::kInvalid, "parameter 'min_level' is " + std::to_string(request.min_level) +
                                      "; expected at most 'max_level', " +
                                      std::to_string(request.max_level));
    }
    settle_forms();
    if (!has_wishes_) decoded_.wishes.named.clear();
    auto kept = std::make_shared<Kept>();
    if (inputs_.views_body()) kept->body = std::move(body_.storage);
    kept->copies = std::move(inputs_).take_copies();
    request.storage = std::move(kept);
    return std::move(decoded_);
  }

 private:
  Result<void> top_level(std::string_view key, value member) {
    if (key == "inputs") {
      if (auto first = once(seen_.inputs, key); !first) return first;
      return walk_.each_element(member, 2, "'inputs'", [&](value element, std::size_t index) {
        auto input = inputs_.read(element, index);
        if (!input) return Result<void>(tl::unexpected(std::move(input.error())));
        decoded_.request.inputs.push_back(std::move(*input));
        return Result<void>();
      });
    }
    if (key == "outputs") {
      if (auto first = once(seen_.outputs, key); !first) return first;
      if (walk_.null(member)) return {};
      return walk_.each_element(member, 2, "'outputs'", [&](value element, std::size_t index) {
        return output(element, index);
      });
    }
    if (key == "id") {
      if (auto first = once(seen_.id, key); !first) return first;
      if (walk_.null(member)) return {};
      return assign(walk_.string(member, "'id'"), decoded_.request.id);
    }
    if (key == "parameters") {
      if (auto first = once(seen_.parameters, key); !first) return first;
      return walk_.each_parameter(member, 2, [&](std::string_view name, value parameter) {
        return request_parameter(name, parameter);
      });
    }
    return walk_.skip(member, 1);
  }

  Result<bool> request_parameter(std::string_view name, value member) {
    serving::Request& request = decoded_.request;
    constexpr std::uint64_t kMostLevel = std::numeric_limits<int>::max();
    if (name == "binary_data_output") {
      return assign_known(walk_.boolean(member, "parameter 'binary_data_output'"), binary_output_);
    }
    if (name == "strict") {
      return assign_known(walk_.boolean(member, "parameter 'strict'"), strict_);
    }
    if (name == "min_level") {
      return assign_known(walk_.integer(member, "parameter 'min_level'", 0, kMostLevel),
                          request.min_level);
    }
    if (name == "max_level") {
      return assign_known(walk_.integer(member, "parameter 'max_level'", 0, kMostLevel),
                          request.max_level);
    }
    if (name == "timeout") return assign_known(timeout(member), request.timeout);
    if (name == "priority") {
      return assign_known(walk_.integer(member, "parameter 'priority'", 0, kMostPriority),
                          request.priority);
    }
    if (name == "tier") return assign_known(tier(member), request.tier);
    return false;
  }

  Result<config::Tier> tier(value member) {
    const auto text = walk_.string(member, "parameter 'tier'");
    if (!text) return tl::unexpected(text.error());
    const auto named = config::tier_named(*text);
    if (!named) return walk_.unexpected_value(member, "parameter 'tier'", kTierNames);
    return *named;
  }

  // Microseconds, as a number or, since some clients' parameters are all text, as digits; 0: none.
  Result<std::optional<Duration>> timeout(value member) {
    constexpr std::string_view kWhat = "parameter 'timeout'";
    std::string_view digits = member.raw_json_token();
    std::uint64_t us = 0;
    if (digits.starts_with('"')) {
      const auto text = walk_.string(member, kWhat);
      if (!text) return tl::unexpected(text.error());
      const char* const end = text->data() + text->size();
      const auto read = std::from_chars(text->data(), end, us);
      if (read.ec != std::errc() || read.ptr != end || us > kMostTimeoutUs) {
        return walk_.unexpected_value(
            member, kWhat, "microseconds in [0, " + std::to_string(kMostTimeoutUs) + "]");
      }
    } else {
      auto number = walk_.integer(member, kWhat, 0, kMostTimeoutUs);
      if (!number) return tl::unexpected(std::move(number.error()));
      us = *number;
    }
    return us == 0 ? std::nullopt : std::optional<Duration>(std::chrono::microseconds(us));
  }

  Result<void> output(value element, std::size_t index) {
    std::string name;
    bool named = false, parametrised = false;
    std::optional<bool> binary;
    OutputWish wish;
    RegionName place;
    auto read = walk_.each_member(
        element, 3, "it", [&](std::string_view key, value member) -> Result<void> {
          if (key == "name") {
            if (auto first = once(named, key); !first) return first;
            return assign(walk_.string(member, "'name'"), name);
          }
          if (key != "parameters") return walk_.skip(member, 3);
          if (auto first = once(parametrised, key); !first) return first;
          return walk_.each_parameter(member, 4, [&](std::string_view parameter, value wanted) {
            const auto known = shared_parameter(walk_, parameter, wanted, place);
            if (!known || *known) return known;
            return output_parameter(parameter, wanted, binary, wish.classes);
          });
        });
    if (read) read = assign(find_range(memory_, place), wish.place);
    if (read && wish.place.region && wish.classes > 0) read = refuse(std::string(kEitherWish));
    if (read && name.empty()) read = refuse(named ? "'name' is empty" : "'name' is missing");
    if (read && !output_names_.insert(name).second) read = refuse("the name comes twice");
    if (!read) {
      const std::string label =
          name.empty() ? "outputs[" + std::to_string(index) + "]" : "output " + quote_name(name);
      return fail(read.error().code, label + ": " + read.error().message);
    }
    decoded_.request.outputs.push_back(std::move(name));
    output_binary_.push_back(binary);
    has_wishes_ = has_wishes_ || wish.place.region || wish.classes > 0;
    decoded_.wishes.named.push_back(std::move(wish));
    return {};
  }

  Result<bool> output_parameter(std::string_view name, value member, std::optional<bool>& binary,
                                std::uint32_t& classes) {
    if (name == "classification") {
      return assign_known(walk_.integer(member, "parameter 'classification'", 0, kMostClasses),
                          classes);
    }
    if (name != "binary_data") return false;
    return assign_known(walk_.boolean(member, "parameter 'binary_data'"), binary);
  }

  // An output's own wish goes before the request's, which may come later in the text.
  void settle_forms() {
    const auto form = [](bool binary) { return binary ? Form::kBinary : Form::kJson; };
    decoded_.forms.rest = form(binary_output_);
    for (const auto& binary : output_binary_) {
      decoded_.forms.named.push_back(form(binary.value_or(binary_output_)));
    }
  }

  JsonWalk& walk_;
  Body body_;
  InputDecoder inputs_;
  const SharedMemory* const memory_;
  DecodedInfer decoded_;
  std::set<std::string> output_names_;
  std::vector<std::optional<bool>> output_binary_;  // one for each named output
  bool binary_output_ = false;
  bool strict_ = false;
  bool has_wishes_ = false;
  struct {
    bool inputs = false, outputs = false, id = false, parameters = false;
  } seen_;
};

}  // namespace

Result<DecodedInfer> decode_infer(std::string_view model, std::string_view version, Body body,
                                  std::optional<std::size_t> json_length,
                                  const DecodeLimits& limits) {
  static_assert(kBodyPadding >= simdjson::SIMDJSON_PADDING);
  if (json_length && *json_length > body.bytes.size()) {
    return fail(Code::kInvalid, "Inference-Header-Content-Length is " +
                                    std::to_string(*json_length) + ", but the body has " +
                                    std::to_string(body.bytes.size()) + " bytes");
  }
  const std::size_t length = json_length.value_or(body.bytes.size());
  const auto binary = body.bytes.subspan(length);
  DecodedInfer decoded;
  // `body` keeps the text until all of it is read.
  const auto decode = [&](JsonWalk& walk, ondemand::object root) {
    Decoder decoder(walk, body, binary, json_length.has_value(), limits.shared);
    return assign(decoder.decode(root), decoded);
  };
  auto read = read_object(body.bytes.first(length), binary.size() + body.readable_after,
                          "the request", limits.max_json_depth, decode);
  if (!read) return tl::unexpected(std::move(read.error()));
  decoded.request.model = model;
  decoded.request.version = version;
  return decoded;
}

std::string request_id(const Body& body, std::optional<std::size_t> json_length,
                       const DecodeLimits& limits) {
  const std::size_t length = std::min(json_length.value_or(body.bytes.size()), body.bytes.size());
  std::string id;
  const auto look = [&id](JsonWalk& walk, ondemand::object root) {
    return walk.each_member(root, [&](std::string_view key, value member) {
      return key == "id" ? assign(walk.string(member, "'id'"), id) : walk.skip(member, 1);
    });
  };
  // As far as the text can be read: what is wrong with it has been said.
  static_cast<void>(read_object(body.bytes.first(length),
                                body.bytes.size() - length + body.readable_after, "the request",
                                limits.max_json_depth, look));
  return id;
}

}  // namespace gradus::api
