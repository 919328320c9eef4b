#include "api/codec/statistics_json.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/json_text.h"

namespace gradus::api {
namespace {

class Writer {
 public:
  void open(char bracket) {
    comma();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void key(std::string_view name) {
    comma();
    text_ += '"';
    text_ += name;
    text_ += "\":";
    first_ = true;  // its value follows without a comma
  }
  void number(std::string_view name, std::uint64_t value) {
    key(name);
    text_ += std::to_string(value);
    first_ = false;
  }
  void string(std::string_view name, std::string_view value) {
    key(name);
    append_json_string(text_, value);
    first_ = false;
  }
  void duration(std::string_view name, const serving::DurationSum& sum) {
    key(name);
    open('{');
    number("count", sum.count);
    number("ns", sum.ns);
    close('}');
  }

  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!first_) text_ += ',';
  }

  std::string text_;
  bool first_ = true;  // nothing stands before what comes next
};

void write(Writer& out, const serving::BatchStatistics& batch) {
  out.open('{');
  out.number("batch_size", batch.batch_size);
  out.duration("compute_input", batch.compute_input);
  out.duration("compute_infer", batch.compute_infer);
  out.duration("compute_output", batch.compute_output);
  out.close('}');
}

void write(Writer& out, const serving::LevelStatistics& level) {
  out.open('{');
  out.number("level", static_cast<std::uint64_t>(level.level));
  out.string("name", level.name);
  out.number("inference_count", level.inference_count);
  out.number("execution_count", level.execution_count);
  out.duration("success", level.success);
  out.duration("queue", level.queue);
  out.duration("compute_infer", level.compute_infer);
  out.close('}');
}

template <class Element>
void write_list(Writer& out, std::string_view name, const std::vector<Element>& elements) {
  out.key(name);
  out.open('[');
  for (const Element& element : elements) write(out, element);
  out.close(']');
}

void write(Writer& out, const serving::ModelStatistics& model) {
  out.open('{');
  out.string("name", model.name);
  out.string("version", model.version);
  out.number("last_inference", model.last_inference_ms);
  out.number("inference_count", model.inference_count);
  out.number("execution_count", model.execution_count);
  out.key("inference_stats");
  out.open('{');
  out.duration("success", model.success);
  out.duration("fail", model.fail);
  out.duration("queue", model.queue);
  out.duration("compute_input", model.compute_input);
  out.duration("compute_infer", model.compute_infer);
  out.duration("compute_output", model.compute_output);
  out.duration("cache_hit", {});  // nothing is cached
  out.duration("cache_miss", {});
  out.close('}');
  out.key("response_stats");  // of answers in several parts, which no model gives
  out.open('{');
  out.close('}');
  write_list(out, "batch_stats", model.batches);
  out.key("memory_usage");
  out.open('[');
  out.close(']');
  write_list(out, "gradus_levels", model.levels);
  out.close('}');
}

}  // namespace

std::string statistics_json(const std::vector<serving::ModelStatistics>& models) {
  Writer out;
  out.open('{');
  write_list(out, "model_stats", models);
  out.close('}');
  return out.take();
}

}  // namespace gradus::api
