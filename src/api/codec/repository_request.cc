#include "api/codec/repository_request.h"

#include <utility>

#include "api/codec/base64.h"
#include "api/codec/json_body.h"

namespace gradus::api {
namespace {

using ondemand::value;

constexpr std::size_t kMostDepth = 100;

// Calls `take(name, value)` for each of the `parameters`; all else in the body is only checked.
template <class Take>
Result<void> read_parameters(std::span<const std::byte> body, std::size_t readable_after,
                             Take take) {
  if (body.empty()) return {};
  return read_object(
      body, readable_after, "the request", kMostDepth, [&](JsonWalk& walk, ondemand::object root) {
        bool seen = false;
        return walk.each_member(root, [&](std::string_view key, value member) -> Result<void> {
          if (key != "parameters") return walk.skip(member, 1);
          if (auto first = once(seen, key); !first) return first;
          if (walk.null(member)) return {};
          return walk.each_member(
              member, 2, "'parameters'",
              [&](std::string_view name, value parameter) { return take(walk, name, parameter); });
        });
      });
}

std::string parameter_text(std::string_view name) { return "parameter " + quote_name(name); }

}  // namespace

Result<bool> decode_index_request(std::span<const std::byte> body) {
  bool ready = false;
  if (body.empty()) return ready;
  bool seen = false;
  auto read =
      read_object(body, 0, "the request", kMostDepth, [&](JsonWalk& walk, ondemand::object root) {
        return walk.each_member(root, [&](std::string_view key, value member) -> Result<void> {
          if (key != "ready") return walk.skip(member, 1);
          if (auto first = once(seen, key); !first) return first;
          return assign(walk.boolean(member, "'ready'"), ready);
        });
      });
  if (!read) return tl::unexpected(std::move(read.error()));
  return ready;
}

Result<serving::LoadModel> decode_load_request(std::string model, std::span<const std::byte> body,
                                               std::size_t readable_after) {
  serving::LoadModel load;
  load.name = std::move(model);
  const auto take = [&](JsonWalk& walk, std::string_view name, value parameter) -> Result<void> {
    const std::string what = parameter_text(name);
    const std::string_view path = file_parameter(name);
    if (path.empty() && name != "config") return unknown_load_parameter(name);
    if (path.empty() ? load.config.has_value() : load.files.contains(std::string(path))) {
      return refuse(what + " comes twice");
    }
    const auto text = walk.string(parameter, what);
    if (!text) return tl::unexpected(text.error());
    if (path.empty()) {
      load.config = *text;
      return {};
    }
    auto bytes = decode_base64(*text);
    if (!bytes) return refuse(what + " is no base64");
    load.files.emplace(path, std::move(*bytes));
    return {};
  };
  auto read = read_parameters(body, readable_after, take);
  if (!read) return tl::unexpected(std::move(read.error()));
  return load;
}

Result<void> decode_unload_request(std::span<const std::byte> body) {
  bool seen = false;
  return read_parameters(
      body, 0, [&](JsonWalk& walk, std::string_view name, value parameter) -> Result<void> {
        if (name != "unload_dependents") return unknown_unload_parameter(name);
        if (auto first = once(seen, name); !first) return first;
        const auto flag = walk.boolean(parameter, "parameter 'unload_dependents'");
        if (!flag) return tl::unexpected(flag.error());
        return {};
      });
}

Result<void> check_repository(std::string_view name) {
  if (name.empty()) return {};
  return refuse("repository " + quote_name(name) +
                ": repositories have no names here; leave it out, a model is found by its own");
}

std::string_view file_parameter(std::string_view parameter) {
  constexpr std::string_view kPrefix = "file:";
  return parameter.starts_with(kPrefix) ? parameter.substr(kPrefix.size()) : std::string_view();
}

tl::unexpected<Error> unknown_load_parameter(std::string_view name) {
  return refuse("unknown " + parameter_text(name) +
                "; expected 'config' or 'file:PATH', like 'file:1/model.onnx'");
}

tl::unexpected<Error> unknown_unload_parameter(std::string_view name) {
  return refuse("unknown " + parameter_text(name) + "; expected 'unload_dependents'");
}

}  // namespace gradus::api
