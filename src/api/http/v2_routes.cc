#include "api/http/v2_routes.h"

#include <utility>
#include <vector>

#include "api/codec/ladder_command.h"
#include "api/codec/metadata.h"
#include "api/http/answers.h"
#include "api/http/control_routes.h"
#include "api/http/repository_routes.h"
#include "base/cpu_count.h"

namespace gradus::api {
namespace {

// Large bodies that may wait for a decoder; each holds its memory.
constexpr std::size_t kMostWaiting = 256;

// What is answered at once.
PathHandler at_once(auto ask) {
  return
      [ask](const PathNames& names, const HttpRequest&, const Reply& reply) { reply(ask(names)); };
}

}  // namespace

V2Routes::V2Routes(serving::Engine& engine, const config::HttpConfig& config, std::string version,
                   Admin admin, std::shared_ptr<Control> control)
    : engine_(engine),
      version_(std::move(version)),
      admin_(std::move(admin)),
      control_(std::move(control)),
      infer_(engine, config, decoders_, control_),
      decoders_("decode", usable_cpus(), kMostWaiting) {
  table_.add(infer_.paths());  // first: it is asked most
  table_.add(repository_paths(engine_, decoders_));
  table_.add(questions());
  table_.add(control_paths(engine_, control_, admin_));
}

std::size_t V2Routes::body_offset(const HttpRequest& request) const {
  return infer_.body_offset(request);
}

void V2Routes::handle(const HttpRequest& request, Reply reply) { table_.handle(request, reply); }

std::vector<Path> V2Routes::questions() {
  const auto server = [this](const auto&) {
    return json_answer(server_metadata_json(version_, control_->shared_memory != nullptr));
  };
  const auto live = [this](const auto&) {
    const bool yes = engine_.live();
    return json_answer(live_json(yes), yes ? 200 : 503);
  };
  const auto ready = [this](const auto&) {
    const bool yes = engine_.ready();
    return json_answer(ready_json(yes), yes ? 200 : 503);
  };
  const auto models = [this](const auto&) {
    return json_answer(model_names_json(engine_.model_names()));
  };
  const auto model = [this](const PathNames& names) {
    const auto info = engine_.model_info(names.model, names.version);
    return info ? json_answer(model_metadata_json(*info)) : refusal(info.error());
  };
  const auto model_ready = [this](const PathNames& names) {
    const auto can = engine_.model_ready(names.model, names.version);
    return can ? json_answer(model_ready_json(names.model, true)) : refusal(can.error());
  };
  const auto ladder = [this](const PathNames& names) {
    return json_or_refusal(engine_.ladder_json(names.model, names.version));
  };
  const auto to_ladder = [this](const PathNames& names, const HttpRequest& request,
                                const Reply& reply) { reply(command(names, request)); };
  const auto workers = [this](const auto&) { return json_answer(engine_.workers_json()); };
  return {
      {"/v2", at_once(server), nullptr},
      {"/v2/health/live", at_once(live), nullptr},
      {"/v2/health/ready", at_once(ready), nullptr},
      {"/v2/models", at_once(models), nullptr},
      {"/v2/models/{model}[/versions/{version}]", at_once(model), nullptr},
      {"/v2/models/{model}[/versions/{version}]/ready", at_once(model_ready), nullptr},
      {"/v2/models/{model}[/versions/{version}]/ladder", at_once(ladder), to_ladder},
      {"/v2/workers", at_once(workers), nullptr},
  };
}

HttpResponse V2Routes::command(const PathNames& names, const HttpRequest& request) {
  if (auto refused = admin_.refusal(request)) return std::move(*refused);
  auto command = decode_ladder_command(request.body);
  if (!command) return refusal(command.error());
  command->who = request.peer;
  return json_or_refusal(engine_.command(names.model, names.version, *command));
}

}  // namespace gradus::api
