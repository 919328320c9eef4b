#include "triton/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>

#include "base/json_text.h"

namespace gradus::triton {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;

void append_message(std::string& out, const pb::Message& message);

/// @param index of a repeated field's value; -1: of a singular one
void append_value(std::string& out, const pb::Message& message, const Field& field, int index) {
  const pb::Reflection& look = *message.GetReflection();
  const bool many = index >= 0;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      out += std::to_string(many ? look.GetRepeatedInt32(message, &field, index)
                                 : look.GetInt32(message, &field));
      return;
    case Field::CPPTYPE_INT64:
      out += std::to_string(many ? look.GetRepeatedInt64(message, &field, index)
                                 : look.GetInt64(message, &field));
      return;
    case Field::CPPTYPE_UINT32:
      out += std::to_string(many ? look.GetRepeatedUInt32(message, &field, index)
                                 : look.GetUInt32(message, &field));
      return;
    case Field::CPPTYPE_UINT64:
      out += std::to_string(many ? look.GetRepeatedUInt64(message, &field, index)
                                 : look.GetUInt64(message, &field));
      return;
    case Field::CPPTYPE_DOUBLE:
      return append_json_number(out, many ? look.GetRepeatedDouble(message, &field, index)
                                          : look.GetDouble(message, &field));
    case Field::CPPTYPE_FLOAT:
      return append_json_number(out, many ? look.GetRepeatedFloat(message, &field, index)
                                          : look.GetFloat(message, &field));
    case Field::CPPTYPE_BOOL:
      out += (many ? look.GetRepeatedBool(message, &field, index) : look.GetBool(message, &field))
                 ? "true"
                 : "false";
      return;
    case Field::CPPTYPE_ENUM:
      return append_json_string(
          out, (many ? look.GetRepeatedEnum(message, &field, index) : look.GetEnum(message, &field))
                   ->name());
    case Field::CPPTYPE_STRING:
      return append_json_string(out, many ? look.GetRepeatedString(message, &field, index)
                                          : look.GetString(message, &field));
    case Field::CPPTYPE_MESSAGE:
      return append_message(out, many ? look.GetRepeatedMessage(message, &field, index)
                                      : look.GetMessage(message, &field));
  }
}

void append_map(std::string& out, const pb::Message& message, const Field& field) {
  const pb::Reflection& look = *message.GetReflection();
  const Field& key = *field.message_type()->map_key();
  const Field& value = *field.message_type()->map_value();
  std::map<std::string, std::string> sorted;  // key, without quotes -> value
  for (int i = 0; i < look.FieldSize(message, &field); ++i) {
    const pb::Message& entry = look.GetRepeatedMessage(message, &field, i);
    std::string name;
    if (key.cpp_type() == Field::CPPTYPE_STRING) {
      name = entry.GetReflection()->GetString(entry, &key);
    } else {
      append_value(name, entry, key, -1);
    }
    append_value(sorted[name], entry, value, -1);
  }
  out += '{';
  for (const auto& [name, text] : sorted) {
    if (out.back() != '{') out += ',';
    append_json_string(out, name);
    out += ':' + text;
  }
  out += '}';
}

void append_field(std::string& out, const pb::Message& message, const Field& field) {
  if (field.is_map()) return append_map(out, message, field);
  if (!field.is_repeated()) return append_value(out, message, field, -1);
  out += '[';
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    if (i > 0) out += ',';
    append_value(out, message, field, i);
  }
  out += ']';
}

void append_message(std::string& out, const pb::Message& message) {
  out += '{';
  bool first = true;
  const pb::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const Field& field = *type.field(i);
    if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) continue;
    if (!first) out += ',';
    first = false;
    append_json_string(out, field.name());
    out += ':';
    append_field(out, message, field);
  }
  out += '}';
}

}  // namespace

std::string message_json(const pb::Message& message) {
  std::string out;
  append_message(out, message);
  return out;
}

}  // namespace gradus::triton
