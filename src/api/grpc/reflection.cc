#include "api/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>
#include <reflection.pb.h>
#include <reflection_v1alpha.pb.h>

#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/grpc/call.h"

namespace gradus::api {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

constexpr const char* kServices[] = {"inference.GRPCInferenceService", "grpc.health.v1.Health",
                                     "grpc.reflection.v1.ServerReflection",
                                     "grpc.reflection.v1alpha.ServerReflection"};

const DescriptorPool& pool() {
  // Else the linker leaves its file out: its messages are v1's on the wire, and those serve both.
  grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
  return *DescriptorPool::generated_pool();
}

// The file and those that it needs, each once.
void add_files(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
               grpc::reflection::v1::FileDescriptorResponse& to) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto said;
  file.CopyTo(&said);
  to.add_file_descriptor_proto(said.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) add_files(*file.dependency(i), added, to);
}

void fail(const std::string& what, ServerReflectionResponse& to) {
  to.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
  to.mutable_error_response()->set_error_message("there is no " + what);
}

void answer_file(const FileDescriptor* file, const std::string& what,
                 ServerReflectionResponse& to) {
  if (file == nullptr) return fail(what, to);
  std::set<const FileDescriptor*> added;
  add_files(*file, added, *to.mutable_file_descriptor_response());
}

void answer_extension(const grpc::reflection::v1::ExtensionRequest& asked,
                      ServerReflectionResponse& to) {
  const auto* const type = pool().FindMessageTypeByName(asked.containing_type());
  const auto* const found =
      type != nullptr ? pool().FindExtensionByNumber(type, asked.extension_number()) : nullptr;
  answer_file(found != nullptr ? found->file() : nullptr,
              "extension " + std::to_string(asked.extension_number()) + " of '" +
                  asked.containing_type() + "'",
              to);
}

void answer_extensions(const std::string& name, ServerReflectionResponse& to) {
  const auto* const type = pool().FindMessageTypeByName(name);
  if (type == nullptr) return fail("message '" + name + "'", to);
  auto& said = *to.mutable_all_extension_numbers_response();
  said.set_base_type_name(name);
  std::vector<const google::protobuf::FieldDescriptor*> all;
  pool().FindAllExtensions(type, &all);
  for (const auto* const extension : all) said.add_extension_number(extension->number());
}

ServerReflectionResponse answer(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      answer_file(pool().FindFileByName(request.file_by_filename()),
                  "file '" + request.file_by_filename() + "'", response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      answer_file(pool().FindFileContainingSymbol(request.file_containing_symbol()),
                  "symbol '" + request.file_containing_symbol() + "'", response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      answer_extension(request.file_containing_extension(), response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      answer_extensions(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const char* const name : kServices) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message("the request asks for nothing");
      break;
  }
  return response;
}

// Both are serialised messages.
std::string reflect(std::string_view bytes) {
  ServerReflectionRequest request;
  const bool whole = bytes.size() <= std::numeric_limits<int>::max() &&
                     request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  return answer(whole ? request : ServerReflectionRequest()).SerializeAsString();
}

}  // namespace

void start_reflection(const std::shared_ptr<Call>& call) {
  call->read([call](grpc::ByteBuffer* message) {
    grpc::Slice bytes;
    if (message == nullptr || !message->DumpToSingleSlice(&bytes).ok()) {
      return call->finish(grpc::Status::OK);
    }
    const grpc::Slice said(reflect({reinterpret_cast<const char*>(bytes.begin()), bytes.size()}));
    call->write(grpc::ByteBuffer(&said, 1), [call](bool sent) {
      sent ? start_reflection(call) : call->finish(grpc::Status::CANCELLED);
    });
  });
}

}  // namespace gradus::api
