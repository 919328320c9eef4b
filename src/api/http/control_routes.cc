#include "api/http/control_routes.h"

#include <utility>

#include "api/codec/control_json.h"
#include "api/http/answers.h"

namespace gradus::api {
namespace {

Error refused(std::string_view text) { return {Code::kInvalid, std::string(text)}; }

struct Routes {
  HttpResponse region_status(const PathNames& names) const;
  HttpResponse register_region(const PathNames& names, const HttpRequest& request) const;
  HttpResponse unregister_regions(const PathNames& names) const;
  HttpResponse set_log(const HttpRequest& request) const;
  HttpResponse trace(const PathNames& names) const;
  HttpResponse set_trace(const PathNames& names, const HttpRequest& request) const;

  const serving::Engine& engine;
  const std::shared_ptr<Control> control;
  const Admin& admin;
};

HttpResponse Routes::region_status(const PathNames& names) const {
  const SharedMemory* const memory = control->shared_memory.get();
  if (names.region.empty()) {
    return json_answer(memory != nullptr ? regions_json(memory->all()) : "[]");
  }
  const auto region = memory != nullptr ? memory->find(names.region) : nullptr;
  if (!region) return refusal({Code::kNotFound, no_region(names.region)});
  return json_answer(regions_json({region}));
}

HttpResponse Routes::register_region(const PathNames& names, const HttpRequest& request) const {
  if (!control->shared_memory) return refusal(refused(kNoSharedMemory));
  auto asked = decode_region(names.region, request.body);
  if (!asked) return refusal(asked.error());
  const auto added = control->shared_memory->add(std::move(*asked));
  if (!added) return refusal(added.error());
  return *added ? json_answer("") : refusal(refused(name_taken(names.region)));
}

HttpResponse Routes::unregister_regions(const PathNames& names) const {
  if (SharedMemory* const memory = control->shared_memory.get()) {
    if (names.region.empty()) {
      memory->remove_all();
    } else {
      memory->remove(names.region);
    }
  }
  return json_answer("");
}

HttpResponse Routes::set_log(const HttpRequest& request) const {
  const auto values = decode_log_settings(request.body);
  if (!values) return refusal(values.error());
  if (!values->empty()) {
    if (auto barred = admin.refusal(request)) return std::move(*barred);
    log_change("the log", "", request.peer);
    if (auto changed = control->log.change(*values); !changed) return refusal(changed.error());
  }
  return json_answer(log_settings_json(control->log.all()));
}

HttpResponse Routes::trace(const PathNames& names) const {
  if (auto known = check_model(engine, names.model); !known) return refusal(known.error());
  return json_answer(trace_settings_json(control->tracer->settings(names.model)));
}

HttpResponse Routes::set_trace(const PathNames& names, const HttpRequest& request) const {
  const auto values = decode_trace_settings(request.body);
  if (!values) return refusal(values.error());
  if (values->empty()) return trace(names);
  if (auto barred = admin.refusal(request)) return std::move(*barred);
  if (auto known = check_model(engine, names.model); !known) return refusal(known.error());
  log_change("traces", names.model, request.peer);
  if (auto changed = control->tracer->change(names.model, *values); !changed) {
    return refusal(changed.error());
  }
  return trace(names);
}

}  // namespace

std::vector<Path> control_paths(const serving::Engine& engine, std::shared_ptr<Control> control,
                                const Admin& admin) {
  const auto routes = std::make_shared<const Routes>(Routes{engine, std::move(control), admin});
  const auto at_once = [routes](auto ask) -> PathHandler {
    return [routes, ask](const PathNames& names, const HttpRequest& request, const Reply& reply) {
      reply(ask(*routes, names, request));
    };
  };
  const PathHandler trace = at_once([](auto& to, auto& names, auto&) { return to.trace(names); });
  const PathHandler set_trace =
      at_once([](auto& to, auto& names, auto& request) { return to.set_trace(names, request); });
  return {
      {"/v2/systemsharedmemory[/region/{region}]/status",
       at_once([](auto& to, auto& names, auto&) { return to.region_status(names); }), nullptr},
      {"/v2/systemsharedmemory/region/{region}/register", nullptr,
       at_once([](auto& to, auto& names, auto& request) {
         return to.register_region(names, request);
       })},
      {"/v2/systemsharedmemory[/region/{region}]/unregister", nullptr,
       at_once([](auto& to, auto& names, auto&) { return to.unregister_regions(names); })},
      // Clients unregister what there never was before they begin.
      {"/v2/cudasharedmemory[/region/{region}]/status",
       at_once([](auto&...) { return json_answer("[]"); }), nullptr},
      {"/v2/cudasharedmemory/region/{region}/register", nullptr,
       at_once([](auto&...) { return error_response(501, kNoCuda); })},
      {"/v2/cudasharedmemory[/region/{region}]/unregister", nullptr,
       at_once([](auto&...) { return json_answer(""); })},
      {"/v2/logging", at_once([](auto& to, auto&, auto&) {
         return json_answer(log_settings_json(to.control->log.all()));
       }),
       at_once([](auto& to, auto&, auto& request) { return to.set_log(request); })},
      {"/v2/trace/setting", trace, set_trace},
      {"/v2/models/{model}/trace/setting", trace, set_trace},
  };
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): it loses sight of std::function in a list

}  // namespace gradus::api
