#include "api/http/repository_routes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "api/codec/metadata.h"
#include "api/codec/repository_request.h"
#include "api/codec/statistics_json.h"
#include "api/http/answers.h"

namespace gradus::api {
namespace {

using serving::Engine;

constexpr std::size_t kHeavy = 64 << 10;  // bytes of a load, of which files are the most

HttpResponse index(const Engine& engine, const PathNames& names, const HttpRequest& request) {
  if (auto here = check_repository(names.repository); !here) return refusal(here.error());
  const auto only_ready = decode_index_request(request.body);
  if (!only_ready) return refusal(only_ready.error());
  auto entries = engine.index();
  if (*only_ready) {
    std::erase_if(entries, [](const serving::IndexEntry& entry) {
      return entry.state != serving::VersionState::kReady;
    });
  }
  return json_answer(index_json(entries));
}

HttpResponse config(const Engine& engine, const PathNames& names) {
  return json_or_refusal(engine.config_json(names.model, names.version));
}

HttpResponse statistics(const Engine& engine, const PathNames& names) {
  const auto models = engine.statistics(names.model, names.version);
  return models ? json_answer(statistics_json(*models)) : refusal(models.error());
}

// Triton answers what has worked with nothing.
serving::Managed answer_of(Reply reply) {
  return [reply = std::move(reply)](const Result<void>& ended) {
    reply(ended ? json_answer("") : refusal(ended.error()));
  };
}

void decode_and_load(Engine& engine, const std::string& model, std::span<const std::byte> body,
                     std::size_t readable_after, Reply reply) {
  auto load = decode_load_request(model, body, readable_after);
  if (!load) return reply(refusal(load.error()));
  engine.load(std::move(*load), answer_of(std::move(reply)));
}

void load(Engine& engine, serving::RunLane& decoders, const PathNames& names,
          const HttpRequest& request, Reply reply) {
  if (auto here = check_repository(names.repository); !here) return reply(refusal(here.error()));
  if (request.body.size() <= kHeavy) {
    return decode_and_load(engine, names.model, request.body, request.readable_after,
                           std::move(reply));
  }
  const bool taken =
      decoders.try_push([&engine, model = names.model, body = request.body,
                         owner = request.body_owner, after = request.readable_after,
                         reply] { decode_and_load(engine, model, body, after, reply); });
  if (!taken) reply(refusal({Code::kOverloaded, "too many large requests wait to be decoded"}));
}

void unload(Engine& engine, const PathNames& names, const HttpRequest& request, Reply reply) {
  if (auto here = check_repository(names.repository); !here) return reply(refusal(here.error()));
  if (auto said = decode_unload_request(request.body); !said) return reply(refusal(said.error()));
  engine.unload(names.model, answer_of(std::move(reply)));
}

}  // namespace

std::vector<Path> repository_paths(Engine& engine, serving::RunLane& decoders) {
  const auto asks = [&engine](auto ask) -> PathHandler {
    return [&engine, ask](const PathNames& names, const HttpRequest&, const Reply& reply) {
      reply(ask(engine, names));
    };
  };
  return {
      {"/v2/models/stats", asks(statistics), nullptr},
      {"/v2/models/{model}[/versions/{version}]/stats", asks(statistics), nullptr},
      {"/v2/models/{model}[/versions/{version}]/config", asks(config), nullptr},
      {"/v2/repository[/{repository}]/index", nullptr,
       [&engine](const PathNames& names, const HttpRequest& request, const Reply& reply) {
         reply(index(engine, names, request));
       }},
      {"/v2/repository[/{repository}]/models/{model}/load", nullptr,
       [&engine, &decoders](const PathNames& names, const HttpRequest& request, Reply reply) {
         load(engine, decoders, names, request, std::move(reply));
       }},
      {"/v2/repository[/{repository}]/models/{model}/unload", nullptr,
       [&engine](const PathNames& names, const HttpRequest& request, Reply reply) {
         unload(engine, names, request, std::move(reply));
       }},
  };
}

}  // namespace gradus::api
