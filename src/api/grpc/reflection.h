// grpc.reflection.v1 and v1alpha, the same under two names: what services and messages there are,
// for tools such as grpcurl. Source: gRPC's server reflection protocol (doc/server-reflection.md).
#pragma once
#include <memory>

namespace gradus::api {

class Call;

/// Answers the questions of one ServerReflectionInfo call, each in turn, until the client ends it.
void start_reflection(const std::shared_ptr<Call>& call);

}  // namespace gradus::api
