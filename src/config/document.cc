// docs/configuration.md: a hand-written introduction, then one table of keys for each struct.
#include <algorithm>
#include <initializer_list>
#include <ostream>

#include "config/load.h"
#include "config/provider_names.h"
#include "config/tables.h"

namespace gradus::config {
namespace {

constexpr const char* kIntroduction =
    R"(<!-- Written by `document` in src/config/document.cc. To write it anew after a change of the tables:
     GRADUS_WRITE_DOCS=1 build/release/tests/unit/config/config_test --gtest_filter='Documentation.*' -->
# Configuration

The server is told by flags, `--config FILE`, and the environment variable `ORT_PROVIDERS`, in that
precedence; each model by `gradus.yaml` in its folder, if it has one, which lies over Triton's
`config.pbtxt`, if there is one ([triton-config.md](triton-config.md)). Both files are YAML. Unknown
keys are errors, values out of bounds are refused, and every fault of a file is reported at once:

    models/x/gradus.yaml: levels[1].max_batch_size = 0: must be in [1, 1024]

`gradus serve --check-config` prints the effective values of the server and of every model, in a form
that loads again, but for the secrets that URLs may hold, which it masks. A broken model never stops
the others; it shows its faults as its reason.

A server's file:

```yaml
model_repositories: [/srv/models]
http:
  address: 0.0.0.0
  port: 8000
provider_libraries:
  openvino: /opt/gradus/lib/libonnxruntime_providers_openvino_plugin.so
providers: [cuda, openvino, cpu]
```

A model's `gradus.yaml` that keeps the default ladder and changes some of it:

```yaml
default_levels:
  gpu: {target_p99_ms: 30, max_batch_size: 16}
  cpu: {instances: 2}
policy:
  hold_ms: 10000
```

One with a ladder of its own, listed from the best level to the worst:

```yaml
levels:
  - name: gpu
    file: model.fp16.onnx
    providers:
      - cuda: {gpu_mem_limit: 2147483648, arena_extend_strategy: kSameAsRequested}
    device_ids: [0, 1]
    max_batch_size: 32
    target_p99_ms: 50
    check_outputs: finite
  - name: cpu
    file: model.onnx
    providers: [cpu]
    max_batch_size: 8
```

## The default ladder

Without `levels:` the files in a version's folder give the ladder; a level whose file is missing is
left out, and the numbers of the others stay.

| level | name | file | `target_p99_ms` | `max_batch_size` |
| --- | --- | --- | --- | --- |
)";

constexpr const char* kProviders = R"(
`default_levels:` changes any key of these but `level`, `name` and `file`; the other levels stay as
they are. `levels:` is the whole ladder, so each of its entries needs `name`, `file` and `providers`.

## Providers

A provider is named by ONNX Runtime's full name or by the name without `ExecutionProvider`, in any
case. `--providers` and `ORT_PROVIDERS` hold lists of them, separated by `;` or `,`; an empty list
means the default. The list orders and limits the providers of every level:

- Of the default ladder, level 0 tries the list's GPU providers and the others its CPU providers. A
  level left without one is left out, and without GPU providers no GPU level is wanted.
- A level of `levels:` keeps those of its providers that are listed, in the list's order. One left
  without any is shown as unavailable, `excluded by --providers`.

A ladder that wants no GPU level is never `degraded` for lacking one.

)";

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string code(std::string_view text) { return "`" + cell(text) + "`"; }

template <class S>
std::string default_of(const Field<S>& field, const S& fresh) {
  if (!field.default_text.empty()) return cell(field.default_text);
  return code(inline_text(field.show(fresh)));
}

template <class S>
void append_rows(std::ostream& out, const Fields<S>& fields, std::string_view prefix,
                 std::initializer_list<std::string_view> left_out = {}) {
  const S fresh;
  for (const Field<S>& field : fields) {
    if (std::ranges::find(left_out, field.key) != left_out.end()) continue;
    out << "| " << code(std::string(prefix) + field.key) << " | " << cell(field.must) << " | "
        << default_of(field, fresh) << " | " << cell(field.help) << " |\n";
  }
}

void append_heading(std::ostream& out, std::string_view title) {
  out << "\n## " << title << "\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
}

std::string short_names(const std::vector<std::string>& full_names) {
  std::string out;
  for (const std::string& name : full_names) {
    out += (out.empty() ? "" : ", ") + code(short_provider_name(name));
  }
  return out;
}

void append_providers(std::ostream& out) {
  std::vector<std::string> gpu = known_providers();
  std::vector<std::string> cpu = known_providers();
  std::erase_if(gpu, [](const std::string& name) { return !is_gpu_provider(name); });
  std::erase_if(cpu, [](const std::string& name) { return is_gpu_provider(name); });
  const ProviderOrder order = provider_order(std::nullopt, {});
  out << "GPU providers: " << short_names(gpu) << ".\n"
      << "\nCPU providers: " << short_names(cpu) << ".\n"
      << "\nWithout a list the default ladder tries " << short_names(order.gpu)
      << " at level 0, in this\norder, and " << short_names(order.cpu)
      << " below. A provider in `provider_libraries` that stands in neither row above\ncounts as a "
         "GPU provider and is tried first.\n";
}

}  // namespace

void document(std::ostream& out) {
  out << kIntroduction;
  for (const LevelConfig& level :
       default_levels({true, true, true, true}, {"gpu"}, {"CPUExecutionProvider"})) {
    out << "| " << level.level << " | " << code(level.name) << " | " << code(level.file)
        << (level.level == 0 ? ", or `model.onnx` where there is none" : "") << " | "
        << level.target_p99.count() << " | " << level.max_batch_size << " |\n";
  }
  out << kProviders;
  append_providers(out);

  append_heading(out, "Keys of the server's file");
  append_rows(out, server_fields(), "", {"admin", "alerts", "grpc", "http", "metrics", "trace"});
  append_rows(out, http_fields(), "http.");
  append_rows(out, grpc_fields(), "grpc.");
  append_rows(out, metrics_fields(), "metrics.");
  append_rows(out, alerts_fields(), "alerts.");
  append_rows(out, admin_fields(), "admin.");
  append_rows(out, trace_fields(), "trace.");
  append_heading(out, "Keys of `gradus.yaml`");
  append_rows(out, model_fields(), "", {"policy"});
  out << "| `policy` | a map of keys | | thresholds of the policy, below |\n";
  append_heading(out, "Keys of an entry of `queue_policies`");
  append_rows(out, queue_policy_fields(), "");
  append_heading(out, "Keys of a level");
  append_rows(out, level_fields(), "");
  append_heading(out, "Keys of `policy`");
  append_rows(out, policy_fields(), "");
}

}  // namespace gradus::config
