// tritonserver's flags, so that its command lines start this server: docs/compatibility.md says
// what becomes of each. Those that mean the same here are in main.cc's own tables.
#pragma once

namespace gradus::apps {

enum class TritonFlag {
  kNoEffect,   // accepted, and said so once: what is served is the same without it
  kOnlyFalse,  // asks for a part of Triton that is not here; `false` asks for nothing
  kOnlyTrue,   // switches off what cannot be switched off here; `true` asks for nothing
  kRefused,    // to go on without it would be unsafe or answer otherwise than asked for
};

struct TritonFlagRow {
  const char* flag;
  TritonFlag becomes;
  const char* why;
};

inline constexpr TritonFlagRow kTritonFlags[] = {
    {"--strict-readiness", TritonFlag::kOnlyTrue,
     "at the start ready waits for every model that can be served"},
    {"--exit-on-error", TritonFlag::kNoEffect,
     "a model that cannot be loaded never stops the rest"},
    {"--log-file", TritonFlag::kNoEffect, "the log goes to standard error"},
    {"--disable-auto-complete-config", TritonFlag::kNoEffect,
     "what a config leaves out, the file tells"},
    {"--strict-model-config", TritonFlag::kNoEffect, "what a config leaves out, the file tells"},
    {"--http-thread-count", TritonFlag::kNoEffect, "the number of CPUs is used"},
    {"--grpc-infer-thread-count", TritonFlag::kNoEffect, "the number of CPUs is used"},
    {"--grpc-infer-allocation-pool-size", TritonFlag::kNoEffect, "there is no such pool"},
    {"--grpc-max-response-pool-size", TritonFlag::kNoEffect, "there is no such pool"},
    {"--grpc-infer-response-compression-level", TritonFlag::kNoEffect,
     "answers are not compressed"},
    {"--buffer-manager-thread-count", TritonFlag::kNoEffect, "there are no such threads"},
    {"--model-load-thread-count", TritonFlag::kNoEffect, "the number of CPUs is used"},
    {"--model-load-retry-count", TritonFlag::kNoEffect, "what fails is tried again by itself"},
    {"--model-load-gpu-limit", TritonFlag::kNoEffect, "a level that does not fit is left out"},
    {"--pinned-memory-pool-byte-size", TritonFlag::kNoEffect, "there is no such pool"},
    {"--cuda-memory-pool-byte-size", TritonFlag::kNoEffect, "there is no such pool"},
    {"--cuda-virtual-address-size", TritonFlag::kNoEffect, "there is no such space"},
    {"--min-supported-compute-capability", TritonFlag::kNoEffect, "a GPU counts when it has run"},
    {"--enable-peer-access", TritonFlag::kNoEffect, "GPUs do not talk to each other"},
    {"--backend-directory", TritonFlag::kNoEffect, "ONNX Runtime is built in"},
    {"--backend-config", TritonFlag::kNoEffect, "a model's config or gradus.yaml has its settings"},
    {"--host-policy", TritonFlag::kNoEffect, "the threads' places are the system's"},
    {"--rate-limit", TritonFlag::kNoEffect, "each level has its own queue and instances"},
    {"--rate-limit-resource", TritonFlag::kNoEffect, "each level has its own queue and instances"},
    {"--cache-directory", TritonFlag::kNoEffect, "there is no response cache"},
    {"--cache-config", TritonFlag::kNoEffect, "there is no response cache"},
    {"--response-cache-byte-size", TritonFlag::kNoEffect, "there is no response cache"},
    {"--repoagent-directory", TritonFlag::kNoEffect, "there are no repository agents"},
    {"--metrics-interval-ms", TritonFlag::kNoEffect, "metrics are as old as their scrape"},
    {"--metrics-config", TritonFlag::kNoEffect, "histograms are always there"},
    {"--allow-gpu-metrics", TritonFlag::kNoEffect, "docs/metrics.md has what is measured"},
    {"--allow-cpu-metrics", TritonFlag::kNoEffect, "docs/metrics.md has what is measured"},
    {"--id", TritonFlag::kNoEffect, "receivers of alerts are told host and port"},
    {"--http-header-forward-pattern", TritonFlag::kNoEffect, "no model reads headers"},
    {"--grpc-header-forward-pattern", TritonFlag::kNoEffect, "no model reads headers"},
    {"--grpc-http2-max-pings-without-data", TritonFlag::kNoEffect,
     "gRPC bounds the pings of clients alone"},
    {"--reuse-http-port", TritonFlag::kOnlyFalse, "two servers never share a port"},
    {"--reuse-grpc-port", TritonFlag::kOnlyFalse, "two servers never share a port"},
    {"--model-namespacing", TritonFlag::kOnlyFalse, "models of all repositories share their names"},
    {"--allow-sagemaker", TritonFlag::kOnlyFalse, "SageMaker's endpoints are not served"},
    {"--allow-vertex-ai", TritonFlag::kOnlyFalse, "Vertex AI's endpoints are not served"},
    {"--grpc-use-ssl", TritonFlag::kOnlyFalse, "there is no TLS here: put a proxy before it"},
    {"--grpc-use-ssl-mutual", TritonFlag::kOnlyFalse,
     "there is no TLS here: put a proxy before it"},
    {"--grpc-server-cert", TritonFlag::kRefused, "there is no TLS here: put a proxy before it"},
    {"--grpc-server-key", TritonFlag::kRefused, "there is no TLS here: put a proxy before it"},
    {"--grpc-root-cert", TritonFlag::kRefused, "there is no TLS here: put a proxy before it"},
    {"--http-restricted-api", TritonFlag::kRefused,
     "endpoints cannot be restricted here: put a proxy before it"},
    {"--grpc-restricted-protocol", TritonFlag::kRefused,
     "calls cannot be restricted here: put a proxy before it"},
};

}  // namespace gradus::apps
