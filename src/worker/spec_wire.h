// What a worker is told at its start and asked to load, and what came of it, as bytes in messages.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/load.h"
#include "worker/wire.h"

namespace gradus::worker {

/// Sent with the hello. The version is that of the binary: the wire fits no other.
struct Greeting {
  std::string version;
  std::string device;  // `webgpu:0`; names the worker in logs
  log::Severity log_level = log::Severity::kInfo;
  log::Format log_format = log::Format::kText;
  bool allow_software_gpu = false;
  std::map<std::string, std::string> provider_libraries;  // as runtime::OrtRuntime::Options
  bool operator==(const Greeting&) const = default;
};
void put_greeting(Writer& writer, const Greeting& greeting);
Greeting get_greeting(Reader& reader);

void put_spec(Writer& writer, const runtime::LoadSpec& spec);
runtime::LoadSpec get_spec(Reader& reader);

/// What runtime::Loaded says, without what runs.
struct LoadedFacts {
  runtime::Signature signature;
  std::vector<runtime::Placement> placement;
  std::string provider_used;
  double node_share = 0;
  std::vector<runtime::ProviderFailure> failures;
};
void put_loaded(Writer& writer, const LoadedFacts& facts);
LoadedFacts get_loaded(Reader& reader);

void put_error(Writer& writer, const Error& error);
Error get_error(Reader& reader);

}  // namespace gradus::worker
