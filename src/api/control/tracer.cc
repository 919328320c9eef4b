#include "api/control/tracer.h"

#include <algorithm>
#include <exception>

#include "base/json_text.h"
#include "base/log.h"

namespace gradus::api {
namespace {

std::string member(const char* key, std::string_view text) {
  return std::string(",\"") + key + "\":" + json_string(text);
}

std::string ns_text(TimePoint at) { return std::to_string(at.time_since_epoch().count()); }

}  // namespace

Trace::Trace(std::uint64_t id, std::string model, std::string path, std::uint32_t log_frequency,
             std::shared_ptr<TraceWriter> writer)
    : id_(id),
      model_(std::move(model)),
      path_(std::move(path)),
      log_frequency_(log_frequency),
      writer_(std::move(writer)) {
  stamps_.reserve(12);
}

Trace::~Trace() {
  try {
    writer_->write(path_, entries(), log_frequency_);
  } catch (const std::exception& error) {  // for want of memory
    log::error(std::string("trace: one is lost: ") + error.what());
  }
}

void Trace::about(std::string_view version, std::string_view id) {
  version_ = version;
  request_id_ = id;
}

void Trace::answered(const Result<serving::Response>& result, TimePoint at) {
  if (!result) {
    failed(result.error());
    return stamp("REQUEST_END", at);
  }
  version_ = result->version;
  request_id_ = result->id;
  const serving::Origin& origin = result->origin;
  answerer_ = ",\"level\":" + std::to_string(origin.level) +
              member("level_name", origin.level_name) + member("variant", origin.variant) +
              (origin.degraded ? ",\"degraded\":true" : ",\"degraded\":false");
  const TimePoint end = origin.begun + origin.run;
  stamp("QUEUE_START", origin.queued);
  stamp("COMPUTE_START", origin.begun);
  stamp("COMPUTE_INPUT_END", origin.begun + origin.joining);
  stamp("COMPUTE_OUTPUT_START", end - origin.splitting);
  stamp("COMPUTE_END", end);
  stamp("INFER_RESPONSE_COMPLETE", at);
  stamp("REQUEST_END", at);
}

void Trace::refused(const Error& error, TimePoint at) {
  failed(error);
  stamp("REQUEST_START", at);
  stamp("REQUEST_END", at);
}

std::shared_ptr<SendTimes> Trace::send_times(const std::shared_ptr<Trace>& trace, const char* begun,
                                             const char* ended) {
  trace->sent_names_ = {begun, ended};
  return {trace, &trace->sent_};
}

std::string Trace::entries() const {
  const bool digits =
      !version_.empty() && version_.find_first_not_of("0123456789") == version_.npos;
  const std::string id = "{\"id\":" + std::to_string(id_);
  std::string text = id + member("model_name", model_) +
                     ",\"model_version\":" + (digits ? version_ : "-1") +
                     member("request_id", request_id_) + answerer_;
  if (!error_.empty()) text += member("error", error_);
  text += "},\n" + id + ",\"timestamps\":[";
  const auto add = [&text](const char* name, TimePoint at) {
    if (!text.ends_with('[')) text += ',';
    text += std::string("{\"name\":\"") + name + "\",\"ns\":" + ns_text(at) + '}';
  };
  for (const auto& [name, at] : stamps_) add(name, at);
  if (sent_.begun != TimePoint{}) add(sent_names_.first, sent_.begun);
  if (sent_.ended != TimePoint{}) add(sent_names_.second, sent_.ended);
  return text + "]}";
}

Result<std::unique_ptr<Tracer>> Tracer::make(const config::TraceConfig& config) {
  if (config.file.empty() && config.level != config::TraceLevel::kOff) {
    return fail(Code::kInvalid,
                "trace.level says that requests are traced, but there is no "
                "trace.file to write them to");
  }
  if (!config.file.empty()) {
    if (auto usable = TraceWriter::check(config.file); !usable) {
      return tl::unexpected(std::move(usable.error()));
    }
  }
  auto tracer = std::make_unique<Tracer>();
  const MutexLock lock(tracer->mutex_);
  tracer->start_ = config;
  return tracer;
}

Result<void> Tracer::start() {
  std::string file;
  {
    const MutexLock lock(mutex_);
    file = start_.file;
  }
  if (file.empty()) return {};
  auto writer = TraceWriter::open(std::move(file));
  if (!writer) return tl::unexpected(std::move(writer.error()));
  const MutexLock lock(mutex_);
  writer_ = std::move(*writer);
  start_.file = writer_->operators_file();
  on_ = anything_on();
  return {};
}

std::shared_ptr<TraceWriter> Tracer::writer() const {
  const MutexLock lock(mutex_);
  return writer_;
}

const Tracer::Scope& Tracer::scope_of(std::string_view model) const {
  const auto found = models_.find(model);
  return found != models_.end() ? found->second : server_;
}

// `count` is what is left.
TraceSettings Tracer::effective(const Scope& scope) const {
  TraceSettings settings = settled(start_, server_.own);
  if (!server_.path.empty()) settings.file = server_.path;
  if (&scope != &server_) {
    settings = settled(settings, scope.own);
    if (!scope.path.empty()) settings.file = scope.path;
  }
  if (settings.count > 0) settings.count = std::max<std::int64_t>(0, settings.count - scope.taken);
  return settings;
}

bool Tracer::anything_on() const {
  const auto on = [this](const Scope& scope) REQUIRES(mutex_) {
    const TraceSettings settings = effective(scope);
    return settings.level != config::TraceLevel::kOff && settings.count != 0;
  };
  return writer_ && (on(server_) || std::ranges::any_of(models_, [&](const auto& each) {
                       return on(each.second);
                     }));
}

std::shared_ptr<Trace> Tracer::sample_one(std::string_view model) {
  const MutexLock lock(mutex_);
  const auto found = models_.find(model);
  Scope& scope = found != models_.end() ? found->second : server_;
  const TraceSettings settings = effective(scope);
  if (settings.level == config::TraceLevel::kOff || settings.count == 0) return nullptr;
  if (++scope.seen % settings.rate != 0) return nullptr;
  ++scope.taken;
  if (settings.count == 1) on_ = anything_on();
  return std::make_shared<Trace>(++last_id_, std::string(model), settings.file,
                                 settings.log_frequency, writer_);
}

Tracer::Shown Tracer::settings(const std::string& model) const {
  const MutexLock lock(mutex_);
  return shown(effective(scope_of(model)));
}

Result<void> Tracer::change(const std::string& model, const TraceValues& values) {
  if (values.empty()) return {};
  OwnTraceSettings asked;
  if (auto good = api::change(values, asked); !good) return good;
  const std::shared_ptr<TraceWriter> writer = this->writer();
  if (!writer) {
    return fail(Code::kInvalid,
                "there is no file for traces; start the server with --trace-file FILE");
  }
  std::string path;
  if (asked.file) {
    auto made = writer->file_of_client(*asked.file);
    if (!made) return tl::unexpected(std::move(made.error()));
    path = std::move(*made);
  }
  const MutexLock lock(mutex_);
  const auto found = models_.find(model);
  Scope changed = model.empty() ? server_ : found != models_.end() ? found->second : Scope{};
  if (auto done = api::change(values, changed.own); !done) return done;
  if (values.contains("trace_file")) changed.path = std::move(path);
  if (values.contains("trace_rate") || values.contains("trace_count")) {
    changed.seen = 0;
    changed.taken = 0;
  }
  if (model.empty()) {
    server_ = std::move(changed);
  } else if (changed.own.any()) {
    models_[model] = std::move(changed);
  } else if (found != models_.end()) {
    models_.erase(found);
  }
  on_ = anything_on();
  return {};
}

void Tracer::flush(Duration limit) {
  if (const auto written = writer()) written->flush(limit);
}

}  // namespace gradus::api
