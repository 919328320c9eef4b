#include "worker/spec_wire.h"

namespace gradus::worker {
namespace {

constexpr std::size_t kText = sizeof(std::uint32_t);  // bytes of an empty text

template <class E>
E get_enum(Reader& reader, E last) {
  const auto value = reader.get<std::uint32_t>();
  if (value > static_cast<std::uint32_t>(last)) {
    reader.refuse();
    return E{};
  }
  return static_cast<E>(value);
}

template <class E>
void put_enum(Writer& writer, E value) {
  writer.put(static_cast<std::uint32_t>(value));
}

void put_map(Writer& writer, const std::map<std::string, std::string>& map) {
  writer.put(static_cast<std::uint32_t>(map.size()));
  for (const auto& [key, value] : map) writer.text(key).text(value);
}

std::map<std::string, std::string> get_map(Reader& reader) {
  std::map<std::string, std::string> map;
  for (std::uint32_t left = reader.count(2 * kText); left > 0 && reader.ok(); --left) {
    std::string key = reader.text();
    map[std::move(key)] = reader.text();
  }
  return map;
}

void put_specs(Writer& writer, const std::vector<runtime::TensorSpec>& specs) {
  writer.put(static_cast<std::uint32_t>(specs.size()));
  for (const runtime::TensorSpec& spec : specs) {
    writer.text(spec.name);
    put_dtype(writer, spec.dtype);
    put_shape(writer, spec.shape);
  }
}

std::vector<runtime::TensorSpec> get_specs(Reader& reader) {
  std::vector<runtime::TensorSpec> specs;
  for (std::uint32_t left = reader.count(3 * kText); left > 0 && reader.ok(); --left) {
    runtime::TensorSpec spec;
    spec.name = reader.text();
    spec.dtype = get_dtype(reader);
    spec.shape = get_shape(reader, -1);
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

void put_greeting(Writer& writer, const Greeting& greeting) {
  writer.text(greeting.version).text(greeting.device);
  put_enum(writer, greeting.log_level);
  put_enum(writer, greeting.log_format);
  writer.put(greeting.allow_software_gpu);
  put_map(writer, greeting.provider_libraries);
}

Greeting get_greeting(Reader& reader) {
  Greeting greeting;
  greeting.version = reader.text();
  greeting.device = reader.text();
  greeting.log_level = get_enum(reader, log::Severity::kError);
  greeting.log_format = get_enum(reader, log::Format::kJson);
  greeting.allow_software_gpu = reader.get<std::uint8_t>() != 0;
  greeting.provider_libraries = get_map(reader);
  return greeting;
}

void put_spec(Writer& writer, const runtime::LoadSpec& spec) {
  writer.text(spec.file.string()).put(static_cast<std::uint32_t>(spec.providers.size()));
  for (const config::ProviderConfig& provider : spec.providers) {
    writer.text(provider.name);
    put_map(writer, provider.options);
  }
  writer.put(static_cast<std::uint32_t>(spec.device_ids.size()));
  for (const int id : spec.device_ids) writer.put(static_cast<std::int32_t>(id));
  writer.put(static_cast<std::int32_t>(spec.threads));
  put_enum(writer, spec.execution_mode);
  writer.put(static_cast<std::int32_t>(spec.inter_op_threads)).put(spec.allow_software_gpu);
  put_enum(writer, spec.check_outputs);
  writer.put(static_cast<std::uint32_t>(spec.overridable.size()));
  for (const std::string& name : spec.overridable) writer.text(name);
}

runtime::LoadSpec get_spec(Reader& reader) {
  runtime::LoadSpec spec;
  spec.file = reader.text();
  for (std::uint32_t left = reader.count(2 * kText); left > 0 && reader.ok(); --left) {
    std::string name = reader.text();
    spec.providers.push_back({std::move(name), get_map(reader)});
  }
  for (std::uint32_t left = reader.count(sizeof(std::int32_t)); left > 0; --left) {
    spec.device_ids.push_back(reader.get<std::int32_t>());
  }
  spec.threads = reader.get<std::int32_t>();
  spec.execution_mode = get_enum(reader, config::ExecutionMode::kParallel);
  spec.inter_op_threads = reader.get<std::int32_t>();
  spec.allow_software_gpu = reader.get<std::uint8_t>() != 0;
  spec.check_outputs = get_enum(reader, config::CheckOutputs::kFinite);
  for (std::uint32_t left = reader.count(kText); left > 0 && reader.ok(); --left) {
    spec.overridable.push_back(reader.text());
  }
  return spec;
}

void put_loaded(Writer& writer, const LoadedFacts& facts) {
  put_specs(writer, facts.signature.inputs);
  put_specs(writer, facts.signature.outputs);
  put_specs(writer, facts.signature.optional_inputs);
  writer.put(static_cast<std::uint32_t>(facts.placement.size()));
  for (const runtime::Placement& part : facts.placement) {
    writer.text(part.provider).put(part.nodes);
  }
  writer.text(facts.provider_used).put(facts.node_share);
  writer.put(static_cast<std::uint32_t>(facts.failures.size()));
  for (const runtime::ProviderFailure& failure : facts.failures) {
    writer.text(failure.provider).text(failure.reason);
  }
}

LoadedFacts get_loaded(Reader& reader) {
  LoadedFacts facts;
  facts.signature.inputs = get_specs(reader);
  facts.signature.outputs = get_specs(reader);
  facts.signature.optional_inputs = get_specs(reader);
  for (std::uint32_t left = reader.count(2 * kText); left > 0 && reader.ok(); --left) {
    std::string provider = reader.text();
    facts.placement.push_back({std::move(provider), reader.get<std::uint32_t>()});
  }
  facts.provider_used = reader.text();
  facts.node_share = reader.get<double>();
  for (std::uint32_t left = reader.count(2 * kText); left > 0 && reader.ok(); --left) {
    std::string provider = reader.text();
    facts.failures.push_back({std::move(provider), reader.text()});
  }
  return facts;
}

void put_error(Writer& writer, const Error& error) {
  put_enum(writer, error.code);
  writer.text(error.message);
}

Error get_error(Reader& reader) {
  const Code code = get_enum(reader, Code::kInternal);
  return {code, reader.text()};
}

}  // namespace gradus::worker
