// A message as JSON in the form that Triton's HTTP clients read: fields by the message's own names,
// also those at their defaults; enumerators by name; 64-bit integers as numbers, which protobuf's
// own printer would quote. Messages and members of a `oneof` only where they are set.
#pragma once
#include <string>

namespace google::protobuf {
class Message;
}

namespace gradus::triton {

/// @param message without fields of type `bytes`
std::string message_json(const google::protobuf::Message& message);

}  // namespace gradus::triton
